"""One task a file: data with fixed splits, a loss, and one number that says how good."""
