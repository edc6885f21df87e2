"""Comparison of two editions of an ablation."""
