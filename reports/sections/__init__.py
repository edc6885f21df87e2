"""Exhibits of a page: a file has the data, the tables and the figures of one exhibit."""
