"""Architectures that act: past states, actions and returns in, the next action out."""
