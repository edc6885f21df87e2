"""Injects faults into real sweeps and counts results that are lost, doubled or changed.

`make chaos` runs it; docs/reliability.md shows the figures. The product has no code for this
folder: every fault comes from outside, as a signal, or as a wrapped function (`faults.py`).
`make week` runs a week of use and compares every number that is shown with the journals.
"""
