"""Layers that several architectures of images share."""
