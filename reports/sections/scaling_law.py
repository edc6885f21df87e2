"""Show scaling laws: trainings, fits, predictions, and the best size for a budget of FLOPs.

An ablation names the axes along which size and data grow, and the values that it holds out. The
variants that agree on all other axes form a group, with a law of its own
(`bakeoff.reports.analysis.scaling_law`). Held-out trainings are never among the points of a fit.

Hoffmann et al. 2022 (arXiv:2203.15556), approach 2, train many sizes to the same FLOPs. Here the
loss of a size is interpolated between its own trainings, linearly on logarithmic axes; each of
these trainings has its own cooldown of the learning rate. FLOPs of a token come from the models'
formulas and not from 6 N, since embeddings and attention count for much in a small model.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, LogLocator

from bakeoff.reports.analysis.cost import num_steps, setting, variant_costs
from bakeoff.reports.analysis.scaling_law import (
    FittedLaw,
    Quantity,
    ScalingPoint,
    TooFewPoints,
    exponent_difference,
    fitted_law,
    fitted_number,
)
from bakeoff.reports.document import (
    NO_ENTRY,
    Column,
    Drawing,
    Entry,
    Exhibit,
    ReportTable,
    Row,
    Section,
    View,
    capitalized,
    column_rows,
    listed,
    readable,
)
from bakeoff.reports.escape import slug
from bakeoff.reports.literature.csv import rows_of
from bakeoff.reports.plots.line_chart import LineChart, PlotAxis, Stroke, draw
from bakeoff.reports.plots.style import MAX_LINES, axis_title, caption, line_look, marker, with_unit
from bakeoff.reports.results.axis_values import as_text, number, values_of
from bakeoff.reports.results.series import Series, num_expected
from bakeoff.reports.results.spoken_names import proper_name, shown_names
from bakeoff.reports.stats.intervals import (
    CONFIDENCE,
    Estimate,
    Notation,
    as_interval,
    for_estimates,
    mean_interval,
    rounded,
)
from bakeoff.reports.stats.log_means import Array
from bakeoff.reports.tables.marks import PARTIAL
from bakeoff.suite.schema import About
from bakeoff.suite.schema.old_labels import Value

_UNIT = "bit"
_PARAMETERS, _FLOPS, _LENGTH = "num_parameters", "forward_flops", "length"
ALL_TRAININGS = "all trainings"


@dataclass(frozen=True, kw_only=True)
class LawVariant:
    """A variant whose size, data and loss are known.

    Attributes:
        flops: The FLOPs of one training, or None if they are unknown.
        num_missing: The number of planned seeds without a loss.
        shown: The name of the variant on a page.
    """

    variant: str
    point: ScalingPoint
    flops: float | None
    num_missing: int
    shown: str

    @property
    def loss(self) -> Estimate:
        """The mean over seeds, and its interval."""
        return mean_interval(sorted(self.point.losses))

    @property
    def mean(self) -> float:
        """The mean of the losses."""
        return math.fsum(self.point.losses) / len(self.point.losses)


@dataclass(frozen=True, kw_only=True)
class LawPrediction:
    """The prediction of a law for a larger training, with the measured loss.

    Attributes:
        predicted: The prediction, with the interval that contains 95 % of such trainings if the
            law extrapolates.
    """

    larger: LawVariant
    predicted: Estimate

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the interval."""
        low, high = self.predicted.low, self.predicted.high
        assert low is not None, "a prediction has an interval"
        assert high is not None, "and that has two ends"
        return low, high

    @property
    def is_inside(self) -> bool:
        """True if the measured mean lies within the interval."""
        low, high = self.ends
        return low <= self.larger.mean <= high

    @property
    def miss(self) -> float:
        """The measured loss minus the predicted one: negative if the training is better."""
        assert self.predicted.point is not None, "a prediction has a number"
        return self.larger.mean - self.predicted.point


@dataclass(frozen=True, kw_only=True)
class LawGroup:
    """Variants that differ in size and data alone.

    Attributes:
        name: The name of the group, such as ``mixer=attention``.
        others: The values on the axes other than size and data.
        index: The position among the groups.
        seen: The variants that the law is fitted to, in the order of the ablation.
        held_out: The variants that the law predicts.
        num_lost: The number of variants without a loss of any seed.
    """

    name: str
    others: Mapping[str, Value]
    index: int
    seen: tuple[LawVariant, ...]
    held_out: tuple[LawVariant, ...]
    num_lost: int

    @property
    def short_name(self) -> str:
        """The name without its axes, such as ``attention``."""
        return ", ".join(proper_name(as_text(value)) for value in self.others.values()) or self.name

    @cached_property
    def _law_or_reason(self) -> FittedLaw | str:
        try:
            return fitted_law([one.point for one in self.seen], self.name)
        except TooFewPoints as reason:
            return str(reason)

    @property
    def law(self) -> FittedLaw | None:
        """The law, or None if `why_no_law` gives a reason."""
        found = self._law_or_reason
        return None if isinstance(found, str) else found

    @property
    def why_no_law(self) -> str:
        """The reason why there is no law, or empty if there is one."""
        found = self._law_or_reason
        return found if isinstance(found, str) else ""

    @property
    def predictions(self) -> tuple[LawPrediction, ...]:
        """A prediction for each held-out variant; empty without a law."""
        law = self.law
        if law is None:
            return ()
        return tuple(
            LawPrediction(
                larger=one, predicted=law.predicted(one.point.num_parameters, one.point.num_tokens)
            )
            for one in self.held_out
        )

    @property
    def num_missing(self) -> int:
        """The number of seeds without a loss, of variants that the law is fitted to."""
        return sum(one.num_missing for one in self.seen)

    def flops_per_token(self) -> Callable[[float], float] | None:
        """Return training FLOPs per token as a function of parameters, or None if unknown."""
        known = {
            one.point.num_parameters: one.flops / one.point.num_tokens
            for one in (*self.seen, *self.held_out)
            if one.flops
        }
        return _power_between(dict(sorted(known.items()))) if len(known) > 1 else None


