"""From an ablation to its plan: load, expand, resolve, check and estimate. Pure functions."""
