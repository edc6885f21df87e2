"""The exhibit of the best learning rates: one row a mixer, one column a task."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from reports.document import NO_ENTRY, Column, Entry, Exhibit, Table, column_rows, readable
from reports.results.best_learning_rates import ANY_MIXER, Choice, choices, mixer_and_rate
from reports.stats.intervals import Estimate, for_scores
from suite.schema import About

_TITLE = "Chosen learning rates"
_SENTENCE = (
    "Of the rates that were tried alike for every mixer, the one with the best mean validation "
    "score, and by how much that beats the next best; of equal ones the smaller. No test split "
    "was read. The last row is for mixers that were not tried: the rate that ranks best on "
    "average. A small margin of few seeds may be luck."
)
_FOOTNOTE = "‡ The lowest or the highest rate that was tried: a better one may lie beyond."


def chosen_rates_exhibit(about: About, results: pd.DataFrame) -> Exhibit | None:
    """The table; None where the ablation is no sweep of rates by mixer."""
    found = [one for one in choices(results) if one.scale == about.scale]
    if not found:
        return None
    return Exhibit(title=_TITLE, sentences=(_SENTENCE,), tables=(_table(about, found),))


def _table(about: About, found: Sequence[Choice]) -> Table:
    chosen = {(one.task, one.mixer): one for one in found}
    mixers = dict.fromkeys(tried[0] for v in about.variants if (tried := mixer_and_rate(v)))
    names = {**{mixer: mixer for mixer in mixers}, ANY_MIXER: "any other"}
    columns = tuple(
        Column(
            key=task, title=readable(task), measured_unit="1", note="learning rate",
            entries={name: _entry(chosen.get((task, mixer))) for mixer, name in names.items()},
        )
        for task in about.tasks
        if (task, ANY_MIXER) in chosen
    )  # fmt: skip
    return Table(
        name="chosen-learning-rates", title=_TITLE, task="all tasks", row_title="mixer",
        columns=columns, rows=column_rows(columns, names.values()),
        footnotes=(_FOOTNOTE,) if any(one.is_at_edge for one in found) else (),
    )  # fmt: skip


def _entry(choice: Choice | None) -> Entry:
    if choice is None:
        return NO_ENTRY
    mark = "‡" if choice.is_at_edge else ""
    estimate = Estimate(n=1, point=choice.rate)
    return Entry(estimate=estimate, text=f"{choice.rate:g}{mark}", note=_margin(choice))


def _margin(choice: Choice) -> str:
    """As ``0.052 bit ahead of 0.01``."""
    if choice.margin is None or choice.next_best is None:
        return ""
    if math.isinf(choice.margin):
        return "all others diverged"
    if choice.margin == 0:
        return f"equal to {choice.next_best:g}"
    written = for_scores(choice.unit, [choice.margin], [])
    size = written.with_unit(written.write(choice.margin))
    return f"{size} ahead of {choice.next_best:g}"
