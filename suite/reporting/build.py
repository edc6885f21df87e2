"""Build reports and the overview from the MLflow store or the journal.

The module also summarises a sweep: for the store (a verdict, its sentence, and the numbers of each
variant) and in a few lines for the end of a run.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from bakeoff.models.errors import did_you_mean
from bakeoff.reports.analysis.cost import TRAINING_STEP
from bakeoff.reports.analysis.crossover import Crossover, CrossoverKind, crossover
from bakeoff.reports.analysis.untuned import untuned_in_words
from bakeoff.reports.document import NO_ENTRY, Column, ReportTable, Row
from bakeoff.reports.pages.mixers import main_environment
from bakeoff.reports.plots.learning_curves import learning_curves, mean_curve
from bakeoff.reports.render import render, render_overview
from bakeoff.reports.results.axis_values import all_values_of, as_text
from bakeoff.reports.results.length_sweep import find
from bakeoff.reports.results.series import FLOORS_FOOTNOTE, Series
from bakeoff.reports.stats.intervals import Estimate
from bakeoff.reports.tables.comparison import comparison_table, primary, variant_coverage
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.errors import one_line
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.loader import themes
from bakeoff.suite.reporting.frames import (
    CURVES_FILE,
    RESULTS_FILE,
    by_trial,
    sweep_of,
    with_history,
)
from bakeoff.suite.schema import MIXER_ALONE, About, Price
from bakeoff.suite.spec import SpecError
from bakeoff.suite.terminal import terminal_width
from bakeoff.suite.text import command
from bakeoff.suite.tracking.experiments import folder_of
from bakeoff.suite.tracking.location import Store
from bakeoff.suite.tracking.read import load_artifacts
from bakeoff.suite.tracking.run_fields import Key
from bakeoff.suite.tracking.shared_views import NUM_SEEDS, Findings, VariantNumbers

MOST_ROWS = 20  # in all tables together
_FEWEST_ROWS = 5  # in one table
_LONGEST_NAME = 60

_PASSES = (("forward and backward", "forward_backward_seconds"), ("forward", "forward_seconds"))

Sweeps = Mapping[str, Sequence[Sweep]]  # by ablation, with one sweep for each scale


def sweeps_in(
    store: Store, names: Collection[str] | None = None, asked: Collection[str] = ()
) -> Sweeps:
    """Return the stored sweeps of the given ablations, or of all by default.

    Raises:
        StoreUnavailable: If the store cannot be reached, or an ablation in `asked` was deleted.
        SpecError: If an ablation in `asked` is recorded, but for another folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        held = load_artifacts(store.uri, Path(folder), names, folder_of(store), asked)
        return {
            ablation: [read_sweep(at / RESULTS_FILE, at / CURVES_FILE) for _, at in found]
            for ablation, found in held.items()
        }


def sweeps_to_report(journal: Journal, folder: Path, store: Store | None) -> Sweeps:
    """Return the sweeps of the journal, and others that earlier reports in the folder show.

    There are others after `bakeoff report` with a shared store, or after the journal was lost. The
    store is only read if there are others. If it is None, the others are omitted.

    Raises:
        StoreUnavailable: If there are others, and the store cannot be reached.
    """
    sweeps = sweeps_of_journal(journal)
    known = {(name, sweep.about.scale) for name, found in sweeps.items() for sweep in found}
    if store is not None and (others := reported(folder) - known):
        for name, found in sweeps_in(store, {ablation for ablation, _ in others}).items():
            wanted = [sweep for sweep in found if (name, sweep.about.scale) in others]
            sweeps[name] = [*sweeps.get(name, []), *wanted]
    return sweeps


def sweeps_of_journal(journal: Journal) -> dict[str, list[Sweep]]:
    """Return all sweeps of the journal that this version can read, by ablation."""
    sweeps: dict[str, list[Sweep]] = {}
    for plan in journal.readable_plans():
        results = by_trial(journal.results(trial.trial_id for trial in plan.trials))
        shown = with_history(plan, journal)
        sweeps.setdefault(plan.about.ablation, []).append(sweep_of(shown, results))
    return sweeps


def at_price(sweeps: Sweeps, price: Price) -> Sweeps:
    """Return the sweeps with a price, so that their pages show the cost of GPU-hours."""
    return {
        name: [replace(sweep, about=replace(sweep.about, price=price)) for sweep in found]
        for name, found in sweeps.items()
    }


def reported(folder: Path) -> set[Key]:
    """Return the sweeps that the reports in the folder show."""
    return {key for file in folder.glob(f"*/{RESULTS_FILE}") for key in _keys_in(file)}


