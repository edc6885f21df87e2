"""Sections of a page: each module has the data, the tables and the figures of one topic."""