def law_groups(about: About, measured: Sequence[Series], task: str) -> tuple[LawGroup, ...]:
    """Return a group for each combination of the other axes; empty without held-out values.

    Args:
        about: The sweep, which names the axes and the held-out values.
        measured: All series of the sweep.
        task: The name of a task that is scored by a loss in bits.
    """
    scores = [s for s in measured if s.task == task and s.is_whole_score and s.unit == _UNIT]
    if not about.held_out or not scores:
        return ()
    found = {one.variant: one for one in _variants(about, measured, scores[0])}
    groups: dict[tuple[tuple[str, Value], ...], list[str]] = {}
    for variant in about.variants:
        named = values_of(about, variant)
        if about.held_out.keys() <= named.keys():
            rest = tuple((n, v) for n, v in named.items() if n not in about.held_out)
            groups.setdefault(rest, []).append(variant)
    return tuple(
        _group(about, dict(rest), index, variants, found)
        for index, (rest, variants) in enumerate(groups.items())
    )


def _group(
    about: About,
    others: Mapping[str, Value],
    index: int,
    variants: Sequence[str],
    found: Mapping[str, LawVariant],
) -> LawGroup:
    name = ", ".join(f"{axis}={as_text(value)}" for axis, value in others.items())
    here = [found[variant] for variant in variants if variant in found]
    return LawGroup(
        name=name or ALL_TRAININGS,
        others=others,
        index=index,
        seen=tuple(one for one in here if not _is_held_out(about, one.variant)),
        held_out=tuple(one for one in here if _is_held_out(about, one.variant)),
        num_lost=len(variants) - len(here),
    )


def _is_held_out(about: About, variant: str) -> bool:
    named = values_of(about, variant)
    return all(number(named[name]) == value for name, value in about.held_out.items())


def _variants(about: About, measured: Sequence[Series], score: Series) -> Iterator[LawVariant]:
    """Yield the variants that have parameters, tokens and a positive loss."""
    sizes = _first(measured, score.task, _PARAMETERS)
    counted = _first(measured, score.task, _FLOPS)
    costs = {cost.key: cost.amounts for cost in variant_costs(about, measured, score.task)}
    names = shown_names(about)
    for variant in about.variants:
        parameters = sizes.values(variant) if sizes else {}
        num_sequences = num_steps(about, variant, score.task) * setting(about, variant, "batch")
        num_tokens = num_sequences * _length(about, variant, counted)
        losses = {seed: loss for seed, loss in score.values(variant).items() if loss > 0}
        if not (parameters and num_tokens and losses):
            continue
        yield LawVariant(
            variant=variant,
            shown=names[variant],
            flops=costs.get("flops", {}).get(variant),
            num_missing=max(0, num_expected(score, about) - len(losses)),
            point=ScalingPoint(
                num_parameters=float(min(parameters.values())),
                num_tokens=float(num_tokens),
                losses=tuple(losses[seed] for seed in sorted(losses)),
            ),
        )


def _first(measured: Sequence[Series], task: str, metric: str) -> Series | None:
    return next((s for s in measured if (s.task, s.metric) == (task, metric)), None)


def _length(about: About, variant: str, counted: Series | None) -> int:
    """Return the tokens of a sequence, from the count of FLOPs or else from the scale."""
    at = [r.coordinates.get(_LENGTH) for r in counted.of(variant)] if counted else []
    return next((n for n in at if isinstance(n, int)), setting(about, variant, _LENGTH))


def _power_between(known: Mapping[float, float]) -> Callable[[float], float]:
    """Return a function through all points that is piecewise linear on logarithmic axes."""
    logs = [(math.log(x), math.log(y)) for x, y in known.items()]

    def found(x: float) -> float:
        at = math.log(x)
        pairs = list(pairwise(logs))
        inside = [pair for pair in pairs if at <= pair[1][0]]
        (x0, y0), (x1, y1) = inside[0] if inside else pairs[-1]
        return math.exp(y0 + (y1 - y0) * (at - x0) / (x1 - x0))

    return found


