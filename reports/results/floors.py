"""Rows of floors: simple predictors shown beside the score of their task.

A floor is no variant: it has one reading and no seed, so that nothing is judged against it, and it
stands in no mean, no interval and no comparison of variants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reports.results.series import Series
from suite.schema import FLOORS, About

NOTE = "floor"  # of its row
FOOTNOTE = (
    "Floors need no architecture: they are computed once, without seeds, from the same training "
    "data, and scored on the same test split. Their differences are plain numbers."
)


def floors_of(about: About, series: Series) -> tuple[str, ...]:
    """The labels that stand beside a series: none but beside the whole score of a task.

    What a curve says at some step is no such score, though a table may show it as one.
    """
    scored = {spec.name for spec in about.metrics.get(series.task, {}).get(FLOORS, ())}
    is_theirs = series.is_whole_score and series.metric in scored
    return about.floors.get(series.task, ()) if is_theirs else ()


def beside_scores(measured: Iterable[Series]) -> tuple[Series, ...]:
    """The same, with the readings of floors in the score of their task, under their labels."""
    every = tuple(measured)
    floors = {(s.task, s.metric): s.readings for s in every if s.probe == FLOORS}
    return tuple(
        replace(s, readings={**s.readings, **floors.get((s.task, s.metric), {})})
        if s.is_whole_score
        else s
        for s in every
        if s.probe != FLOORS
    )
