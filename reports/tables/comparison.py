"""Build the comparison table of one task, with one row for each variant and then for each floor.

Scores are a mean with its interval over seeds, and a difference to the baseline paired by seed.
Times are a median over processes, and a ratio to the baseline paired by process. Counts are the
number itself. HTML, Markdown, CSV and LaTeX are all printed from this one table, so they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from bakeoff.reports.analysis.cost import TRAINING_STEP, cost_column, steps_column
from bakeoff.reports.analysis.gate import below_floor
from bakeoff.reports.analysis.time_comparison import TimeComparison, TimeOutcome, compare
from bakeoff.reports.document import (
    NO_ENTRY,
    Column,
    Entry,
    Mark,
    ReportTable,
    Row,
    column_rows,
    readable,
)
from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.reading import (
    NOISY_MEANING,
    Coverage,
    Reading,
    coverage,
    is_noisy,
    median_of,
)
from bakeoff.reports.results.series import (
    FLOOR_NOTE,
    FLOORS_FOOTNOTE,
    Series,
    floors_of,
    never_searched,
    num_expected,
    timings_of,
)
from bakeoff.reports.results.spoken_names import shown_names
from bakeoff.reports.stats.intervals import (
    Estimate,
    Notation,
    as_interval,
    for_estimates,
    for_quantities,
    paired_differences,
    paired_ratio,
    with_digits,
)
from bakeoff.reports.tables.marks import NOISY, PARTIAL, UNTOLD
from bakeoff.reports.tables.speedup import speedup_columns
from bakeoff.suite.schema import About, Better, Status, metric_title


def comparison_table(about: About, measured: Sequence[Series], task: str) -> ReportTable:
    """Return the table of one task: the variants that take part in it, and its floors."""
    variants = [variant for variant in about.variants if belongs(about, variant, task)]
    here = [series for series in measured if series.task == task]
    filled = tuple(column for series in here for column in columns(about, series, variants))
    judged = primary(here, task)
    if judged and judged.is_score and (steps := steps_column(about, task, variants)):
        filled += (steps,)
    if judged and judged.is_score and any(series.metric == TRAINING_STEP for series in here):
        cost = cost_column(about, here, task, variants)
        filled += (cost,) if cost else ()
    if judged and judged.is_score:
        filled += tuple(speedup_columns(about, here, judged, variants))
    filled, repeated = _without_repeats(filled, variants)
    rows = tuple(
        replace(row, coverage=str(variant_coverage(about, judged, row.name)))
        for row in _variant_rows(about, filled, variants)
    )
    floors = () if judged is None else tuple(_floor_rows(about, judged, filled))
    is_marked = any(NOISY in entry.marks for row in rows for entry in row.entries)
    has_noise = not is_marked and any("noisy" in row.coverage for row in rows)
    missed = below_floor(about, judged) if judged and floors else ""
    notes = {missed: bool(missed), NOISY_MEANING: has_noise, FLOORS_FOOTNOTE: bool(floors)}
    return ReportTable(
        name=task,
        title=readable(task),
        task=task,
        columns=filled,
        rows=(*rows, *floors),
        footnotes=(*(note for note, is_due in notes.items() if is_due), *repeated),
        has_coverage=True,
    )


_OF_COUNTS = frozenset({"", "1", "s", "B", "bytes", "FLOP"})  # equal by accident, or for a reason


def _without_repeats(
    filled: Sequence[Column], variants: Sequence[str]
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Return the columns without those of the same scores as an earlier one, and notes on these.

    BLEU and written BLEU are equal where both judge the same outputs.
    """
    kept: dict[tuple[object, ...], Column] = {}
    notes = []
    for column in filled:
        points = [column.entries[v].estimate.point for v in variants if v in column.entries]
        key = (column.measured_unit, column.arrow, *points)
        is_score = column.measured_unit not in _OF_COUNTS and any(points)
        if not is_score or key not in kept:
            kept[key if is_score else (column.key,)] = column
        else:
            notes.append(f"{column.title} has the same numbers as {kept[key].title}.")
    return tuple(kept.values()), tuple(notes)


def _floor_rows(about: About, judged: Series, filled: Sequence[Column]) -> Iterator[Row]:
    """Yield a row for each floor, with a dash in columns that do not apply to it."""
    for floor in floors_of(about, judged):
        yield Row(
            name=floor,
            is_floor=True,
            note=FLOOR_NOTE,
            entries=tuple(column.entries.get(floor, NO_ENTRY) for column in filled),
            coverage=str(coverage(judged.of(floor), 1)),
        )


