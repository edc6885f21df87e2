"""Predictors without an architecture: one method a file, scored as models are."""
