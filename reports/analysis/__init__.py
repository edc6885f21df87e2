"""Claims, comparisons and cost models computed from results."""
