"""Softmax attention of which most pairs are left out, or estimated from a few landmarks."""
