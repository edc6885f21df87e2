"""Tasks of the user's own: classes named ``module:Class``, and data named by their file."""
