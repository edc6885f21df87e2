"""Tasks of the Long Range Arena and of recall over long distances."""
