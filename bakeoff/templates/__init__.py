"""The files that `bakeoff new` writes under another name; each runs as it is."""
