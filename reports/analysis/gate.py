"""Decides whether a claim on scores may be judged: its baseline must have learnt the task.

Models that do not beat a predictor without an architecture tell nothing about architectures,
however exact the interval between them is. So the whole interval of the baseline must lie beyond
the best floor of its task, on the same test split. Otherwise the claim is not tested at this scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.results.series import QUALITY, Series, floors_of
from reports.stats.intervals import Estimate, as_interval, for_scores, mean_interval
from suite.schema import FLOORS, About, ClaimSpec


def why_not_tested(about: About, claim: ClaimSpec, measured: Sequence[Series]) -> str:
    """What the baseline misses, as a clause; empty where nothing, or no score is claimed.

    Args:
        about: Names the baseline and the floors.
        claim: On a metric that was measured.
        measured: All series of the sweep, those of floors among them.
    """
    probes = {s.probe for s in measured if (s.task, s.metric) == (claim.task, claim.metric)}
    score = next((s for s in measured if s.task == claim.task and s.is_whole_score), None)
    if QUALITY not in probes or score is None:
        return ""
    floors = _floors(about, score, measured)
    scored = mean_interval([*score.values(about.baseline).values()])
    if not floors or scored.n < 2:
        return ""
    best = (max if score.better == "higher" else min)(floors, key=floors.__getitem__)
    if _is_beyond(scored, floors[best], score.better):
        return ""
    return _in_words(score, scored, best, floors[best])


def _floors(about: About, score: Series, measured: Sequence[Series]) -> Mapping[str, float]:
    """The score of each floor of the task, by label."""
    shown = floors_of(about, score)
    of_floors = (s for s in measured if s.probe == FLOORS or s is score)  # or beside it
    readings = {
        label: reading.value
        for series in of_floors
        if (series.task, series.metric) == (score.task, score.metric)
        for label, some in series.readings.items()
        for reading in some
        if reading.is_ok
    }
    return {label: readings[label] for label in shown if label in readings}


def _is_beyond(scored: Estimate, floor: float, better: str) -> bool:
    assert scored.low is not None, "two seeds at least have an interval"
    assert scored.high is not None, "two seeds at least have an interval"
    return scored.low > floor if better == "higher" else scored.high < floor


def _in_words(score: Series, scored: Estimate, label: str, floor: float) -> str:
    assert scored.point is not None, "two seeds at least have a mean"
    width = [] if scored.half_width is None else [scored.half_width]
    notation = for_scores(score.unit, width, [scored.point, floor])
    return (
        f"the baseline has not learnt {score.task}: its {score.metric.replace('_', ' ')} is "
        f"{notation.with_unit(notation.write(scored.point))} "
        f"{as_interval(scored, notation.write)}, and the floor {label} has "
        f"{notation.write(floor)}"
    )
