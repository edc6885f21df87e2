"""One kind of measurement a file."""
