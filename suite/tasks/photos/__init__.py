"""Tasks on photos of everyday scenes with captions."""
