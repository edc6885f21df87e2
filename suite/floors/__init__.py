"""Predictors without an architecture, scored in the same way as models."""
