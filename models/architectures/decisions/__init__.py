"""Architectures that act: what was seen, done and asked for in, the next action out."""
