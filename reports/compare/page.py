"""Write the files of a comparison: a page, the same as Markdown, and every number as CSV.

Certain changes come first, scores before the others, then possible ones. Then comes what else is
recorded and differs (commits, environments, settings, model, data, claim, seeds, the user's own
source), how much slower the machine itself became, and the rest folded. The instrument's own
kernels do the same work in every timing process; where they took longer, so did everything else.
The same rows give the same bytes, and nothing is written before everything is made.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import math
import shlex
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from reports.analysis.verdict import Verdict, verdict
from reports.compare.changes import Change, ChangeOutcome, NumberKind, compare_selections
from reports.compare.pairs import Selection, UnpairedMetric
from reports.compare.table import (
    by_title,
    change_table,
    csv_frame,
    differences_table,
    headline,
    plural,
    unpaired_table,
)
from reports.escape import slug
from reports.export.printers import frame_to_csv
from reports.export.templating import html_templates, markdown_templates
from reports.render import write_whole
from reports.results.reading import reading_of
from reports.results.series import all_series
from reports.stats.intervals import as_ratio
from reports.tables.comparison import without_controls
from reports.tables.controls import KERNELS

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
_MOST_SEEDS = 12  # that are listed
_MOST_LINES = 400  # of a file's diff


def render_comparison(a: Selection, b: Selection, folder: Path) -> tuple[str, Path]:
    """Write the comparison of two selections of one ablation at one scale.

    Args:
        a: The baseline of the comparison.
        b: The other.
        folder: The reports' folder; the files go to ``NAME/compare-A-B`` inside.

    Returns:
        The headline, and the path of the page.

    Raises:
        OSError: if the folder cannot be written.
    """
    changes, unpaired = compare_selections(a, b)
    page = _page(a, b, changes, unpaired)
    home = folder / slug(a.about.ablation) / f"compare-{slug(a.name)}-{slug(b.name)}"
    content = {
        "moved.csv": frame_to_csv(csv_frame(changes, unpaired)),
        "report.md": markdown_templates().get_template("compare.md").render(page=page),
        "index.html": html_templates().get_template("compare.html").render(page=page),
    }
    for name, text in content.items():
        write_whole(home / name, text.encode())
    return headline(changes), home / "index.html"


def _page(
    a: Selection, b: Selection, changes: Sequence[Change], unpaired: Sequence[UnpairedMetric]
) -> dict[str, object]:
    """What the templates print; `shown` and `folded` are tables."""
    shown, folded = (
        [change_table(title, some) for title, some in titled.items() if some]
        for titled in by_title(changes)
    )
    verdict_a, verdict_b = _verdict(a), _verdict(b)
    differences = recorded_differences(a, b)
    options = (a.about.ablation, "--scale", a.about.scale, "--compare", a.name, b.name)
    return {
        "a": a,
        "b": b,
        "headline": headline(changes),
        "sentences": [*_sentences(a, b, changes), *_unpaired_sentences(changes, unpaired)],
        "verdicts": [(n, v.sentence) for n, v in (("A", verdict_a), ("B", verdict_b)) if v],
        "verdict_sentence": _compare_verdicts(verdict_a, verdict_b),
        "shown": shown,
        "facts": differences_table(differences) if differences else None,
        "diffs": source_diffs(a.source, b.source) if a.source and b.source else {},
        "folded": [*folded, unpaired_table(unpaired)] if unpaired else folded,
        "command": f"bakeoff report {shlex.join(options)}",
        "definitions": DEFINITIONS,
    }


def _verdict(selection: Selection) -> Verdict | None:
    measured = without_controls(all_series(selection.about, selection.results))
    return verdict(selection.about, measured)


def _compare_verdicts(a: Verdict | None, b: Verdict | None) -> str:
    """Whether the answer to the claim is still the same word; empty where neither makes one."""
    if a is None or b is None:
        return "" if a is b else f"Only {'B' if a is None else 'A'} makes a claim."
    if a.kind == b.kind:
        return f"The verdict on the claim is the same on both sides: “{a.kind}”."
    return f"The verdict on the claim moved: “{a.kind}” in A, “{b.kind}” in B."


def _sentences(a: Selection, b: Selection, changes: Sequence[Change]) -> Iterator[str]:
    """How sure the changes are, and what the machine itself did."""
    tested = [c.kind for c in changes if c.p is not None]
    families = [f"{n:,} {plural(k, n)}" for k in NumberKind if (n := tested.count(k))]
    if families:
        yield (
            "Many comparisons make chance findings certain, so all that differ were tested "
            f"together by Holm’s procedure at 5 % ({'; apart from them '.join(families)}): chance "
            "alone makes anything move in at most one such family of twenty. “Perhaps” marks what "
            "is certain on its own, and not among so many."
        )
    times = (c.outcome for c in changes if c.kind is NumberKind.TIME)
    drift = machine_drift(a, b)
    if drift and any(outcome is not ChangeOutcome.OTHER_DEVICE for outcome in times):
        ratio, num_pairs = drift
        yield (
            "The instrument’s own kernels, the same work on both sides, took "
            f"{as_ratio(ratio)} times as long in B (median of {num_pairs:,} pairs): "
            "about so much of any change of a time is the machine’s."
        )


def _unpaired_sentences(
    changes: Sequence[Change], unpaired: Sequence[UnpairedMetric]
) -> Iterator[str]:
    """Metrics, seeds and processes of one selection only."""
    for name in ("A", "B"):
        num = sum(only.selection == name for only in unpaired)
        if num:
            noun = "number stands" if num == 1 else "numbers stand"
            yield f"{num:,} {noun} in {name} only: see the last table."
    seeds = [(c.pair.a.by_seed.keys(), c.pair.b.by_seed.keys()) for c in changes]
    only_a = sorted({seed for a, b in seeds for seed in a - b})
    only_b = sorted({seed for a, b in seeds for seed in b - a})
    parts = [
        f"{_seeds(some)} in {name} only" for name, some in (("A", only_a), ("B", only_b)) if some
    ]
    if parts:
        yield f"Not paired, for some variants: {' and '.join(parts)}."


def _seeds(seeds: Sequence[int]) -> str:
    rest = len(seeds) - _MOST_SEEDS
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds[:_MOST_SEEDS]))}{more}"


_KERNEL_KEY = ["metric", "task", "probe", "variant", "at", "environment_id", "seed"]
_NOTHING = "none"


def recorded_differences(a: Selection, b: Selection) -> dict[str, tuple[str, str]]:
    """Each thing that is recorded and differs, with the values of A and B as they are printed."""
    of_a, of_b = _recorded(a), _recorded(b)
    if a.source and b.source:
        of_a["own source"], of_b["own source"] = (_digest(one.source) for one in (a, b))
    both = {name: (of_a.get(name, _NOTHING), of_b.get(name, _NOTHING)) for name in of_a | of_b}
    return {name: values for name, values in both.items() if values[0] != values[1]}


def source_diffs(a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, str]:
    """File -> unified diff from A to B, of the user's files that are not the same."""
    found = {}
    for place in sorted({*a, *b}):
        before, after = (source.get(place, "").splitlines() for source in (a, b))
        lines = list(difflib.unified_diff(before, after, "A", "B", lineterm=""))
        if rest := lines[_MOST_LINES:]:
            lines = [*lines[:_MOST_LINES], f"... and {len(rest):,} more lines"]
        if lines:
            found[place] = "\n".join(lines)
    return found