# Budgets of FLOPs

NUM_BUDGETS = 4
_LEAST_SIZES = 3  # with a measured loss at a budget
_BEYOND = 30.0  # the best size is searched up to this factor beyond the trained sizes
_NUM_SIZES = 241


@dataclass(frozen=True, kw_only=True)
class FlopsBudget:
    """One amount of training FLOPs.

    Attributes:
        measured: Parameters -> loss, interpolated between trainings of that size.
        curve: Parameters -> loss by the law, in ascending order.
        best_size: The number of parameters with the lowest loss by the law. It has no interval if
            too many bootstrap draws have no minimum in the searched range, and no point if the
            fit has none.
        best_loss: The loss at that size.
    """

    flops: float
    measured: dict[float, float]
    curve: dict[float, float]
    best_size: Estimate
    best_loss: float

    @property
    def is_identified(self) -> bool:
        """True if the best size has an interval."""
        return self.best_size.low is not None


def flops_budgets(group: LawGroup) -> tuple[FlopsBudget, ...]:
    """Return budgets at which at least three sizes were trained; none without a law or FLOPs."""
    law, per_token = group.law, group.flops_per_token()
    lines = _lines(group.seen)
    amounts = _amounts(list(lines.values()))
    if law is None or per_token is None or not amounts:
        return ()
    known = sorted(lines)
    sizes = np.geomspace(known[0] / _BEYOND, known[-1] * _BEYOND, _NUM_SIZES)
    costs = np.array([per_token(size) for size in sizes])
    return tuple(_budget(law, flops, lines, sizes, costs) for flops in amounts)


def frontier(group: LawGroup, amounts: Sequence[float]) -> dict[float, float]:
    """Return FLOPs -> the lowest loss by the law within the trained sizes; may be empty."""
    law, per_token = group.law, group.flops_per_token()
    if law is None or per_token is None:
        return {}
    known = [one.point.num_parameters for one in (*group.seen, *group.held_out)]
    sizes = np.geomspace(min(known), max(known), _NUM_SIZES)
    costs = np.array([per_token(size) for size in sizes])
    every = np.array(amounts)[:, None]
    found = law.best.log_losses(np.tile(sizes, len(amounts)), (every / costs).ravel())
    lowest = found.reshape(len(amounts), len(sizes)).min(axis=1)
    return {flops: fitted_number(math.exp(y)) for flops, y in zip(amounts, lowest, strict=True)}


def _budget(
    law: FittedLaw,
    flops: float,
    lines: dict[float, dict[float, float]],
    sizes: Array,
    costs: Array,
) -> FlopsBudget:
    fitted = law.best.log_losses(sizes, flops / costs)[0]
    drawn = law.draws.log_losses(sizes, flops / costs)
    measured = {size: _between(line, flops) for size, line in sorted(lines.items())}
    least, most = min(lines) / 2, max(lines) * 2
    return FlopsBudget(
        flops=flops,
        measured={size: loss for size, loss in measured.items() if loss is not None},
        curve={
            float(n): fitted_number(math.exp(y))
            for n, y in zip(sizes, fitted, strict=True)
            if least <= n <= most
        },
        best_size=_best_size(law, sizes, fitted, drawn),
        best_loss=fitted_number(math.exp(fitted.min())),
    )


def _best_size(law: FittedLaw, sizes: Array, fitted: Array, drawn: Array) -> Estimate:
    best, lowest, last = int(np.argmin(fitted)), drawn.argmin(axis=1), len(sizes) - 1
    n = len(law.points)
    if best in (0, last):
        return Estimate(n=n)
    point = math.log(sizes[best])
    if np.isin(lowest, (0, last)).mean() > (1 - CONFIDENCE) / 2:
        return Estimate(n=n, point=_three_digits(math.exp(point)))
    tail = (1 - CONFIDENCE) / 2
    ends = np.quantile(np.log(sizes[lowest]) - point, [tail, 1 - tail])
    found = (math.exp(point + law.stretch * move) for move in (0.0, *map(float, ends)))
    point, low, high = map(_three_digits, found)
    return Estimate(n=n, point=point, low=low, high=high)


def _three_digits(value: float) -> float:
    """Round to three digits, since the sizes that are tried lie 3 % apart."""
    return rounded(value, 3)


def _lines(seen: Sequence[LawVariant]) -> dict[float, dict[float, float]]:
    """Return parameters -> FLOPs -> mean loss, for sizes with at least two trainings."""
    found: dict[float, dict[float, float]] = {}
    for one in sorted(seen, key=lambda one: (one.point.num_parameters, one.point.num_tokens)):
        if one.flops:
            found.setdefault(one.point.num_parameters, {})[one.flops] = one.mean
    return {size: line for size, line in found.items() if len(line) > 1}


def _amounts(lines: Sequence[dict[float, float]]) -> list[float]:
    """Return budgets within the range of FLOPs that at least three sizes were trained with."""
    spans = [(min(line), max(line)) for line in lines]
    ends = {end for span in spans for end in span}
    shared = [end for end in ends if sum(low <= end <= high for low, high in spans) >= _LEAST_SIZES]
    if not shared or min(shared) == max(shared):
        return []
    found = np.geomspace(min(shared), max(shared), NUM_BUDGETS)
    return [min(shared), *map(_three_digits, found[1:-1]), max(shared)]