def _keys_in(file: Path) -> set[Key]:
    try:
        rows = pd.read_parquet(file, columns=["ablation", "scale"]).drop_duplicates()
    except (OSError, ValueError, KeyError):  # damaged, or not a file of bakeoff
        return set()
    return set(zip(rows["ablation"], rows["scale"], strict=True))


def reports_of(
    names: Iterable[str], sweeps: Sweeps, folder: Path, scale: str | None = None
) -> tuple[Path, ...]:
    """Write the report of each ablation, and the overview of all that have sweeps.

    Raises:
        SpecError: If an ablation has no sweep, or none at the given scale.
    """
    held = {name: found for name, found in sweeps.items() if found}
    pages = []
    for name in names:
        refuse_missing(name, held.get(name, ()), scale, known=held)
        pages.append(render(name, held[name], folder, scale))
    if held:
        render_overview(held, folder, themes())
    return tuple(pages)


def refuse_missing(
    name: str, sweeps: Sequence[Sweep], scale: str | None = None, known: Collection[str] = ()
) -> None:
    """Raise SpecError if the ablation or its scale has no sweep; `known` ablations have one."""
    scales = [sweep.about.scale for sweep in sweeps]
    if not sweeps:
        hint = did_you_mean(name, known) or "."
        there = f" Recorded are: {', '.join(sorted(known))}." if known else ""
        raise SpecError(
            f"nothing is recorded for {name!r} yet{hint}{there} `{command('run', name)}` does that."
        )
    if scale is not None and scale not in scales:
        raise SpecError(
            f"nothing is recorded for {name!r} at scale {scale!r}; recorded: {', '.join(scales)}."
        )


def findings_of(sweep: Sweep) -> Findings:
    """Return the verdict and the numbers of a sweep, computed by the rules of the report."""
    judged = sweep.in_order.verdict
    return Findings(
        verdict=str(judged.outcome) if judged else "",
        sentence=judged.sentence if judged else "",
        variants=tuple(variants_of(sweep, sweep.in_order.compared)),
    )


def variants_of(sweep: Sweep, measured: Sequence[Series]) -> Iterator[VariantNumbers]:
    """Yield the variants in the report's tables, with the means of their learning curves."""
    about = sweep.about
    for task in [task for task in about.tasks if task != MIXER_ALONE]:
        judged = primary(measured, task)
        if judged is None or not judged.is_score:
            continue  # times and counts are compared within a trial
        table = comparison_table(about, measured, task)
        curves = learning_curves(about, sweep.curves, judged)
        for row in [row for row in table.rows if not row.is_floor]:
            values = all_values_of(about, row.name)
            seeds = curves.seeds.get(row.name, ()) if curves else ()
            yield VariantNumbers(
                variant=row.name,
                task=task,
                axes={axis: as_text(value) for axis, value in values.items()},
                coverage=row.coverage,
                is_complete=variant_coverage(about, judged, row.name).is_complete,
                metrics={
                    **_metrics(table.columns, row.name),
                    NUM_SEEDS: float(len(judged.usable(row.name))),
                },
                curve_metric=curves.metric if curves and seeds else "",
                curve=tuple(
                    (round(x), y)
                    for x, one in mean_curve(seeds).items()
                    if (y := one.point) is not None
                ),
            )


def _metrics(columns: Iterable[Column], variant: str) -> dict[str, float]:
    """Return name -> unrounded number, and the ends of its interval if there is one."""
    found: dict[str, float] = {}
    for column in columns:
        one = column.entries[variant].estimate if variant in column.entries else Estimate(n=0)
        for end, value in (("", one.point), ("_low", one.low), ("_high", one.high)):
            if value is not None and math.isfinite(value):
                found[f"{column.key}{end}"] = value
    return found


