"""Tasks on pictures and words: what emoji are called, and how they lie to each other."""
