"""Predict what the planned seeds can detect, from the spread of earlier results."""

from __future__ import annotations

from collections.abc import Sequence

from bakeoff.reports.analysis.claim_data import pairs_so_far
from bakeoff.reports.results.series import Series
from bakeoff.reports.stats.intervals import for_scores, standard_deviation
from bakeoff.reports.stats.significance import (
    MIN_PAIRS,
    MOST_SEEDS,
    POWER,
    num_seeds_to_find,
    smallest_effect,
)
from bakeoff.suite.schema import About


def power_in_words(about: About, measured: Sequence[Series], num_seeds: int) -> str:
    """Return a sentence on the effect that the seeds can detect.

    The sentence is empty if the claim is not on scores, or if too few pairs show a spread.

    Args:
        about: The description of the ablation, with its claim.
        measured: Series of the same ablation, from this edition or an earlier one.
        num_seeds: The planned number of seeds.
    """
    found = pairs_so_far(about, measured)
    if found is None or found.series is None or found.series.is_bound_to_environment:
        return ""
    num_pairs, by = len(found.differences), found.claim.by
    spread = standard_deviation(found.differences)
    if num_pairs < MIN_PAIRS or num_seeds < MIN_PAIRS or not spread:
        return ""
    effect = smallest_effect(spread, num_seeds, num_pairs=num_pairs)
    notation = for_scores(found.series.unit, [], [effect])
    text = (
        f"{num_seeds} seeds detect a difference of {notation.with_unit(notation.write(effect))} in "
        f"{100 * POWER:.0f} of 100 sweeps, given the spread of {num_pairs} earlier pairs "
        f"({notation.write(spread)})"
    )
    if not 0 < by < effect:
        return f"{text}."
    needed = num_seeds_to_find(by, spread, num_pairs=num_pairs)
    asked = f"more than {MOST_SEEDS:,}" if needed is None else f"about {needed:,}"
    return f"{text}. The claimed size is {by:g}, which needs {asked} seeds."
