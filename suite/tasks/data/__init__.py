"""The data sets that ship with the suite; README.md describes how each was made."""
