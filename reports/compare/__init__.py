"""Comparison of two selections of an ablation's results."""
