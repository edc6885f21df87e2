"""Tasks on photos of everyday scenes, which people described."""
