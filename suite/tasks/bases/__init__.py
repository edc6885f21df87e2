"""Base classes of tasks: generated data, labelled examples and texts, windows of a text."""
