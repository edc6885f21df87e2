"""Interleaved timing of several candidates, with confidence intervals."""
