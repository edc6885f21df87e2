"""Compare published scores with measured ones, for the same comparison.

Each score is shown as the difference to its own baseline, since scores of two tasks are not
comparable. `published/counterparts.csv` maps printed rows to variants, and describes how the paper
differs. Only figures that were checked against their paper are quoted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from bakeoff.reports.document import Column, Entry, Exhibit, ReportTable, column_rows, readable
from bakeoff.reports.literature.csv import COUNTERPARTS, PublishedError, rows_of
from bakeoff.reports.results.series import Series
from bakeoff.reports.results.spoken_names import shown_name
from bakeoff.reports.stats.intervals import (
    Estimate,
    Notation,
    as_interval,
    for_estimates,
    mean_interval,
    paired_differences,
)
from bakeoff.suite.schema import About

_BASELINE = "baseline"  # in the file, this is the ablation's baseline whatever its label
_LOWER_IS_BETTER = frozenset({"perplexity", "top1_error", "top5_error"})
_INTRODUCTION = (
    "This table compares published results with the results measured here. Each effect is the "
    "difference from its own baseline, or a fraction of it. Perplexities are converted to bits: "
    "the difference of their logarithms to base 2. A direction is open if the confidence interval "
    "measured here contains both directions."
)
_EXPLORATORY = "All rows are exploratory, except the one claim of this page."
_SHOWN = {"their effect": "published effect", "ours": "measured here"}  # the other titles: keys


@dataclass(frozen=True, kw_only=True)
class PrintedScore:
    """One score as a paper prints it.

    Attributes:
        system: The paper's name of the system.
        task: The paper's task.
        score: The score in our unit: percentages are converted to shares.
        text: The score as printed.
    """

    system: str
    task: str
    score: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """One printed comparison, and the variants with which it is compared.

    Attributes:
        ablation: The ablation of the variants.
        task: Our task.
        metric: Our metric.
        variant: The variant that corresponds to the paper's system.
        against: The variant that corresponds to its rival.
        published_metric: The paper's metric.
        printed: The printed figure, with that of the rival if there is one.
        low: The lower end of the paper's effect, in `unit`.
        high: Its upper end; equal to `low` if the paper gives no range.
        decimals: Digits after the point of the effect.
        unit: The unit of `low` and `high`.
        is_share: Whether the effect is a share of the rival, in percent; else a difference.
        is_better: Whether the paper found the system better than its rival, or None if it found no
            difference.
        source: The paper, and where in it the figure is printed.
        differs: How the paper's setting differs from ours; empty if it does not.
        mine: The printed score of the system, or None if the paper does not print it.
        theirs: The printed score of the rival, or None if the paper does not print it.
    """

    ablation: str
    task: str
    metric: str
    variant: str
    against: str
    published_metric: str
    printed: str
    low: float
    high: float
    decimals: int
    unit: str
    is_share: bool
    is_better: bool | None
    source: str
    differs: str
    mine: PrintedScore | None = None
    theirs: PrintedScore | None = None

    @property
    def name(self) -> str:
        """The name of the row."""
        return f"{self.variant} against {self.against}: {readable(self.published_metric)}"

    def shown(self, about: About) -> str:
        """Return the name of the row for readers."""
        a, b = (shown_name(about, variant) for variant in (self.variant, self.against))
        return f"{a} against {b}: {readable(self.published_metric)}"


def published_exhibit(about: About, measured: Sequence[Series]) -> Exhibit | None:
    """Return the printed figures for variants of this ablation, or None if there are none."""
    kept = [
        replace(one, against=about.baseline) if one.against == _BASELINE else one
        for one in counterparts()
        if one.ablation == about.ablation and one.task in about.tasks
    ]
    if not any(one.variant in about.variants for one in kept):
        return None
    table = _table(about, measured, kept)
    sentences = (_INTRODUCTION, _EXPLORATORY)
    return Exhibit(title=table.title, sentences=sentences, tables=(table,))


@cache
def counterparts() -> tuple[Counterpart, ...]:
    """Return every pair of a printed figure and a variant, in the order of the file.

    Raises:
        PublishedError: for an invalid file; or if a row names a figure that its file lacks, or one
            that was not checked.
    """
    return tuple(_counterpart(row) for row in rows_of(COUNTERPARTS))


def _counterpart(row: Mapping[str, str]) -> Counterpart:
    mine = _printed(row, row["system"], row["condition"])
    theirs = _printed(row, row["rival"], row["rival_condition"]) if row["rival"] else None
    low, high, decimals, unit = _effect(row["kind"], mine, theirs)
    even = 100.0 if row["kind"] == "ratio" else 0.0
    sign = -1 if row["published_metric"] in _LOWER_IS_BETTER else 1
    is_certain = (low - even) * (high - even) > 0
    own = {name: row[name] for name in ("ablation", "task", "metric", "variant", "against")}
    return Counterpart(
        **own,
        published_metric=row["published_metric"],
        printed=_text(mine, theirs),
        low=low,
        high=high,
        decimals=decimals,
        unit=unit,
        is_share=row["kind"] == "ratio",
        is_better=sign * (low - even) > 0 if is_certain else None,
        source=f"{mine['source']}, {mine['where']}",
        differs=row["differs"],
        mine=_score(mine),
        theirs=_score(theirs),
    )


def _score(printed: Mapping[str, str] | None) -> PrintedScore | None:
    if printed is None or not printed["value"]:
        return None
    share = 100.0 if printed["unit"] == "percent" else 1.0
    return PrintedScore(
        system=printed["system"],
        task=printed["condition"],
        score=float(printed["value"]) / share,
        text=printed["value"],
    )


def _printed(row: Mapping[str, str], system: str, condition: str) -> Mapping[str, str]:
    """Return the checked figure that the row names."""
    wanted = {"system": system, "condition": condition, "metric": row["published_metric"]}
    for one in rows_of(row["file"]):
        if wanted.items() <= one.items() and one["checked"] == "yes":
            return one
    raise PublishedError(f"{row['file']} has no checked row with {wanted}.")


def _effect(
    kind: str, mine: Mapping[str, str], theirs: Mapping[str, str] | None
) -> tuple[float, float, int, str]:
    """Return low, high, decimals and unit of the paper's effect."""
    if theirs is None:
        ends = [float(mine[name] or mine["value"]) for name in ("low", "high")]
        return ends[0], ends[1], 0, "%"
    a, b = float(mine["value"]), float(theirs["value"])
    if kind == "bits":
        bits = math.log2(a / b)
        return bits, bits, 3, f"bit {mine['unit']}"
    decimals = max(len(one["value"].partition(".")[2]) for one in (mine, theirs))
    unit = "points" if mine["unit"] == "percent" else mine["unit"]
    return a - b, a - b, decimals, unit


