"""Environments ("worlds"), recorded episodes to learn from, and the play of a model."""
