"""Decide whether a claim on scores may be judged: the models must have learnt the task.

Models that do not beat a predictor without an architecture give no information about architectures,
however narrow the interval of their difference is. So the whole interval of the baseline, and that
of the better side of the claim, must lie beyond the best floor of the task, on the same test split.
Otherwise the claim is not tested at this scale; a page shows the difference, but not as evidence.

The interval has a confidence of 99 %: a model exactly as good as the floor passes once in 200
sweeps, whatever the number of seeds, and a worse one less often. docs/statistics.md explains why.
"""

from __future__ import annotations

from collections.abc import Sequence

from bakeoff.reports.document import capitalized, listed
from bakeoff.reports.results.series import QUALITY, Series, beside_scores, floors_of
from bakeoff.reports.results.spoken_names import baseline_in_words, shown_name
from bakeoff.reports.stats.intervals import Estimate, as_interval, for_scores, mean_interval
from bakeoff.suite.schema import About, ClaimSpec, rests_on

CONFIDENCE = 0.99
_WAYS = (
    '; more steps or an easier task may change this, and probes=["validation"] without floors '
    "compares how fast the models learn"
)
_VALIDATION = "validation_"  # prefix of metric names
_ROUNDING = 1e-9  # relative to the floor; the mean of equal scores may be off by one bit


def why_not_tested(about: About, claim: ClaimSpec, measured: Sequence[Series]) -> str:
    """Return a clause on a model that has not learnt the claim's task; empty if there is none.

    Args:
        about: The description of the sweep, with its baseline and floors.
        claim: A claim on a metric that was measured.
        measured: All series of the sweep, floors as series of their own or beside the scores.
    """
    score = _claimed(claim, measured)
    if score is None or not floors_of(about, score):
        return ""
    floor = _best_floor(about, score)
    if floor is None:
        return f"no floor of {score.task} could be computed, so nothing shows what they have learnt"
    better = max((claim.a, claim.b), key=lambda side: _rank(score, _scored(score, side).point))
    for variant in (about.baseline, better):
        if score.of(variant) and not _beats(score, variant, floor[1]):
            name = "the baseline" if variant == about.baseline else shown_name(about, variant)
            return f"{name} has not learnt {score.task}: {_in_words(score, variant, *floor)}{_WAYS}"
    return ""


def what_no_floor_shows(about: About, claim: ClaimSpec, measured: Sequence[Series]) -> str:
    """Return a sentence on the part of the claim that the gate does not check; else empty."""
    score = _claimed(claim, measured)
    if score is None:
        if claim.metric.startswith(_VALIDATION):
            return "The claim is about validation data, for which no floor is known."
        return "The claim is not about a score, so floors do not apply." * (QUALITY in about.probes)
    labels = floors_of(about, score)
    if not labels:
        return (
            f"No floor of {score.task} is known, so nothing shows that the models have learnt the "
            "task."
        )
    missing = [label for label in labels if not score.values(label)]
    if missing:
        return f"Not computed, and therefore not required: the floor {listed(missing)}."
    if claim.metric != score.metric:
        return f"The floors are those of {score.metric}; no floor of {claim.metric} is known."
    return f"The floors are those of the whole score; no floor at {claim.at} is known." * bool(
        claim.at
    )


def best_floor(about: About, score: Series) -> tuple[str, float] | None:
    """Return the label and the score of the best floor of a task, or None if none is known."""
    return _best_floor(about, score)


def beats_floor(about: About, score: Series, variant: str) -> bool:
    """Return True if a variant is better than the best floor, or if no floor is known."""
    floor = _best_floor(about, score)
    return floor is None or _beats(score, variant, floor[1])


def below_floor(about: About, score: Series) -> str:
    """Return a sentence if the baseline does not beat the best floor of a task; else empty.

    Args:
        about: The description of the sweep, with its baseline and floors.
        score: The series that a table shows, with the readings of floors.
    """
    floor = _best_floor(about, score)
    if floor is None or _beats(score, about.baseline, floor[1]):
        return ""
    return (
        f"{capitalized(baseline_in_words(about))} does not beat the floor {floor[0]} here, so this "
        "table allows no conclusion about quality."
    )


def _claimed(claim: ClaimSpec, measured: Sequence[Series]) -> Series | None:
    """Return the whole score that the claim is on or rests on, or None if it is on no score."""
    scores = (s for s in beside_scores(measured) if s.is_whole_score and s.task == claim.task)
    return next((score for score in scores if rests_on(claim.metric, score.metric)), None)


def _best_floor(about: About, score: Series) -> tuple[str, float] | None:
    """Return the label and the score of the best floor, or None if none was computed."""
    found = {
        label: value for label in floors_of(about, score) for value in score.values(label).values()
    }
    return max(found.items(), key=lambda each: _rank(score, each[1]), default=None)


def _rank(score: Series, value: float | None) -> float:
    """Return a number that is larger for a better score."""
    if value is None:
        return float("-inf")
    return -value if score.better == "lower" else value


def _scored(score: Series, variant: str) -> Estimate:
    """Return the 99 % Student's t interval of a score; that of a share is clipped to 0 and 1."""
    found = mean_interval([*score.values(variant).values()], CONFIDENCE)
    return found.within(0.0, 1.0) if score.is_share else found


def _beats(score: Series, variant: str, floor: float) -> bool:
    """Return True if the whole interval is better than the floor; for a single seed, the score."""
    scored = _scored(score, variant)
    worst = scored.high if score.better == "lower" else scored.low
    nearest = scored.point if worst is None else worst
    return _rank(score, nearest) > _rank(score, floor) + _ROUNDING * abs(floor)


def _in_words(score: Series, variant: str, label: str, floor: float) -> str:
    scored = _scored(score, variant)
    if scored.point is None:
        return f"none of its seeds has a score, and the floor {label} has {floor:.4g}"
    width = [] if scored.half_width is None else [scored.half_width]
    notation = for_scores(score.unit, width, [scored.point, floor])
    interval = as_interval(scored, notation.write)
    return (
        f"its {score.metric.replace('_', ' ')} is "
        f"{notation.with_unit(notation.write(scored.point))}"
        f"{f' ({100 * CONFIDENCE:g} % interval {interval})' if interval else ''}, and the floor "
        f"{label} has {notation.write(floor)}"
    )
