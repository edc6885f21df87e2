"""What tasks share: generated data, labelled examples and texts, windows of a text."""