def table_of_variants(
    about: About,
    filled: Sequence[Column],
    *,
    name: str,
    title: str,
    task: str,
    footnotes: tuple[str, ...] = (),
) -> ReportTable:
    """Return a table whose columns have entries for the same variants, without coverage.

    Args:
        about: The sweep, which identifies the baseline.
        filled: At least one column; its entries give the rows and their order.
        name: The name of the files.
        title: The title of the table.
        task: The task that the numbers belong to.
        footnotes: The footnotes, in order.
    """
    rows = _variant_rows(about, filled, filled[0].entries)
    return ReportTable(
        name=name, title=title, task=task, columns=tuple(filled), rows=rows, footnotes=footnotes
    )


def _variant_rows(
    about: About, filled: Sequence[Column], variants: Iterable[str]
) -> tuple[Row, ...]:
    return column_rows(filled, variants, baseline=about.baseline, shown=shown_names(about))


def primary(measured: Sequence[Series], task: str) -> Series | None:
    """Return the series that a task is judged by: a score, else training speed, else the first."""
    here = [series for series in measured if series.task == task]
    speeds = (series for series in here if series.metric == TRAINING_SPEED)
    others = next(speeds, here[0] if here else None)
    return next((series for series in here if series.is_score), others)


def variant_coverage(about: About, judged: Series | None, variant: str) -> Coverage:
    """Return the coverage of the series that the task is judged by."""
    if judged is None:
        return coverage((), about.num_seeds)
    return coverage(judged.of(variant), num_expected(judged, about))


def whole_coverage(about: About, measured: Sequence[Series]) -> Coverage:
    """Return the coverage of all planned measurements of the sweep, without controls."""
    readings: list[Reading] = []
    timings: list[Reading] = []
    total, unsearched = 0, never_searched(measured)
    for series in measured:
        for variant in about.variants:
            if (series.task, series.probe, variant) in unsearched:
                continue
            if belongs(about, variant, series.task):
                readings.extend(series.of(variant))
                timings.extend(timings_of(series, variant))
                total += max(num_expected(series, about), len(series.of(variant)))
        for floor in floors_of(about, series):
            readings.extend(series.of(floor))
            total += 1
    return replace(
        coverage(readings, total),
        skipped_because="",
        num_timings=len(timings),
        num_noisy_timings=sum(reading.status is Status.NOISY for reading in timings),
    )


TRAINING_SPEED = "training_tokens_per_second"
ARROWS = {"higher": "↑", "lower": "↓", "none": ""}


def columns(about: About, series: Series, variants: Sequence[str]) -> Iterator[Column]:
    """Yield the columns for one series."""
    if series.is_score:
        yield _scores(about, series, variants)
        if len(variants) > 1:
            yield _differences(about, series, variants)
    else:
        yield _quantities(about, series, variants)


def _scores(about: About, series: Series, variants: Sequence[str]) -> Column:
    floors = floors_of(about, series)
    labels = (*variants, *floors)
    estimates = {v: series.mean(v) for v in labels}
    written = for_estimates(series.unit, [estimates[variant] for variant in variants])
    expected = num_expected(series, about)
    entries = {
        label: _entry(
            estimate,
            written.write,
            or_else=no_number(series.of(label)),
            marks=(PARTIAL,) if label not in floors and estimate.n < expected else (),
        )
        for label, estimate in estimates.items()
    }
    return _column(series, written, entries, note="mean [95 % interval]")


def _differences(about: About, series: Series, variants: Sequence[str]) -> Column:
    reference = series.values(about.baseline)
    others = [variant for variant in variants if variant != about.baseline]
    estimates = {
        v: series.mean_difference(paired_differences(series.values(v), reference)) for v in others
    }
    floors = {
        floor: _floor_difference(series, about.baseline, floor)
        for floor in floors_of(about, series)
    }
    # Floors count too: if all variants are equal, their differences alone need digits.
    written = for_estimates(series.unit, [*estimates.values(), *floors.values()])
    entries = {about.baseline: Entry(text="baseline")}
    for variant, one in estimates.items():
        word = tone(one, series.better)
        write = with_digits(written, one).write_signed
        entries[variant] = _entry(one, write, or_else=NO_ENTRY, tone=word)
    for floor, one in floors.items():
        entries[floor] = _entry(one, written.write_signed, or_else=NO_ENTRY)
    return Column(
        key=f"{series.metric}_difference",
        title="difference to baseline",
        measured_unit=series.unit,
        unit=written.unit,
        arrow=ARROWS[series.better],
        note="paired by seed [95 % interval]",
        entries=entries,
    )


def _floor_difference(series: Series, baseline: str, floor: str) -> Estimate:
    """Return the plain difference to the baseline's mean, since floors are not paired by seed."""
    reference, own = series.mean(baseline).point, series.mean(floor).point
    if own is None or reference is None:
        return Estimate(n=0)
    return Estimate(n=1, point=own - reference)


