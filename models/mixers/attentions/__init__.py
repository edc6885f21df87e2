"""Variants of softmax attention."""
