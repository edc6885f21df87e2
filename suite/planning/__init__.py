"""Ablation to plan: load, expand, resolve, check and estimate. Pure functions."""
