"""The results frame and the series read from it."""
