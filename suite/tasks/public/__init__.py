"""Data sets published by others: their metadata, and their download."""
