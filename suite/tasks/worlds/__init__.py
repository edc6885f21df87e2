"""Worlds in which players act, episodes of theirs to learn from, and how a model plays."""
