"""Runs one trial in one process."""
