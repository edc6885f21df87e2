"""Softmax attention over few pairs of tokens, or approximated from a few landmarks."""
