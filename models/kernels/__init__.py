"""Computations that several mixers share."""
