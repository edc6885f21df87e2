"""Architectures that read an image, most of them together with text."""