def machine_drift(a: Selection, b: Selection) -> tuple[float, int] | None:
    """How many times as long the kernels took in B.

    Returns:
        The median ratio over kernels, coordinates and processes, and the number of ratios; None
        where no kernel was timed in an environment of both.
    """
    of_a, of_b = _kernel_seconds(a), _kernel_seconds(b)
    logs = [math.log(of_b[key] / of_a[key]) for key in of_a.keys() & of_b.keys()]
    return (math.exp(statistics.median(logs)), len(logs)) if logs else None


def _recorded(selection: Selection) -> dict[str, str]:
    about, rows = selection.about, selection.results
    claim = dataclasses.asdict(about.claim) if about.claim else {}
    data = {task: used.sha256 for task, used in about.data_sets.items()}
    return {
        "commit": _joined(rows["commit"]),
        "environment": _joined(rows["environment_id"]),
        "device": _joined(rows["device"]),
        **_provenance(selection),
        "seeds planned": str(about.num_seeds),
        **{f"setting: {name}": str(value) for name, value in about.settings.items()},
        **{f"baseline model: {name}": str(value) for name, value in about.model.items()},
        "baseline": about.baseline,
        **{f"data: {task}": digest for task, digest in data.items()},
        **{f"claim: {name}": str(value) for name, value in claim.items()},
    }


def _digest(source: Mapping[str, str]) -> str:
    said = json.dumps(dict(source), sort_keys=True)
    return hashlib.sha256(said.encode(errors="backslashreplace")).hexdigest()[:12]


def _provenance(selection: Selection) -> dict[str, str]:
    """Of the environments in which the selected rows were measured, and of no others."""
    measured_in = set(selection.results["environment_id"])
    made = [p for name, p in selection.about.provenances.items() if name in measured_in]
    found = {"threads": _joined(str(provenance.num_threads) for provenance in made)}
    versions, conditions = [p.versions for p in made], [p.conditions for p in made]
    for suffix, mappings in ((" version", versions), ("", conditions)):
        for name in sorted(set[str]().union(*mappings)):
            found[name + suffix] = _joined(mapping.get(name, _NOTHING) for mapping in mappings)
    return found


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values) - {""})) or _NOTHING


def _kernel_seconds(selection: Selection) -> dict[tuple[str, ...], float]:
    """Seconds by `_KERNEL_KEY`."""
    results = selection.results
    found: dict[tuple[str, ...], float] = {}
    for row in results[results["metric"].isin(KERNELS)].to_dict("records"):
        reading = reading_of(row)
        if reading.has_number and reading.value > 0:
            found[tuple(str(row[name]) for name in _KERNEL_KEY)] = reading.value
    return found
