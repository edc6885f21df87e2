"""Results to frames, and frames to reports."""