def _text(mine: Mapping[str, str], theirs: Mapping[str, str] | None) -> str:
    unit = {"percent": "%"}.get(mine["unit"], mine["unit"])
    if theirs is None:
        ends = f"{mine['low']} to {mine['high']}"
        return f"{mine['value'] or ends} {unit}"
    return f"{mine['value']} against {theirs['value']} {unit}"


def _table(about: About, measured: Sequence[Series], kept: Sequence[Counterpart]) -> ReportTable:
    ours = [_ours(about, measured, one) for one in kept]
    names = _names(kept, [one.name for one in kept])
    shown = dict(zip(names, _names(kept, [one.shown(about) for one in kept]), strict=True))
    titled = {
        "published": [Entry(text=one.printed) for one in kept],
        "their effect": [Entry(text=_theirs(one)) for one in kept],
        "ours": [entry for entry, _ in ours],
        "same direction?": [
            Entry(text=_direction(one, entry, is_better))
            for one, (entry, is_better) in zip(kept, ours, strict=True)
        ],
        "comparable?": [Entry(text=f"no: {one.differs}" if one.differs else "yes") for one in kept],
    }
    columns = tuple(
        Column(
            key=title.rstrip("?").replace(" ", "_"),
            title=_SHOWN.get(title, title),
            entries=dict(zip(names, entries, strict=True)),
        )
        for title, entries in titled.items()
    )
    sources = {name: one.source for name, one in zip(names, kept, strict=True)}
    return ReportTable(
        name="published-scores",
        title="Published and measured results",
        task=kept[0].task,
        row_title="comparison",
        columns=columns,
        rows=column_rows(columns, names, sources, shown=shown),
    )


