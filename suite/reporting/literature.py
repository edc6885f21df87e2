"""Checks of the files of published figures, made before anything runs and without heavy imports."""

from bakeoff.reports.literature.csv import refuse_broken as refuse_broken_literature

__all__ = ["refuse_broken_literature"]
