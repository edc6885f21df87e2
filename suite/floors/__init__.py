"""Predictors without an architecture: one simple method a file, scored as models are."""