def _between(line: dict[float, float], flops: float) -> float | None:
    """Interpolate the loss of a size, or return None beyond its own trainings."""
    for (c0, y0), (c1, y1) in pairwise(line.items()):
        if c0 <= flops <= c1:
            share = math.log(flops / c0) / math.log(c1 / c0)
            return math.exp((1 - share) * math.log(y0) + share * math.log(y1))
    return None


# Tables

_PUBLISHED = "scaling_laws.csv"
NOT_IDENTIFIED = "not identified"
_FITTED: Mapping[str, tuple[str, Quantity, str, str]] = {  # key -> title, number, unit, note
    "irreducible_loss": (
        "E",
        lambda law: law.irreducible,
        "bit",
        "irreducible loss",
    ),
    "parameter_scale": ("A", lambda law: law.parameter_scale, "1", ""),
    "parameter_exponent": (
        "alpha",
        lambda law: law.parameter_exponent,
        "1",
        "exponent of the parameters",
    ),
    "token_scale": ("B", lambda law: law.token_scale, "1", ""),
    "token_exponent": ("beta", lambda law: law.token_exponent, "1", "exponent of the tokens"),
    "size_exponent": (
        "beta / (alpha + beta)",
        lambda law: law.size_exponent,
        "1",
        "exponent of the best size in FLOPs",
    ),
}
_EXPONENTS = ("parameter_exponent", "token_exponent", "size_exponent")
_OF_LAWS = (
    f"“{NOT_IDENTIFIED}” means that the interval of an exponent is wider than the exponent: many "
    "values fit the points equally well.",
    "Published exponents are for other text, for subwords, and for models at least 1,000 times as "
    "large; E, A and B are not comparable at all.",
)
_Write = Callable[[float], str]


def laws_table(task: str, groups: Sequence[LawGroup]) -> ReportTable:
    """Return a table with a row for each group, and the published laws below."""
    printed = _published()
    missing: dict[str, Entry] = dict.fromkeys(printed, NO_ENTRY)
    laws = {group.short_name: group.law for group in groups}
    points = {g.short_name: _entry(float(len(g.seen)), _whole) for g in groups}
    off = {name: _off(law) if law else NO_ENTRY for name, law in laws.items()}
    columns = [
        _column("num_points", "points", points | missing, note="pairs of size and amount of data"),
        _column(
            "typical_miss",
            "fit error",
            off | missing,
            shown="%",
            note="root mean square over the points",
        ),
    ]
    for key, (title, _, unit, note) in _FITTED.items():
        fitted = {name: _fitted(law, key) if law else NO_ENTRY for name, law in laws.items()}
        published = {name: _printed(rows.get(key)) for name, rows in printed.items()}
        columns.append(_column(key, title, fitted | published, unit=unit, note=note))
    notes = {group.short_name: group.why_no_law for group in groups}
    notes |= {name: _source(rows) for name, rows in printed.items()}
    return _table(
        task,
        "laws",
        "The fitted laws",
        columns,
        column_rows(columns, [*laws, *printed], notes),
        row_title="law of",
        footnotes=_OF_LAWS,
    )


def differences_table(task: str, groups: Sequence[LawGroup]) -> ReportTable | None:
    """Return differences between the exponents of all pairs of laws, or None without a pair."""
    laws = {group.short_name: group.law for group in groups if group.law}
    pairs = {f"{a} less {b}": (laws[a], laws[b]) for b, a in itertools.combinations(laws, 2)}
    if not pairs:
        return None
    signed, columns = Notation(decimals=2).write_signed, []
    for key in _EXPONENTS:
        title, quantity, _, _ = _FITTED[key]
        found = {name: exponent_difference(a, b, quantity) for name, (a, b) in pairs.items()}
        entries = {
            name: _entry(one, signed, note="" if one.excludes_zero else "no significant difference")
            for name, one in found.items()
        }
        columns.append(_column(f"{key}_difference", title, entries))
    return _table(
        task,
        "differences",
        "Differences between exponents",
        columns,
        column_rows(columns, pairs),
        row_title="difference",
        footnotes=("These differences are exploratory and not corrected for multiple testing.",),
    )


