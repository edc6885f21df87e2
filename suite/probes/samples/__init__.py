"""Samples of a trained model for people to look at."""
