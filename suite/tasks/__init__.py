"""The tasks, one per file: data with fixed splits, a loss and one metric."""