def predictions_table(task: str, unit: str, groups: Sequence[LawGroup]) -> ReportTable | None:
    """Return the held-out trainings, predicted and measured, or None if there are none."""
    every = {one.larger.variant: one for group in groups for one in group.predictions}
    if not every:
        return None
    predicted = {name: one.predicted for name, one in every.items()}
    measured = {name: one.larger.loss for name, one in every.items()}
    write = for_estimates(unit, [*predicted.values(), *measured.values()]).write
    outcomes = {v: Entry(text=outcome_in_words(one, write)) for v, one in every.items()}
    columns = [
        *_sizes({variant: one.larger for variant, one in every.items()}),
        _column(
            "predicted",
            "predicted",
            {name: _entry(one, write) for name, one in predicted.items()},
            unit=unit,
            note="95 % prediction interval",
        ),
        _column(
            "measured",
            "measured",
            {
                name: _entry(one, write, marks=(PARTIAL,) if every[name].larger.num_missing else ())
                for name, one in measured.items()
            },
            unit=unit,
            note="mean of seeds [95 % interval]",
        ),
        Column(key="outcome", title="outcome", entries=outcomes),
    ]
    rows = column_rows(columns, every, shown={v: one.larger.shown for v, one in every.items()})
    return _table(task, "predictions", "The held-out trainings", columns, rows, is_stacked=True)


def outcome_in_words(one: LawPrediction, write: _Write) -> str:
    """Return ``within the interval``, or by how much and in which direction the law missed.

    A training of which seeds diverged or are missing is not judged.
    """
    if num := one.larger.num_missing:
        return f"not judged, since {num} seed{'' if num == 1 else 's'} of it have no loss"
    if one.is_inside:
        return "within the interval"
    low, high = one.ends
    beyond = one.larger.mean - high if one.miss > 0 else low - one.larger.mean
    side = "worse" if one.miss > 0 else "better"
    return (
        f"missed: {write(abs(one.miss))} {side} than predicted, {write(beyond)} beyond the interval"
    )


def points_table(task: str, unit: str, groups: Sequence[LawGroup]) -> ReportTable:
    """Return every point, as measured and as fitted."""
    every = {one.variant: (group.law, one) for group in groups for one in group.seen}
    write = for_estimates(unit, [one.loss for _, one in every.values()]).write
    signed = Notation(decimals=2).write_signed
    measured = {
        name: _entry(one.loss, write, marks=(PARTIAL,) if one.num_missing else ())
        for name, (_, one) in every.items()
    }
    fitted, off = dict.fromkeys(every, NO_ENTRY), dict.fromkeys(every, NO_ENTRY)
    for name, (law, one) in every.items():
        point = one.loss.point
        if law is not None and point is not None:
            fit = law.loss(one.point.num_parameters, one.point.num_tokens)
            miss = round(point / fit - 1, 6)  # a fit is accurate to six digits
            fitted[name] = _entry(fit, write)
            off[name] = _entry(miss, lambda share: signed(100 * share))
    columns = [
        *_sizes({name: one for name, (_, one) in every.items()}),
        _column("loss", "measured", measured, unit=unit),
        _column("fitted_loss", "fitted", fitted, unit=unit),
        _column("relative_miss", "error", off, shown="%"),
    ]
    rows = column_rows(columns, every, shown={v: one.shown for v, (_, one) in every.items()})
    return _table(task, "points", "Points of the fits", columns, rows)


def budgets_table(
    task: str, unit: str, budgets: Mapping[str, Sequence[FlopsBudget]]
) -> ReportTable | None:
    """Return the best size for each group and budget, or None without budgets."""
    every = {
        f"{with_unit('FLOP', one.flops)}, {name}": one
        for name, some in budgets.items()
        for one in some
    }
    if not every:
        return None
    sizes = {name: _best_size_entry(one.best_size) for name, one in every.items()}
    losses = {name: _entry(one.best_loss, lambda x: f"{x:.3f}") for name, one in every.items()}
    columns = [
        _column("best_size", "best size", sizes, shown="parameters", note="by the law"),
        _column("best_loss", "its loss", losses, unit=unit, note="by the law"),
    ]
    rows = column_rows(columns, every)
    title = "Best sizes by training FLOPs"
    return _table(task, "budgets", title, columns, rows, row_title="budget")


def exponent_in_words(law: FittedLaw, key: str) -> str:
    """Return an exponent such as ``0.45 [0.40, 0.49]``, or the text that it is not identified."""
    entry = _fitted(law, key)
    return f"{entry.text} {entry.interval}"


def _table(
    task: str,
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: tuple[Row, ...],
    **more: Any,
) -> ReportTable:
    name = f"{task}-scaling-{name}"
    return ReportTable(name=name, title=title, task=task, columns=tuple(columns), rows=rows, **more)


def _column(
    key: str,
    title: str,
    entries: Mapping[str, Entry],
    *,
    unit: str = "1",
    shown: str = "",
    note: str = "",
) -> Column:
    """Return a column of numbers; `shown` is the unit on the page, if that is different."""
    displayed = shown or ("" if unit == "1" else unit)
    return Column(
        key=key, title=title, measured_unit=unit, unit=displayed, note=note, entries=entries
    )


def _entry(value: Estimate | float, write: _Write, **more: Any) -> Entry:
    found = value if isinstance(value, Estimate) else Estimate(n=1, point=value)
    assert found.point is not None, "a law, a point and a prediction have numbers"
    interval = as_interval(found, write)
    return Entry(text=write(found.point), estimate=found, interval=interval, **more)


def _off(law: FittedLaw) -> Entry:
    miss = Estimate(n=len(law.points), point=law.typical_miss)
    return _entry(miss, lambda share: f"{100 * share:.2f}")