def _names(kept: Sequence[Counterpart], names: Sequence[str]) -> list[str]:
    """Return the names of the rows, with the task if there are several."""
    if len({one.task for one in kept}) == 1:
        return [*names]
    return [f"{one.task.replace('_', ' ')}: {name}" for one, name in zip(kept, names, strict=True)]


def _theirs(one: Counterpart) -> str:
    """Return the paper's effect as text: ``−0.9 BLEU (worse)``."""
    sides = {True: "better", False: "worse", None: "no difference"}
    if one.is_share:
        return f"{one.low:.0f} to {one.high:.0f} % ({sides[one.is_better]})"
    size = Notation(decimals=one.decimals).write_signed(one.low)
    return f"{size} {one.unit} ({sides[one.is_better]})"


def _ours(about: About, measured: Sequence[Series], one: Counterpart) -> tuple[Entry, bool | None]:
    """Return our effect as an entry, and whether it is better, or None if that is open."""
    scores = [series for series in measured if series.is_whole_score]
    found = [s for s in scores if (s.task, s.metric) == (one.task, one.metric)]
    if one.variant not in about.variants or one.against not in about.variants or not found:
        return Entry(text="not among the variants here", tone="none"), None
    effect, unit, even = _effect_of_ours(found[0], one)
    if effect.point is None:
        return Entry(estimate=effect, text="no result", tone="none"), None
    is_better, tone = None, ""
    if effect.low is not None and effect.high is not None and found[0].better != "none":
        is_certain = (effect.low - even) * (effect.high - even) > 0
        is_better = (effect.point > even) == (found[0].better == "higher") if is_certain else None
        tone = {True: "better", False: "worse", None: ""}[is_better]
    text = _written(effect, unit, even)
    return Entry(estimate=effect, text=text, note=tone, tone=tone), is_better


def _effect_of_ours(series: Series, one: Counterpart) -> tuple[Estimate, str, float]:
    """Return our effect, its unit, and the value that means no effect."""
    mine, theirs = series.values(one.variant), series.values(one.against)
    if one.is_share:
        both = sorted(mine.keys() & theirs.keys())
        shares = [100 * mine[seed] / theirs[seed] for seed in both if theirs[seed]]
        return mean_interval(shares), "%", 100.0
    is_in_points = one.unit == "points" and series.unit == "1"
    differences = paired_differences(mine, theirs)
    scaled = [100 * d for d in differences] if is_in_points else differences
    unit = "points" if is_in_points else "" if series.unit == "1" else series.unit
    most = 100.0 if is_in_points else 1.0
    found = mean_interval(scaled)
    return found.within(-most, most) if series.is_share else found, unit, 0.0


def _written(effect: Estimate, unit: str, even: float) -> str:
    """Return the effect with its interval as text, so that every document format contains both."""
    assert effect.point is not None, "the caller has shown what has no number"
    notation = for_estimates("1", [effect])
    write = notation.write if even else notation.write_signed
    return " ".join(filter(None, (write(effect.point), unit, as_interval(effect, write))))


def _direction(one: Counterpart, ours: Entry, is_better: bool | None) -> str:
    if one.is_better is None or ours.estimate.point is None:
        return "–"
    if is_better is None:
        return "open"
    return "yes" if is_better == one.is_better else "no"
