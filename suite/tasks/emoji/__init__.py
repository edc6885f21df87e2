"""Tasks on pictures and words: the names of emoji, and their spatial relations."""