def _fitted(law: FittedLaw, key: str) -> Entry:
    _, quantity, _, _ = _FITTED[key]
    is_plain = key == "irreducible_loss"
    found = law.irreducible() if is_plain else law.positive(quantity)
    write = _two if is_plain or key in _EXPONENTS else _three
    entry = _entry(found, write)
    if key in _EXPONENTS and not law.is_identified(quantity):
        return replace(entry, text=NOT_IDENTIFIED, tone="none")
    return entry


def _published() -> dict[str, dict[str, Mapping[str, str]]]:
    """Return system -> metric -> its row, for the rows that were checked."""
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in rows_of(_PUBLISHED):
        if row["checked"] == "yes":
            found.setdefault(row["system"], {})[row["metric"]] = row
    return found


def _printed(row: Mapping[str, str] | None) -> Entry:
    if row is None:
        return NO_ENTRY
    note = f"{row['note']} {row['spread']}" if row["spread"] else ""
    return Entry(text=row["value"], note=note, estimate=Estimate(n=1, point=float(row["value"])))


def _source(rows: Mapping[str, Mapping[str, str]]) -> str:
    first = next(iter(rows.values()))
    return f"published: {first['condition']}, {first['source']}"


def _sizes(found: Mapping[str, LawVariant]) -> Iterator[Column]:
    points = {name: one.point for name, one in found.items()}
    sizes = {name: _entry(point.num_parameters, _whole) for name, point in points.items()}
    amounts = {name: _entry(point.num_tokens, _whole) for name, point in points.items()}
    yield _column("num_parameters", "parameters", sizes)
    yield _column("num_tokens", "tokens", amounts)


def _best_size_entry(found: Estimate) -> Entry:
    if found.point is None:
        return Entry(text="outside the range of the law", tone="none", estimate=found)
    entry = _entry(found, _whole)
    return entry if found.low is not None else replace(entry, text=NOT_IDENTIFIED)


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _two(value: float) -> str:
    return f"{value:.2f}"


def _three(value: float) -> str:
    """Write three digits, in scientific notation from 100,000 on."""
    if value >= 1e5:
        return f"{value:.2e}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# Figures

_HEIGHT = 4.4
_NUM_PLACES = 60  # points of a fitted curve
_TICKS = 6
_BAR = {"linewidth": 5.0, "alpha": 0.45, "solid_capstyle": "butt", "zorder": 3}


def law_figure(judged: Series, groups: Sequence[LawGroup]) -> Drawing | None:
    """Draw every training and the lowest loss by each law, or return None without laws.

    Args:
        judged: The loss.
        groups: The groups, of which the first `MAX_LINES` with a law and FLOPs are drawn.
    """
    shown = [group for group in groups if frontier(group, [1.0])][:MAX_LINES]
    if not shown:
        return None
    strokes = [stroke for group in shown for stroke in _of_group(group)]
    title = f"{readable(judged.metric)} against training FLOPs on {judged.task}"
    return draw(
        LineChart(
            name=f"{slug(judged.task)}-scaling-law",
            title=capitalized(title),
            caption=_caption(shown, len(groups)),
            description=_describe(judged, shown),
            height=_HEIGHT,
            strokes=strokes,
            x=PlotAxis(
                title="training FLOPs (lower is cheaper)",
                is_log=True,
                ticks=LogLocator(base=10, numticks=9),
                write=lambda x: with_unit("FLOP", x),
            ),
            y=_loss_axis(judged, strokes),
        )
    )


def iso_flops_figure(
    judged: Series, group: LawGroup, budgets: Sequence[FlopsBudget]
) -> Drawing | None:
    """Draw loss against parameters with a line for each budget, or return None without budgets."""
    if not budgets:
        return None
    strokes = [stroke for i, one in enumerate(budgets) for stroke in _of_budget(one, i)]
    strokes += _valley(budgets)
    title = f"{readable(judged.metric)} by size at equal training FLOPs, {group.short_name}"
    return draw(
        LineChart(
            name=slug(f"{judged.task}-iso-flops-{group.name.replace('=', '-')}"),
            title=capitalized(title),
            caption=(
                "Lines are the fitted law with all FLOPs of a budget spent; points are "
                "interpolated between trainings of one size. Crosses mark the minima of the lines, "
                "if these lie inside the plot."
            ),
            description=_describe_budgets(judged, budgets),
            height=_HEIGHT,
            strokes=strokes,
            x=PlotAxis(
                title="parameters",
                is_log=True,
                ticks=LogLocator(subs=(1.0, 2.0, 5.0), numticks=9),
                write=lambda x: f"{x:,.0f}",
            ),
            y=_loss_axis(judged, strokes),
        )
    )


