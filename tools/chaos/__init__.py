"""Faults on purpose: does a sweep lose, double or change anything when what it stands on dies?

`make chaos` runs it; docs/reliability.md says what it shows. The product knows nothing of this
folder: every fault comes from outside, by a signal, or by wrapping a function (`faults.py`).
"""
