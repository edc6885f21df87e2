"""Measures what one visit to a machine with a GPU should bring home; see docs/gpu/README.md."""