def _of_group(group: LawGroup) -> Iterator[Stroke]:
    """Yield the trainings of each size, the lowest losses of the law, and held-out trainings."""
    colour, shape = line_look(group.index)["color"], marker(group.index)
    sizes: dict[float, list[tuple[float, float]]] = {}
    for one in group.seen:
        if one.flops:
            sizes.setdefault(one.point.num_parameters, []).append((one.flops, one.mean))
    for places in sizes.values():
        x, y = zip(*sorted(places), strict=True)
        yield Stroke(
            x=x,
            y=y,
            look={
                "color": colour,
                "linewidth": 0.7,
                "alpha": 0.6,
                "zorder": 2,
                "marker": shape,
                "markersize": 3.5,
            },
        )
    seen = [one.flops for one in group.seen if one.flops]
    ahead = [one.larger.flops for one in group.predictions if one.larger.flops]
    yield _curve(group, min(seen), max(seen), "-", group.short_name)
    if ahead and max(ahead) > max(seen):
        yield _curve(group, max(seen), max(ahead), (0, (4, 2)), "")
    for prediction in group.predictions:
        yield from _held_out(prediction, colour, shape)


def _curve(group: LawGroup, low: float, high: float, dashes: object, name: str) -> Stroke:
    places = [float(x) for x in np.geomspace(low, high, _NUM_PLACES)]
    found = frontier(group, places)
    look = {
        "color": line_look(group.index)["color"],
        "linewidth": 2.0,
        "linestyle": dashes,
        "zorder": 3,
    }
    return Stroke(x=list(found), y=list(found.values()), look=look, name=name)


def _held_out(one: LawPrediction, colour: str, shape: str) -> Iterator[Stroke]:
    """Yield the predicted interval as a bar, and the measured mean as a large open point."""
    (low, high), flops = one.ends, one.larger.flops
    if flops is None:
        return
    yield Stroke(x=[flops, flops], y=[low, high], look={"color": colour, **_BAR})
    yield Stroke(
        x=[flops],
        y=[one.larger.mean],
        look={
            "marker": shape,
            "markersize": 8,
            "markerfacecolor": "white",
            "linestyle": "none",
            "markeredgecolor": colour,
            "markeredgewidth": 1.8,
            "zorder": 5,
        },
    )


def _of_budget(budget: FlopsBudget, index: int) -> Iterator[Stroke]:
    look = line_look(index)
    plain = {
        "color": look["color"],
        "linestyle": "none",
        "marker": "o",
        "markersize": 5,
        "zorder": 4,
    }
    yield Stroke(
        x=list(budget.curve),
        y=list(budget.curve.values()),
        look={**look, "linewidth": 1.6, "zorder": 2},
        name=with_unit("FLOP", budget.flops),
    )
    yield Stroke(x=list(budget.measured), y=list(budget.measured.values()), look=plain)


def _valley(budgets: Sequence[FlopsBudget]) -> Iterator[Stroke]:
    for index, one in enumerate(budgets):
        size = one.best_size.point if one.is_identified else None
        if size is not None and min(one.curve) <= size <= max(one.curve):
            look = {
                "color": line_look(index)["color"],
                "linestyle": "none",
                "marker": "x",
                "markersize": 8,
                "markeredgewidth": 2.0,
                "zorder": 5,
            }
            yield Stroke(x=[size], y=[one.best_loss], look=look)


def _loss_axis(judged: Series, strokes: Sequence[Stroke]) -> PlotAxis:
    """Return a logarithmic axis with ticks at round numbers."""
    values = [y for stroke in strokes for y in stroke.y]
    low, high = min(values), max(values)
    step = _round_step((high - low) / _TICKS)
    first = math.ceil(low / step)
    ticks = [step * k for k in range(first, math.floor(high / step) + 1)]
    return PlotAxis(
        title=axis_title(judged.metric, judged.unit, judged.better),
        is_log=True,
        limits=(0.99 * low, 1.01 * high),
        ticks=FixedLocator(ticks),
        write=lambda y: f"{y:.4g}",
    )


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 or 5 times a power of ten that is not less than `least`."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-12)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _describe(judged: Series, groups: Sequence[LawGroup]) -> str:
    parts = []
    for group in groups:
        means = [one.mean for one in group.seen]
        said = f"{group.short_name}: {max(means):.4g} to {min(means):.4g} {judged.unit} as measured"
        for one in group.predictions:
            low, high = one.ends
            said += (
                f", {one.larger.mean:.4g} in the held-out training, predicted "
                f"{one.predicted.point:.4g}, between {low:.4g} and {high:.4g}"
            )
        parts.append(said)
    return f"{'; '.join(parts)}."


def _describe_budgets(judged: Series, budgets: Sequence[FlopsBudget]) -> str:
    parts = []
    for one in budgets:
        size, where = one.best_size.point, "none in range"
        if size is not None and not one.is_identified:
            where = NOT_IDENTIFIED
        elif size is not None:
            where = f"{size:,.0f} parameters with {one.best_loss:.4g} {judged.unit}"
        parts.append(f"{with_unit('FLOP', one.flops)}: best size {where}")
    return f"{'; '.join(parts)}."


