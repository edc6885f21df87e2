"""Conversion of results to frames, and of frames to reports."""
