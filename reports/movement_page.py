"""Which files does a comparison of two selections consist of, and what stands on its page?

What moved comes first, then what may have, what else differs, and the rest folded. The same rows
give the same bytes, and nothing is written before all is made.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.analysis.verdict import Verdict, verdict
from reports.atomic_write import write_whole
from reports.document import Table
from reports.escape import slug
from reports.export.printers import frame_to_csv
from reports.export.templating import html_templates, markdown_templates
from reports.machine_drift import machine_drift
from reports.movement import Kind, Movements, Outcome, movements
from reports.movement_table import (
    elsewhere_table,
    facts_table,
    headline,
    moved_table,
    movement_frame,
    one_sided_table,
    perhaps_table,
    still_tables,
)
from reports.results.series import all_series
from reports.side_facts import differing_facts
from reports.sides import Side
from reports.stats.number_format import as_ratio
from reports.tables.comparison import without_controls

DEFINITIONS = (
    "A score is compared seed by seed, B less A, with Student’s t interval at 95 % of the "
    "differences; it moved where the interval excludes zero. Identical means equal to the last "
    "digit. Fewer than three paired seeds leave it open.",
    "A time is the ratio of B over A: faster or slower where its whole 95 % interval lies more "
    "than 0.5 % from 1, same where it lies within 2 %, ambiguous where the data do not say, noisy "
    "where a measurement did not settle. The two sides were timed at different moments, in "
    "processes that have no more in common than their number, so what the machine did in between "
    "is part of the ratio.",
    "Times and memory of different devices, thread counts or torch versions get no verdict. Where "
    "there is nothing else, both are shown as “other device” with the bare ratio of the "
    "processes’ medians (geometric means), and Welch’s interval between processes, unpaired.",
    "Counts, FLOPs and bytes are compared to the last digit.",
    "“What else differs” names what is recorded beside the numbers: trial, where the trial’s id is "
    "another, so that a definition’s version, the model, the data or the training changed (all "
    "variants of a timing trial share its id); commit; environment, which is device, threads and "
    "torch’s version. What an instrument says of itself is left out.",
)


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    """Two selections side by side, ready to be printed as HTML or Markdown.

    Attributes:
        headline: What moved, in a sentence.
        sentences: How sure that is, and what the machine itself did.
        verdicts: Of the claim, of either side; empty where none makes one.
        shown: Tables of what moved, of what may have, and of what other devices gave.
        facts: What else is recorded and differs.
        folded: The rest.
        command: Makes this page again.
    """

    a: Side
    b: Side
    headline: str
    sentences: tuple[str, ...]
    verdicts: tuple[tuple[str, str], ...]
    verdict_sentence: str
    shown: tuple[Table, ...]
    facts: Table | None
    folded: tuple[Table, ...]
    command: str
    definitions: tuple[str, ...] = DEFINITIONS


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """A comparison on disk.

    Attributes:
        path: Of its `index.html`.
        headline: As on the page.
    """

    path: Path
    headline: str


def render_comparison(a: Side, b: Side, folder: Path) -> Rendered:
    """Write the comparison of two selections of one ablation at one scale.

    Args:
        a: The one that the other is held against.
        b: The other.
        folder: The reports' folder; the files go to ``NAME/compare-A-B`` inside.

    Raises:
        OSError: if the folder cannot be written.
    """
    found = movements(a, b)
    made = comparison_page(a, b, found)
    home = folder / slug(a.about.ablation) / f"compare-{slug(a.name)}-{slug(b.name)}"
    content = {
        "moved.csv": frame_to_csv(movement_frame(found)),
        "report.md": markdown_templates().get_template("compare.md").render(page=made),
        "index.html": html_templates().get_template("compare.html").render(page=made),
    }
    for name, text in content.items():
        write_whole(home / name, text.encode())
    return Rendered(path=home / "index.html", headline=made.headline)


def comparison_page(a: Side, b: Side, found: Movements) -> ComparisonPage:
    """All that the page says."""
    tables = (moved_table(found), perhaps_table(found), elsewhere_table(found))
    judged = _verdict(a), _verdict(b)
    said = zip(("A", "B"), judged, strict=True)
    return ComparisonPage(
        a=a,
        b=b,
        headline=headline(found),
        sentences=tuple(_sentences(a, b, found)),
        verdicts=tuple((name, verdict.sentence) for name, verdict in said if verdict),
        verdict_sentence=_compared(*judged),
        shown=tuple(table for table in tables if table),
        facts=facts_table(differing_facts(a, b)),
        folded=tuple(_folded(found)),
        command=f"bakeoff report {_quoted(a.about.ablation)} --scale {_quoted(a.about.scale)} "
        f"--compare {_quoted(a.name)} {_quoted(b.name)}",
    )


def _quoted(name: str) -> str:
    return shlex.quote(name)


def _folded(found: Movements) -> Iterator[Table]:
    yield from still_tables(found)
    only = one_sided_table(found.one_sided)
    if only:
        yield only


def _verdict(side: Side) -> Verdict | None:
    measured = without_controls(all_series(side.about, side.results))
    return verdict(side.about, measured)


def _compared(a: Verdict | None, b: Verdict | None) -> str:
    """Whether the answer to the claim is still the same word."""
    if a is None or b is None:
        return "" if a is b else f"Only {'B' if a is None else 'A'} makes a claim."
    if a.kind == b.kind:
        return f"The verdict on the claim is the same on both sides: “{a.kind}”."
    return f"The verdict on the claim moved: “{a.kind}” in A, “{b.kind}” in B."


def _sentences(a: Side, b: Side, found: Movements) -> Iterator[str]:
    num = {kind: found.num_tested(kind) for kind in (Kind.SCORE, Kind.TIME)}
    tested = [f"{n:,} {kind}{'' if n == 1 else 's'}" for kind, n in num.items() if n]
    if tested:
        yield (
            "Many comparisons make chance findings certain, so all that differ were tested "
            f"together by Holm’s procedure at 5 % ({'; apart from them '.join(tested)}): chance "
            "alone makes anything move in at most one such family of twenty. “Perhaps” marks what "
            "is certain on its own, and not among so many."
        )
    times = [m for m in found.every if m.kind is Kind.TIME]
    drift = machine_drift(a.results, b.results)
    if drift and any(m.outcome is not Outcome.ELSEWHERE for m in times):
        yield (
            "The instrument’s own kernels, the same work on both sides, took "
            f"{as_ratio(drift.ratio)} times as long in B (median of {drift.num_pairs:,} pairs): "
            "about so much of any change of a time is the machine’s."
        )
    yield from _left_over(found)


def _left_over(found: Movements) -> Iterator[str]:
    for is_a, name in ((True, "A"), (False, "B")):
        num = sum(only.is_a is is_a for only in found.one_sided)
        if num:
            noun = "number stands" if num == 1 else "numbers stand"
            yield f"{num:,} {noun} in {name} only: see the last table."
    lonely = _seeds_of_one_side(found)
    if lonely:
        yield lonely


def _seeds_of_one_side(found: Movements) -> str:
    """Seeds and processes that could not be paired."""
    of_a = {seed for m in found.every for seed in m.a.seeds - m.b.seeds}
    of_b = {seed for m in found.every for seed in m.b.seeds - m.a.seeds}
    parts = [
        f"{'seed' if len(seeds) == 1 else 'seeds'} {_numbers(sorted(seeds))} in {name} only"
        for name, seeds in (("A", of_a), ("B", of_b))
        if seeds
    ]
    return f"Not paired, for some variants: {' and '.join(parts)}." if parts else ""


def _numbers(seeds: Sequence[int], most: int = 12) -> str:
    text = ", ".join(map(str, seeds[:most]))
    return f"{text} and {len(seeds) - most:,} more" if len(seeds) > most else text
