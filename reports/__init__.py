"""Build documents from the data frames of results."""
