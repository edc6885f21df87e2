"""Reports: make documents from the data frames of results."""