def summary_lines(sweep: Sweep) -> Iterator[str]:
    """Yield a table for each task, the crossovers of mixers, and the verdict on the claim.

    Nothing is yielded without results.
    """
    about = sweep.about
    tasks = [task for task in about.tasks if task != MIXER_ALONE]
    num_rows = max(_FEWEST_ROWS, MOST_ROWS // max(1, len(tasks)))
    found = [s for s in sweep.in_order.compared if any(map(s.values, about.variants))]
    for task in tasks:
        yield from _table(about, found, task, num_rows)
    judged = sweep.in_order.verdict if len(sweep.results) else None
    yield from _crossovers(sweep)
    if found and (untuned := untuned_in_words(about)):
        yield f"rate:      {untuned}"
    if judged is not None:
        yield f"verdict:   {one_line(judged.sentence)}"


def _crossovers(sweep: Sweep) -> Iterator[str]:
    """Yield a line for each mixer that was timed by length, with its crossover to the baseline."""
    about, environment_id = sweep.about, main_environment(sweep.results)
    every = sweep.in_order.growths if environment_id else ()
    timed = {kind: find(every, metric, "length", environment_id) for kind, metric in _PASSES}
    found: dict[str, list[str]] = {}
    for kind, growth in timed.items():
        others = set(growth.variants) - {about.baseline} if growth else ()
        for variant in (each for each in about.variants if each in others):
            assert growth is not None, "else it has no variants"
            answer = _answer(crossover(growth, variant, about.baseline))
            found.setdefault(variant, []).append(f"{kind} {answer}")
    for variant, answers in found.items():
        pair = f"{one_line(variant)} against {one_line(about.baseline)}"
        yield f"crossover: {pair}: {'; '.join(answers)}"


def _answer(found: Crossover) -> str:
    """Return an answer in words, such as ``faster from 385 [348, 433] tokens on``."""
    match found.kind:
        case CrossoverKind.FASTER_FROM:
            return f"faster from {found.text} tokens on"
        case CrossoverKind.FASTER_BELOW:
            return f"{found.text} tokens"
        case CrossoverKind.ALWAYS:
            return found.text.partition("(")[2].rstrip(")")
        case CrossoverKind.NEVER:
            return f"not faster{found.text.removeprefix('not')} tokens"
    return f"undecided ({found.text})"


def _table(about: About, measured: Sequence[Series], task: str, num_rows: int) -> Iterator[str]:
    judged = primary(measured, task)
    if judged is None:
        return
    table = comparison_table(about, measured, task)
    columns = _columns(table, judged)
    variants = [row for row in table.rows if not row.is_floor]
    rows = _chosen(variants, columns[0], judged, num_rows)
    yield from _aligned(
        [
            [f"{about.ablation}, {about.scale}, {task}", *map(_head, columns), "coverage"],
            *([_name(row), *_texts(row, columns), row.coverage] for row in rows),
        ]
    )
    if len(variants) > len(rows):
        yield f"... and {len(variants) - len(rows):,} more in the report"
    yield from (note for note in table.notes if note != FLOORS_FOOTNOTE)


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; on a narrower terminal the cells of a row below its name."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    width = terminal_width()
    if width and sum(widths) + 2 * len(widths) - 2 > width:
        (title, *heads), *rows = lines
        yield title
        for name, *cells in rows:
            yield f"  {name}"
            yield from (f"    {head}: {cell}" for head, cell in zip(heads, cells, strict=True))
        return
    for line in lines:
        padded = (text.ljust(size) for text, size in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _columns(table: ReportTable, judged: Series) -> list[Column]:
    """Return the score, its difference to the baseline, and the most complete step time."""
    own = (
        "_".join(filter(None, (judged.metric, judged.at, judged.environment_id))),
        f"{judged.metric}_difference",
    )
    found = [column for column in table.columns if column.key in own]
    times = [column for column in table.columns if column.key.startswith(TRAINING_STEP)]
    times.sort(key=lambda c: -sum(e.estimate.point is not None for e in c.entries.values()))
    return [*found, *(each for each in times[:1] if each not in found)]


def _chosen(rows: Sequence[Row], column: Column, judged: Series, most: int) -> Sequence[Row]:
    """Return all rows if they are few, otherwise the best ones and the baseline."""
    if len(rows) <= most:
        return rows
    sign = -1.0 if judged.better == "higher" else 1.0

    def rank(row: Row) -> float:
        point = column.entries[row.name].estimate.point
        return math.inf if point is None else sign * point

    best = sorted(rows, key=rank)[:most]
    baseline = [row for row in rows if row.is_baseline and row not in best]
    return [*best[: most - len(baseline)], *baseline]


def _head(column: Column) -> str:
    return f"{column.title} ({column.unit})" if column.unit else column.title


def _name(row: Row) -> str:
    name = one_line(row.name)
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return f"{short} (baseline)" if row.is_baseline and row.name != "baseline" else short


def _texts(row: Row, columns: Sequence[Column]) -> Iterator[str]:
    """Yield numbers with their intervals; times have none, since their note compares them."""
    for column in columns:
        entry = column.entries.get(row.name, NO_ENTRY)
        interval = "" if column.measured_unit == "s" else entry.interval
        note = f"({entry.note})" if entry.note else ""
        yield one_line(" ".join(filter(None, (entry.marked, interval, note))))
