"""The best learning rate of each mixer on each task, from a sweep over rates.

    python -m reports.results.best_learning_rates RESULTS_CSV > ablations/learning_rates.csv

Of all rates the one with the best mean validation score over seeds; of equal ones the smaller. A
rate at which a seed diverged counts as the worst. A mixer that lacks a measurement at any rate has
no row, since its rates would not have been tried alike. The row of any other mixer (`*`) is the
rate that ranks best on average over the mixers that have one.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from reports.results.variant_labels import named_values
from suite.schema import Status

ANY_MIXER = "*"
HEADER = ("scale", "task", "architecture", "mixer", "learning_rate")
PROBE = "validation"
_NEEDED = ("scale", "variant", "seed", "task", "probe", "value", "better", "unit", "status")
_SCALES = ("quick", "standard", "paper")
_DIVERGED = -math.inf


class NoRates(ValueError):
    """Results that no rate can be chosen by: one sentence."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The rate of one mixer on one task.

    Attributes:
        mixer: Its name as `mixer_and_rate` has it, or `ANY_MIXER`.
        unit: Of the margin.
        margin: By how much the mean score beats that of `next_best`; infinite where all others
            diverged. None for any mixer, where only ranks count, and of a single rate.
        next_best: The rate that comes second.
        is_at_edge: Whether it is the lowest or the highest of the rates that were tried.
    """

    scale: str
    task: str
    mixer: str
    rate: float
    unit: str = ""
    margin: float | None = None
    next_best: float | None = None
    is_at_edge: bool = False


def choices(results: pd.DataFrame) -> tuple[Choice, ...]:
    """The rate of each mixer on each task at each scale, `ANY_MIXER` last.

    Args:
        results: With the columns of `results.csv`; rows that are of no rate are left aside.
    """
    tried = _tried(results)
    return tuple(
        choice
        for scale in sorted(tried["scale"].unique(), key=_size)
        for task in tried.loc[tried["scale"] == scale, "task"].unique()
        for choice in _of_task(tried[(tried["scale"] == scale) & (tried["task"] == task)])
    )


def mixer_and_rate(variant: str) -> tuple[str, float] | None:
    """Of a label as ``mixer=lstm, learning_rate=0.01``; None of any other.

    In a named architecture the mixer is ``tagger/lstm``; ``cnn/`` is one without a mixer.
    """
    named = named_values(variant)
    rate, mixer = named.pop("learning_rate", ""), named.pop("mixer", "")
    architecture = named.pop("architecture", "")
    if named or not (mixer or architecture):
        return None
    try:
        return f"{architecture}/{mixer}" if architecture else mixer, float(rate)
    except ValueError:
        return None


def _tried(results: pd.DataFrame) -> pd.DataFrame:
    """Trials that ran, one row a seed: mixer, rate, and how good, higher being better."""
    rows = results[(results["probe"] == PROBE) & (results["status"] != Status.SKIPPED)]
    labels = rows["variant"].map(mixer_and_rate)
    rows, labels = rows[labels.notna()], labels.dropna()
    return rows.assign(
        mixer=[mixer for mixer, _ in labels],
        rate=[rate for _, rate in labels],
        goodness=[_goodness(row) for row in rows.to_dict("records")],
    )


def _goodness(row: dict[Any, Any]) -> float:
    """NaN where there is no result."""
    if row["status"] == Status.DIVERGED:
        return _DIVERGED
    if row["status"] != Status.OK:
        return math.nan
    return float(row["value"]) * (-1 if row["better"] == "lower" else 1)


def _of_task(tried: pd.DataFrame) -> Iterator[Choice]:
    """On one task at one scale; a mean over seeds is NaN where one of them has no result."""
    by_seed = tried.groupby(["mixer", "rate", "seed"], sort=False)["goodness"].max()
    means = by_seed.unstack("seed").mean(axis=1, skipna=False).unstack("rate").dropna()
    means = means.sort_index(axis=1)
    means = means[(means > _DIVERGED).any(axis=1)]
    if means.empty:
        return
    first = tried.iloc[0]
    whole = Choice(
        scale=str(first["scale"]), task=str(first["task"]), mixer=ANY_MIXER,
        rate=_best_ranked(means), unit=str(first["unit"]),
    )  # fmt: skip
    for mixer in [name for name in tried["mixer"].unique() if name in means.index]:
        yield _chosen(replace(whole, mixer=str(mixer)), means.loc[mixer])
    yield whole


def _best_ranked(means: pd.DataFrame) -> float:
    """By average rank over mixers; of equal ones the smaller, since rates ascend."""
    ranks = means.rank(axis=1, ascending=False).mean()
    return float(ranks.index.to_numpy()[int(ranks.to_numpy().argmin())])


def _chosen(choice: Choice, means: pd.Series[float]) -> Choice:
    """With the best of the mean scores by rate, the rates ascending."""
    by_rate = dict(zip(means.index.tolist(), means.tolist(), strict=True))
    best, *others = sorted(by_rate, key=lambda rate: (-by_rate[rate], rate))
    if not others:
        return replace(choice, rate=best)
    return replace(
        choice, rate=best, next_best=others[0], margin=by_rate[best] - by_rate[others[0]],
        is_at_edge=best in (min(by_rate), max(by_rate)),
    )  # fmt: skip


def _size(scale: str) -> tuple[int, str]:
    return (_SCALES.index(scale) if scale in _SCALES else len(_SCALES), scale)


def read_results(path: Path) -> pd.DataFrame:
    """The `results.csv` of a report.

    Raises:
        NoRates: if it is missing, no such table, or holds nothing to choose by.
    """
    try:
        results = pd.read_csv(path, keep_default_na=False, na_values={"value": [""]})
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise NoRates(f"{path} cannot be read as results: {str(error).splitlines()[0]}") from None
    missing = [name for name in _NEEDED if name not in results.columns]
    if missing:
        raise NoRates(f"{path} has no column {missing[0]!r}; the results.csv of a report has.")
    if _tried(results).empty:
        raise NoRates(
            f"{path} has no result of the probe {PROBE!r} for a variant like "
            "'mixer=lstm, learning_rate=0.01'."
        )
    return results


def _row(chosen: Choice) -> tuple[str, ...]:
    architecture, _, mixer = chosen.mixer.rpartition("/")
    return chosen.scale, chosen.task, architecture, mixer, repr(chosen.rate)


def main(arguments: Sequence[str]) -> int:
    """Print the table of chosen rates; 2 and one sentence where that cannot be."""
    if len(arguments) != 1:
        print("usage: python -m reports.results.best_learning_rates RESULTS_CSV", file=sys.stderr)
        return 2
    try:
        chosen = choices(read_results(Path(arguments[0])))
    except NoRates as error:
        print(error, file=sys.stderr)
        return 2
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(HEADER)
    out.writerows(_row(one) for one in chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
