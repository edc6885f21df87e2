"""Tasks of the Long Range Arena and of long recall."""
