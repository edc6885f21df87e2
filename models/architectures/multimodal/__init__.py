"""Architectures that read an image beside words."""