def _quantities(about: About, series: Series, variants: Sequence[str]) -> Column:
    """Return medians of times and memory with the ratio to the baseline, or counts as they are."""
    is_count = not series.is_bound_to_environment
    estimates = {
        variant: _count(series, variant) if is_count else median_of(series.of(variant))
        for variant in variants
    }
    points = [one.point for one in estimates.values() if one.point is not None]
    written = for_quantities(series.unit, points)
    beside = {variant: _beside(about, series, variant) for variant in variants}
    entries = {
        variant: _entry(
            estimate,
            written.write,
            or_else=no_number(series.of(variant)),
            notes=[*_ratio(about, series, variant), *_own_place(series, variant)],
            marks=time_marks(beside[variant], is_noisy=is_noisy(series.of(variant))),
        )
        for variant, estimate in estimates.items()
    }
    is_exact = is_count or series.unit in ("B", "bytes")
    kind = "" if is_exact else "median [spread]"
    is_local = not is_count and len(about.provenances) > 1
    machine = machine_in_words(about, series.environment_id) if is_local else ""
    return _column(series, written, entries, note=", ".join(filter(None, (machine, kind))))


def _column(
    series: Series, written: Notation, entries: Mapping[str, Entry], note: str = ""
) -> Column:
    return Column(
        key="_".join(filter(None, (series.metric, series.at, series.environment_id))),
        title=metric_title(series.metric, is_graph=series.is_graph) or readable(series.metric),
        measured_unit=series.unit,
        unit=written.unit,
        arrow=ARROWS[series.better],
        note="; ".join(filter(None, (series.at, note))),
        entries=entries,
    )


def _entry(
    estimate: Estimate,
    write: Callable[[float], str],
    *,
    or_else: Entry,
    marks: tuple[Mark, ...] = (),
    notes: Sequence[str] = (),
    tone: str = "",
) -> Entry:
    if estimate.point is None:
        return or_else
    return Entry(
        estimate=estimate,
        text=write(estimate.point),
        interval=as_interval(estimate, write),
        note=", ".join(filter(None, [tone, *notes])),
        marks=marks,
        tone=tone,
    )


def no_number(readings: Sequence[Reading], otherwise: str = "no result") -> Entry:
    """Return an entry that names the fates of the readings in place of a number."""
    fates = dict.fromkeys(reading.fate for reading in readings)
    return Entry(text=", ".join(fates) or otherwise, tone="none")


def _count(series: Series, variant: str) -> Estimate:
    """Return the count itself if all seeds agree, otherwise the mean with an interval."""
    values = tuple(series.values(variant).values())
    if len(set(values)) == 1:
        return Estimate(n=len(values), point=values[0])
    return series.mean(variant)


def _ratio(about: About, series: Series, variant: str) -> list[str]:
    """Return the ratio of bytes, times or rates to the baseline; for times with the verdict."""
    is_amount = series.is_bound_to_environment or series.unit == "B"
    if variant == about.baseline or not is_amount:
        return []
    if not series.is_timed:
        ratio = paired_ratio(series.values(variant), series.values(about.baseline))
        return [] if ratio is None else [f"{ratio:.2f} × baseline"]
    found = _beside(about, series, variant)
    if found is None or found.ratio.point is None:
        return []
    ratio = found.ratio.point if series.unit == "s" else 1 / found.ratio.point
    verdict = [str(found.outcome)] if found.is_certain else []  # otherwise the entry has a mark
    return [f"{ratio:.2f} × baseline", *verdict]


def _beside(about: About, series: Series, variant: str) -> TimeComparison | None:
    """Compare the time of a variant with the baseline's; rates are compared by their inverses."""
    if variant == about.baseline or not series.is_timed:
        return None
    a, b = series.of(variant), series.of(about.baseline)
    first, second = (a, b) if series.unit == "s" else (b, a)
    found = compare(first, second, series.resolution)
    return None if found.ratio.point is None else found


def time_marks(beside: TimeComparison | None, *, is_noisy: bool) -> tuple[Mark, ...]:
    """Return at most one mark of a time; noise takes precedence if it explains the other mark."""
    is_untold = beside is not None and not beside.is_certain
    is_why = beside is None or beside.outcome is TimeOutcome.NOISY
    if is_noisy and (is_why or not is_untold):
        return (NOISY,)
    return (UNTOLD,) if is_untold else ()


def _own_place(series: Series, variant: str) -> list[str]:
    """Return the coordinates of the readings if the column has no common coordinate."""
    own = {reading.at for reading in series.of(variant)} if not series.at else set()
    return sorted(filter(None, own))


def machine_in_words(about: About, environment_id: str) -> str:
    """Describe a machine, such as ``AMD EPYC, 2 threads``; empty if it is unknown."""
    made = about.provenances.get(environment_id)
    return f"{made.device}, {made.num_threads} threads" if made else ""


def tone(difference: Estimate, better: Better) -> str:
    """Return ``better`` or ``worse`` if the interval of a difference excludes 0, or else ""."""
    if not difference.excludes_zero or difference.point is None or better == "none":
        return ""
    return "better" if (difference.point > 0) == (better == "higher") else "worse"
