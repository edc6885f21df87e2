"""Tabulates fitted laws beside published ones, their predictions, and best sizes by budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from reports.analysis.iso_flops import FlopsBudget
from reports.analysis.scaling_data import LawGroup, LawPrediction, LawVariant
from reports.analysis.scaling_law import FittedLaw, Quantity, exponent_difference
from reports.document import NO_ENTRY, Column, Entry, Row, Table, column_rows
from reports.literature.csv import rows_of
from reports.plots.style import with_unit
from reports.stats.intervals import Estimate, Notation, as_interval, for_estimates
from reports.tables.comparison import PARTIAL

_PUBLISHED = "scaling_laws.csv"
NOT_IDENTIFIED = "not identified"
_FITTED: Mapping[str, tuple[str, Quantity, str]] = {  # key -> title, number, unit
    "irreducible_loss": ("E", lambda law: law.irreducible, "bit"),
    "parameter_scale": ("A", lambda law: law.parameter_scale, "1"),
    "parameter_exponent": ("alpha", lambda law: law.parameter_exponent, "1"),
    "token_scale": ("B", lambda law: law.token_scale, "1"),
    "token_exponent": ("beta", lambda law: law.token_exponent, "1"),
    "size_exponent": ("beta / (alpha + beta)", lambda law: law.size_exponent, "1"),
}
_NOTES = {
    "irreducible_loss": "what no size and no data take away",
    "parameter_exponent": "of the parameters",
    "token_exponent": "of the tokens",
    "size_exponent": "of the best size in FLOPs",
}
_EXPONENTS = ("parameter_exponent", "token_exponent", "size_exponent")
_OF_LAWS = (
    f"“{NOT_IDENTIFIED}” stands where the interval of an exponent is wider than the exponent: the "
    "points fit many values of it alike.",
    "Published exponents are of other text, of subwords, and of models 1,000 times as large and "
    "more; E, A and B do not compare at all.",
)


def exponent_in_words(law: FittedLaw, key: str) -> str:
    """As ``0.45 [0.40, 0.49]``, or that it is not identified."""
    entry = _fitted(law, key)
    return f"{entry.text} {entry.interval}"


def laws_table(task: str, groups: Sequence[LawGroup]) -> Table:
    """A row a group, and the published ones below."""
    printed = _published()
    columns = [*_of_fits(groups, printed)]
    for key, (title, _, unit) in _FITTED.items():
        entries = {
            group.name: _fitted(group.law, key) if group.law else NO_ENTRY for group in groups
        }
        entries |= {name: _printed(rows.get(key)) for name, rows in printed.items()}
        columns.append(
            Column(
                key=key,
                title=title,
                measured_unit=unit,
                unit="" if unit == "1" else unit,
                note=_NOTES.get(key, ""),
                entries=entries,
            )
        )
    notes = {group.name: group.why_no_law for group in groups}
    notes |= {name: _source(rows) for name, rows in printed.items()}
    rows = column_rows(columns, [*(group.name for group in groups), *printed], notes)
    return Table(
        name=f"{task}-scaling-laws",
        title="The fitted laws",
        task=task,
        row_title="law of",
        columns=tuple(columns),
        rows=rows,
        footnotes=_OF_LAWS,
    )


def _of_fits(groups: Sequence[LawGroup], printed: Mapping[str, object]) -> Iterator[Column]:
    missing: dict[str, Entry] = dict.fromkeys(printed, NO_ENTRY)
    points = {group.name: _count(len(group.seen)) for group in groups}
    yield Column(
        key="num_points",
        title="points",
        measured_unit="1",
        entries=points | missing,
        note="a size on an amount of data",
    )
    off = {group.name: _off(group.law) for group in groups}
    yield Column(
        key="typical_miss",
        title="typical miss",
        measured_unit="1",
        unit="%",
        entries=off | missing,
        note="of a point, root mean square",
    )


def _count(number: int) -> Entry:
    return Entry(text=f"{number:,}", estimate=Estimate(n=1, point=float(number)))


def _off(law: FittedLaw | None) -> Entry:
    if law is None:
        return NO_ENTRY
    miss = law.typical_miss
    return Entry(text=f"{100 * miss:.2f}", estimate=Estimate(n=len(law.points), point=miss))


def _fitted(law: FittedLaw, key: str) -> Entry:
    _, quantity, _ = _FITTED[key]
    is_plain = key == "irreducible_loss"
    found = law.irreducible() if is_plain else law.positive(quantity)
    write = _two if is_plain or key in _EXPONENTS else _three
    assert found.point is not None, "a law has numbers"
    is_known = key not in _EXPONENTS or law.is_identified(quantity)
    return Entry(
        text=write(found.point) if is_known else NOT_IDENTIFIED,
        estimate=found,
        interval=as_interval(found, write),
        tone="" if is_known else "none",
    )


def _published() -> dict[str, dict[str, Mapping[str, str]]]:
    """System -> metric -> its row, of rows that were checked."""
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


def differences_table(task: str, groups: Sequence[LawGroup]) -> Table | None:
    """Of the exponents of each pair of laws; None with fewer than two laws."""
    laws = {group.name: group.law for group in groups if group.law}
    pairs = {f"{a} less {b}": (laws[a], laws[b]) for b, a in itertools.combinations(laws, 2)}
    if not pairs:
        return None
    columns = tuple(_differences(pairs, key) for key in _EXPONENTS)
    return Table(
        name=f"{task}-scaling-differences",
        title="Differences between exponents",
        task=task,
        row_title="difference",
        columns=columns,
        rows=column_rows(columns, pairs),
        footnotes=("Exploratory: nothing is corrected for the number of differences.",),
    )


def _differences(pairs: Mapping[str, tuple[FittedLaw, FittedLaw]], key: str) -> Column:
    title, quantity, _ = _FITTED[key]
    entries = {}
    for name, (a, b) in pairs.items():
        found = exponent_difference(a, b, quantity)
        assert found.point is not None, "two laws differ by a number"
        signed = Notation(decimals=2).write_signed
        tone_note = "" if found.excludes_zero else "not told apart"
        entries[name] = Entry(
            text=signed(found.point),
            estimate=found,
            interval=as_interval(found, signed),
            note=tone_note,
        )
    return Column(key=f"{key}_difference", title=title, measured_unit="1", entries=entries)


def predictions_table(task: str, unit: str, groups: Sequence[LawGroup]) -> Table | None:
    """What was held out: predicted, measured, and whether that was right; None without any."""
    every = [one for group in groups for one in group.predictions]
    if not every:
        return None
    estimates = [e for one in every for e in (one.predicted, one.larger.loss)]
    write = for_estimates(unit, estimates).write
    by_variant = {one.larger.variant: one for one in every}
    columns = (
        *_sizes({variant: one.larger for variant, one in by_variant.items()}),
        _losses(
            "predicted",
            unit,
            {v: one.predicted for v, one in by_variant.items()},
            write,
            note="95 % of such trainings",
        ),
        _losses(
            "measured",
            unit,
            {v: one.larger.loss for v, one in by_variant.items()},
            write,
            note="mean of seeds [95 % interval]",
        ),
        Column(
            key="outcome",
            title="outcome",
            entries={v: Entry(text=outcome_in_words(one, write)) for v, one in by_variant.items()},
        ),
    )
    return Table(
        name=f"{task}-scaling-predictions",
        title="The held-out trainings",
        task=task,
        columns=columns,
        rows=column_rows(columns, by_variant),
        is_stacked=True,
    )


def outcome_in_words(one: LawPrediction, write: Callable[[float], str]) -> str:
    """As ``within``, or by how much and in which direction it missed."""
    if one.is_inside:
        return "within the interval"
    low, high = one.ends
    beyond = one.larger.mean - high if one.miss > 0 else low - one.larger.mean
    side = "worse" if one.miss > 0 else "better"
    return (
        f"missed: {write(abs(one.miss))} {side} than predicted, {write(beyond)} beyond the interval"
    )


def _losses(
    title: str, unit: str, found: Mapping[str, Estimate], write: Callable[[float], str], note: str
) -> Column:
    entries = {
        name: Entry(text=write(e.point), estimate=e, interval=as_interval(e, write))
        for name, e in found.items()
        if e.point is not None
    }
    return Column(
        key=title.replace(" ", "_"),
        title=title,
        measured_unit=unit,
        unit=unit,
        note=note,
        entries=entries,
    )


def _sizes(found: Mapping[str, LawVariant]) -> Iterator[Column]:
    points = {name: one.point for name, one in found.items()}
    for key, title, numbers in (
        ("num_parameters", "parameters", {n: p.num_parameters for n, p in points.items()}),
        ("num_tokens", "tokens", {n: p.num_tokens for n, p in points.items()}),
    ):
        entries = {
            n: Entry(text=f"{x:,.0f}", estimate=Estimate(n=1, point=x)) for n, x in numbers.items()
        }
        yield Column(key=key, title=title, measured_unit="1", entries=entries)


def points_table(task: str, unit: str, groups: Sequence[LawGroup]) -> Table:
    """Every point, as measured and as fitted."""
    every = {one.variant: (group, one) for group in groups for one in group.seen}
    write = for_estimates(unit, [one.loss for _, one in every.values()]).write
    fitted, off, measured = {}, {}, {}
    for name, (group, one) in every.items():
        found = one.loss
        assert found.point is not None, "a point has a loss"
        measured[name] = Entry(
            text=write(found.point),
            estimate=found,
            interval=as_interval(found, write),
            marks=(PARTIAL,) if one.num_missing else (),
        )
        law = group.law
        fit = law.loss(one.point.num_parameters, one.point.num_tokens) if law else None
        fitted[name] = off[name] = NO_ENTRY
        if fit is None:
            continue
        fitted[name] = Entry(text=write(fit), estimate=Estimate(n=1, point=fit))
        miss = round(found.point / fit - 1, 6)  # a fit is sure of six digits
        off[name] = Entry(
            text=Notation(decimals=2).write_signed(100 * miss),
            estimate=Estimate(n=1, point=miss),
        )
    columns = (
        *_sizes({name: one for name, (_, one) in every.items()}),
        Column(key="loss", title="measured", measured_unit=unit, unit=unit, entries=measured),
        Column(key="fitted_loss", title="fitted", measured_unit=unit, unit=unit, entries=fitted),
        Column(key="relative_miss", title="off by", measured_unit="1", unit="%", entries=off),
    )
    return Table(
        name=f"{task}-scaling-points",
        title="Points of the fits",
        task=task,
        columns=columns,
        rows=column_rows(columns, every),
    )


def budgets_table(
    task: str, unit: str, budgets: Mapping[str, Sequence[FlopsBudget]]
) -> Table | None:
    """The best size by budget, a column a group; None where no group has budgets."""
    rows = [
        Row(
            name=f"{with_unit('FLOP', one.flops)}, {name}",
            entries=(
                _best_size(one.best_size),
                Entry(text=f"{one.best_loss:.3f}", estimate=Estimate(n=1, point=one.best_loss)),
            ),
        )
        for name, some in budgets.items()
        for one in some
    ]
    if not rows:
        return None
    columns = (
        Column(
            key="best_size",
            title="best size",
            measured_unit="1",
            unit="parameters",
            entries={row.name: row.entries[0] for row in rows},
            note="by the law",
        ),
        Column(
            key="best_loss",
            title="its loss",
            measured_unit=unit,
            unit=unit,
            entries={row.name: row.entries[1] for row in rows},
            note="by the law",
        ),
    )
    return Table(
        name=f"{task}-scaling-budgets",
        title="Best sizes by training FLOPs",
        task=task,
        row_title="budget",
        columns=columns,
        rows=tuple(rows),
    )


def _best_size(found: Estimate) -> Entry:
    if found.point is None:
        return Entry(text="beyond what the law can say", tone="none")
    text = _whole(found.point) if found.low is not None else NOT_IDENTIFIED
    return Entry(text=text, estimate=found, interval=as_interval(found, _whole))


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _two(value: float) -> str:
    return f"{value:.2f}"


def _three(value: float) -> str:
    """Three digits; an exponent only beyond what is read at a glance."""
    if value >= 1e5:
        return f"{value:.2e}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
