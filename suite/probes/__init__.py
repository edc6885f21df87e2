"""Probes, one kind of measurement per file."""
