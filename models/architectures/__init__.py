"""Architectures, one per file."""
