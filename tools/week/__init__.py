"""Simulates a week of use, and compares every number that is shown with the journals.

`python -m tools.week` runs it; `numbers.py` compares one output folder with its journal.
"""
