"""Injects faults into real sweeps and counts results that are lost, doubled or changed.

`make chaos` runs it; docs/reliability.md says what it shows. The product knows nothing of this
folder: every fault comes from outside, by a signal, or by wrapping a function (`faults.py`).
"""
