"""The data sets that ship with the suite; README.md says how each was made."""
