"""Tasks that ask for the class of an image."""
