"""Data sets that others publish: what is known of each, and how it is fetched."""