def _caption(shown: Sequence[LawGroup], num_groups: int) -> str:
    has_predictions = any(group.predictions for group in shown)
    return caption(
        {
            "Small points are trainings (means over seeds); thin lines join trainings of one size. "
            "A thick line is the lowest loss that the law predicts for a number of FLOPs, over all "
            "sizes between the smallest and the largest.": True,
            "It is dashed outside the fitted range. Large open points were held out; bars are the "
            "prediction intervals of the law.": has_predictions,
            f"{len(shown)} of {num_groups} laws are drawn.": len(shown) < num_groups,
        }
    )


# The section

_LAW = (
    "For each mixer, or other factor that varies besides size and data, the law L(N, D) = E + A / "
    "N^alpha + B / D^beta is fitted to the losses of its trainings (Hoffmann et al. 2022, approach "
    "3), where N is the number of all parameters and D the number of training tokens, including "
    "repeated ones. Held-out trainings are not used in the fit."
)
_INTERVALS = (
    "Intervals are nominally 95 %, from a bootstrap of the residuals of points; they contained the "
    "true value in 90 to 97 % of simulated sweeps. They account for the noise of seeds and the "
    "misfit of the law between its points, and assume that the law holds beyond them. Everything "
    "except the claim is exploratory."
)
_ISO = (
    "A training budget can be spent on a small model with much data or on a large model with "
    "little data; the minimum of a line is the best size for its budget. Points are measurements, "
    "lines are the law."
)
_NOTHING = "No law is fitted."


def law_section(about: About, measured: Sequence[Series], task: str) -> Section | None:
    """Return the section on the laws of a task, or None if the sweep holds out nothing."""
    groups = law_groups(about, measured, task)
    if not groups:
        return None
    judged = next(s for s in measured if s.task == task and s.is_whole_score and s.unit == "bit")
    return Section(
        title=f"Scaling laws on {readable(task)}",
        sentences=(_LAW, _INTERVALS, *_what_is_missing(groups)),
        exhibits=tuple(_exhibits(groups, judged)),
    )


def law_in_words(about: About, measured: Sequence[Series], task: str) -> str:
    """Describe the exponents of each law and its predictions; empty without held-out values."""
    groups = law_groups(about, measured, task)
    if not groups:
        return ""
    fitted = [group for group in groups if group.law]
    if not fitted:
        return _NOTHING
    said = listed([_exponents(group) for group in fitted])
    return f"The loss falls as N^−alpha and D^−beta with {said}. {' '.join(_outcomes(groups))}"


def _exponents(group: LawGroup) -> str:
    assert group.law is not None, "only groups with a law are asked"
    alpha, beta = (
        exponent_in_words(group.law, key) for key in ("parameter_exponent", "token_exponent")
    )
    return f"alpha {alpha} and beta {beta} ({group.short_name})"


def _outcomes(groups: Sequence[LawGroup]) -> Iterator[str]:
    every = [(group, one) for group in groups for one in group.predictions]
    if not every:
        yield "There is no held-out training that a law could predict."
        return
    write = for_estimates("bit", [e for _, one in every for e in (one.predicted,)]).write
    for group, one in every:
        assert one.predicted.point is not None, "a prediction has a number"
        yield (
            f"The held-out training of {group.short_name} was predicted at "
            f"{write(one.predicted.point)} {as_interval(one.predicted, write)} bit and measured at "
            f"{write(one.larger.mean)}: {outcome_in_words(one, write)}."
        )


def _what_is_missing(groups: Sequence[LawGroup]) -> Iterator[str]:
    for group in groups:
        if group.why_no_law:
            yield f"{group.short_name}: no law is fitted, since there are {group.why_no_law}."
        if group.num_lost or group.num_missing:
            variants = f"{group.num_lost} variant{'' if group.num_lost == 1 else 's'}"
            seeds = f"{group.num_missing} seed{'' if group.num_missing == 1 else 's'}"
            yield (
                f"{group.short_name}: {variants} and {seeds} of others have no loss; the law is "
                "fitted to the rest."
            )


def _exhibits(groups: Sequence[LawGroup], judged: Series) -> Iterator[Exhibit]:
    drawing, task = law_figure(judged, groups), judged.task
    predictions = predictions_table(task, judged.unit, groups)
    differences = differences_table(task, groups)
    yield Exhibit(
        title="Predictions of the held-out trainings",
        tables=(predictions,) if predictions else (),
        drawings=(drawing,) if drawing else (),
    )
    tables = (laws_table(task, groups), *filter(None, [differences]))
    yield Exhibit(
        title="Fitted laws", tables=tables, folded=(points_table(task, judged.unit, groups),)
    )
    budgets = {group.short_name: flops_budgets(group) for group in groups}
    found = [
        (group, iso_flops_figure(judged, group, budgets[group.short_name])) for group in groups
    ]
    drawn = [(group, figure) for group, figure in found if figure]
    best = budgets_table(task, judged.unit, budgets)
    if drawn:
        yield Exhibit(
            title="Best size for a training budget",
            sentences=(_ISO,),
            views=tuple(View(title=g.short_name, drawings=(one,)) for g, one in drawn),
            folded=(best,) if best else (),
        )
