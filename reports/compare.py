"""Compare two selections of an ablation's results: one merge, one table, one page.

Both frames are reduced to one row per metric, environment and seed, and merged on these columns.

- Scores are paired by seed: the mean of B - A, with Student's t interval of the differences.
- Times are ratios, B over A, by the rule of `bakeoff.reports.analysis.time_comparison`; a rate is
  judged as the inverse of a time.
- Counts, FLOPs and bytes are compared to the last digit.
- Times and memory of different environments get no verdict, only Welch's interval of the ratio.

Holm's procedure (Scand. J. Statist. 6, 1979) corrects for the number of comparisons, over all
scores and over all times that differ. A change that does not survive it is a possible change. The p
of a score is that of its paired t test; the p of a time is the smallest level at which its interval
excludes the 0.5 % about 1. Equal rows give equal bytes, and all content is made before anything is
written.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import math
import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bakeoff.reports.analysis.time_comparison import CLEAR_GAP, compare, exponential, log_ratios
from bakeoff.reports.analysis.verdict import Verdict, verdict
from bakeoff.reports.document import Column, Entry, ReportTable, Row, readable
from bakeoff.reports.escape import slug
from bakeoff.reports.export.printers import frame_to_csv
from bakeoff.reports.export.templating import html_templates, markdown_templates
from bakeoff.reports.render import write_whole
from bakeoff.reports.results.reading import Reading, reading_of
from bakeoff.reports.results.series import (
    QUALITY,
    all_series,
    is_bound,
    is_share,
    within_shares,
    without_controls,
)
from bakeoff.reports.stats.intervals import (
    CONFIDENCE,
    Estimate,
    Notation,
    as_interval,
    as_ratio,
    for_quantities,
    for_scores,
    mean_interval,
    paired_differences,
    smallest_level,
)
from bakeoff.reports.stats.significance import ALPHA, holm
from bakeoff.reports.tables.controls import KERNELS
from bakeoff.suite.schema import CONTROLS, MIXER_ALONE, About

KEY = ["task", "variant", "probe", "metric", "at", "unit", "better"]
MIN_PAIRS = 3
MOST_ROWS = 200  # limit for a table on a page; moved.csv has all rows
KINDS = ("score", "time", "count")
# Outcomes, in the order of the headline.
CERTAIN = ("moved", "slower", "faster", "ended differently")
POSSIBLE, OTHER_DEVICE = "perhaps moved", "other device"
_OTHERS = ("open", "ambiguous", "noisy", OTHER_DEVICE, "same", "identical", "no number")
OUTCOMES = (*CERTAIN, POSSIBLE, *_OTHERS)
ONLY = {"left_only": "only in A", "right_only": "only in B"}
NOTHING_IN_COMMON = (
    "The two selections have nothing in common: no variant was measured in both with the same "
    "seed. One store keeps one result per trial and environment, so two commits are rarely in the "
    "same store; run each commit with its own output folder, and compare the two folders."
)
DEFINITIONS = (
    "Scores: the mean of B - A over the seeds that both have, with Student’s t interval at 95 %. A "
    "score moved if the interval excludes zero; fewer than three pairs are not enough for a "
    "verdict. The columns A and B are means over the same seeds. Identical means equal to the last "
    "digit.",
    "Times: the ratio B / A. A time is faster or slower if the whole 95 % interval is more than "
    "0.5 % from 1, same if the interval is within 2 %, ambiguous if neither holds, and noisy if a "
    "stopping criterion was not met. A and B were measured at different times, so the ratio "
    "includes changes of the machine.",
    "Times and memory of different devices, thread counts or torch versions get no verdict; “other "
    "device” shows the ratio of geometric means, with Welch’s unpaired interval.",
    "Counts, FLOPs and bytes are compared to the last digit.",
    "All scores that differ are tested together with Holm’s method at 5 %, and so are all times. "
    "“Perhaps” marks a difference that is significant on its own but not after this correction.",
    "“What else differs” names recorded differences: the trial (a definition’s version, the model, "
    "the data or the training), the commit, the environment.",
)
_MOST_SEEDS = 12  # limit of listed seeds
_MOST_LINES = 400  # limit for a file's diff
_RATE_UNITS = ("/s", "_per_second")
_COUNTED_UNITS = ("B", "FLOP")
_MEETING = "without a common environment"
_NOTHING = "none"
NO_ESTIMATE = Estimate(n=0)


@dataclass(frozen=True, eq=False)
class Selection:
    """The rows of one ablation at one scale: A or B of a comparison.

    Attributes:
        name: The name in commands and file names: a folder, a commit, an environment's id.
        title: The title on a page: ``commit 423dc0fcabaf``.
        about: The description of the store's rows, including those not selected.
        results: The selected rows; columns as `bakeoff.suite.schema.RESULT_COLUMNS`.
        source: Place -> text of the user's files that produced them; empty if unknown.
    """

    name: str
    title: str
    about: About
    results: pd.DataFrame
    source: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One metric in both selections, and how it changed.

    Attributes:
        key: The columns `KEY`.
        kind: One of `KINDS`.
        readings: The measurements of A and of B, one per seed, also those without a number.
        outcome: One of `OUTCOMES`, or of the values of `ONLY`.
        estimate: For a score, B - A in its unit; for a time or a count, B over A.
        p: The p-value of the test against no change, or None if there is no test.
        reason: Why the outcome is not certain; empty if it is.
        differs: The other recorded properties that differ.
        devices: The devices of A and of B, if the metric depends on the machine.
        environments: The same as environment ids.
    """

    key: Mapping[str, str]
    kind: str
    readings: tuple[tuple[Reading, ...], tuple[Reading, ...]]
    outcome: str = "open"
    estimate: Estimate = NO_ESTIMATE
    p: float | None = None
    reason: str = ""
    differs: tuple[str, ...] = ()
    devices: tuple[str, str] = ("", "")
    environments: tuple[str, str] = ("", "")

    @property
    def values(self) -> tuple[dict[int, float], dict[int, float]]:
        """The values of A and of B by seed, if there is a number."""
        a, b = ({r.seed: r.value for r in some if r.is_usable} for some in self.readings)
        return a, b

    @property
    def summaries(self) -> tuple[float | None, float | None]:
        """The numbers of A and of B: the mean of scores, else the median.

        Times are those of all seeds, other numbers those of common seeds, if there are any.
        """
        a, b = self.values
        common = a.keys() & b.keys() if self.kind != "time" else ()
        sides = [[v for seed, v in one.items() if seed in common or not common] for one in (a, b)]
        mean = statistics.fmean if self.kind == "score" else statistics.median
        first, second = (float(mean(side)) if side else None for side in sides)
        return first, second

    @property
    def is_certain(self) -> bool:
        """True if there certainly is a change."""
        return self.outcome in CERTAIN

    @property
    def size(self) -> float:
        """The change as a share of the larger number; infinite if a seed ended differently."""
        if self.outcome == "ended differently":
            return math.inf
        if self.kind != "score" and self.estimate.point:
            return 1 - min(self.estimate.point, 1 / self.estimate.point)
        a, b = (number or 0.0 for number in self.summaries)
        largest = max(abs(a), abs(b))
        return abs(b - a) / largest if largest else 0.0

    @property
    def tone(self) -> str:
        """The text ``better`` or ``worse`` for B, of a certain or possible change; else empty."""
        change, better = self.estimate.point, self.key["better"]
        is_directed = self.outcome in ("moved", "slower", "faster", POSSIBLE)
        same = 0.0 if self.kind == "score" else 1.0
        if not is_directed or better == "none" or change in (None, same):
            return ""
        is_up = change > same
        return "better" if is_up == (better == "higher") else "worse"

    @property
    def finding(self) -> str:
        """The outcome in words, with a direction: ``worse``, ``perhaps slower``, ``identical``."""
        word = self.tone or "moved"
        if self.kind == "time" and self.tone:
            word = "faster" if self.tone == "better" else "slower"
        if self.outcome == "moved":
            return word
        return f"perhaps {word}" if self.outcome == POSSIBLE else self.outcome


def render_comparison(a: Selection, b: Selection, folder: Path) -> tuple[str, Path]:
    """Write the comparison of two selections of one ablation at one scale.

    Args:
        a: The baseline of the comparison.
        b: The other selection.
        folder: The reports' folder; the files go to ``NAME/compare-A-B`` inside.

    Returns:
        The headline, and the path of the page.

    Raises:
        OSError: if the folder cannot be written.
    """
    changes = compare_selections(a, b)
    page = _page(a, b, changes)
    home = folder / slug(a.about.ablation) / f"compare-{slug(a.name)}-{slug(b.name)}"
    content = {
        "moved.csv": frame_to_csv(csv_frame(changes)),
        "report.md": markdown_templates().get_template("compare.md").render(page=page),
        "index.html": html_templates().get_template("compare.html").render(page=page),
    }
    for name, text in content.items():
        write_whole(home / name, text.encode())
    return headline(changes), home / "index.html"


# The merge


def compare_selections(a: Selection, b: Selection) -> list[Change]:
    """Return the changes from A to B; they do not depend on the order of the rows.

    Certain changes come first, then possible ones; scores before the others, then the largest.
    Metrics that only one selection has come last.
    """
    merged = _merge(_one_row_a_seed(a, b), _one_row_a_seed(b, a))
    groups = merged.groupby([*KEY, "place"], sort=False)
    changes = [_change(rows) for _, rows in groups]
    tasks = {name: i for i, name in enumerate(dict.fromkeys((*a.about.tasks, *b.about.tasks)))}
    labels = {name: i for i, name in enumerate(dict.fromkeys((*a.about.labels, *b.about.labels)))}

    def rank(change: Change) -> tuple[Any, ...]:
        key = change.key
        rest = (tasks[key["task"]], labels[key["variant"]], len(key["at"]), *key.values())
        group = [change.is_certain, change.outcome == POSSIBLE, change.outcome == OTHER_DEVICE]
        size = change.size if change.is_certain or change.outcome == POSSIBLE else 0.0
        is_unpaired = change.outcome in ONLY.values()
        is_score = change.kind == "score"
        return (*(not each for each in group), is_unpaired, not is_score, -size, *rest)

    return sorted(_correct(changes), key=rank)


def _one_row_a_seed(selection: Selection, other: Selection) -> pd.DataFrame:
    """Return the rows of a selection, one per seed, with `place` and `reading`.

    `place` is the environment if the metric depends on the machine, else empty. If a seed has
    several rows, one that is ok is preferred, then one of an environment that the other selection
    has, too.
    """
    rows = selection.results[~selection.results["metric"].isin(list(CONTROLS))].copy()
    keys = zip(rows["unit"], rows["metric"], rows["environment_id"], strict=True)
    readings = [reading_of(row) for row in rows.to_dict("records")]
    rows["place"] = [place if is_bound(unit, metric) else "" for unit, metric, place in keys]
    rows["reading"] = pd.Series(readings, index=rows.index, dtype=object)
    rows["is_not_ok"] = [not reading.is_ok for reading in readings]
    rows["is_elsewhere"] = ~rows["environment_id"].isin(set(other.results["environment_id"]) - {""})
    order = ["seed", "is_not_ok", "is_elsewhere", "environment_id", "trial_id"]
    kept = [*KEY, "place", "seed", "reading", "trial_id", "commit", "environment_id", "device"]
    return rows.sort_values(order)[kept].drop_duplicates([*KEY, "place", "seed"])


def _merge(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return an outer merge, with one row per metric, place and seed."""
    of_a, of_b = _places(a), _places(b)
    for key in of_a.keys() & of_b.keys():
        if not of_a[key].keys() & of_b[key].keys():
            for rows, places in ((a, of_a[key]), (b, of_b[key])):
                main = min(places, key=lambda place: (-places[place], place))
                is_main = (rows[KEY] == list(key)).all(axis=1) & (rows["place"] == main)
                rows.loc[is_main, "place"] = _MEETING
    on = [*KEY, "place", "seed"]
    merged = a.merge(b, how="outer", on=on, suffixes=("_a", "_b"), indicator=True)
    return _without_only_parts(merged)


def _places(rows: pd.DataFrame) -> dict[tuple[str, ...], Counter[str]]:
    """Return how many numbers each metric has at each place."""
    found: dict[tuple[str, ...], Counter[str]] = {}
    for *key, place, reading in rows[[*KEY, "place", "reading"]].itertuples(index=False):
        found.setdefault(tuple(key), Counter())[place] += reading.has_number
    return found


def _without_only_parts(merged: pd.DataFrame) -> pd.DataFrame:
    """Drop the only part of a task if it equals the whole, which would count it twice."""
    scores = merged[merged["probe"] == QUALITY]
    sides = ["reading_a", "reading_b"]
    for _, rows in scores.groupby(["task", "metric"], sort=False):
        parts = [part for _, part in rows[rows["at"] != ""].groupby("at")]
        whole = rows[rows["at"] == ""].set_index(["variant", "seed"])
        if len(parts) == 1 and not whole.empty:
            part = parts[0].set_index(["variant", "seed"])
            wholes, same = (one[sides].map(_number) for one in (whole, part))
            if wholes.reindex(same.index).equals(same):
                merged = merged.drop(parts[0].index)
    return merged


def _number(reading: Any) -> float:
    is_usable = isinstance(reading, Reading) and reading.is_usable
    return reading.value if is_usable else math.nan


# The judgement


def _change(rows: pd.DataFrame) -> Change:
    """Return the change of one metric, judged as if it were the only one."""
    rows = rows.sort_values("seed")
    key = {name: str(rows[name].iloc[0]) for name in KEY}
    common = rows[rows["_merge"] == "both"]
    a, b = ([r for r in rows[f"reading_{x}"] if isinstance(r, Reading)] for x in "ab")
    devices, environments, commits = (
        (_distinct(rows[f"{name}_a"]), _distinct(rows[f"{name}_b"]))
        for name in ("device", "environment_id", "commit")
    )
    differs = {
        "trial": any(common["trial_id_a"] != common["trial_id_b"]),
        "commit": commits[0] != commits[1],
        "environment": environments[0] != environments[1],
    }
    found = Change(key=key, kind=_kind(key, [*a, *b]), readings=(tuple(a), tuple(b)))
    if is_bound(key["unit"], key["metric"]):
        found = replace(
            found,
            devices=(min(devices[0], default=""), min(devices[1], default="")),
            environments=(min(environments[0], default=""), min(environments[1], default="")),
        )
    if not a or not b:
        return replace(found, outcome=ONLY["right_only" if not a else "left_only"])
    found = replace(found, differs=tuple(name for name in differs if differs[name]))
    if not any(found.values):
        return replace(found, outcome="no number", reason=", ".join({r.fate: 0 for r in b}))
    judge = {"score": _judge_score, "time": _judge_time, "count": _judge_count}[found.kind]
    judged = judge(found)
    endings = "; ".join(_different_endings(found))
    if endings:
        return replace(judged, outcome="ended differently", reason=endings, p=None)
    return judged


def _distinct(values: Iterable[Any]) -> set[str]:
    return {value for value in values if isinstance(value, str) and value}


def _kind(key: Mapping[str, str], readings: Iterable[Reading]) -> str:
    if key["probe"] == QUALITY:
        return "score"
    if key["unit"] == "s" or key["unit"].endswith(_RATE_UNITS):
        return "time"
    # Other numbers with a good direction are measured, too: scores of trained models, by position
    # or on other splits, and ratios of times.
    is_counted = key["better"] == "none" or key["unit"] in _COUNTED_UNITS
    is_whole = key["unit"] == "1" and all(r.value.is_integer() for r in readings if r.is_usable)
    is_number = is_whole and not is_share(key["metric"], key["unit"])
    return "count" if is_counted or is_number else "score"


def _different_endings(found: Change) -> Iterator[str]:
    a, b = ({r.seed: r for r in some} for some in found.readings)
    for seed in sorted(a.keys() & b.keys()):
        if a[seed].is_usable != b[seed].is_usable:
            fates = (f"{r.fate} ({r.reason})" if r.reason else r.fate for r in (a[seed], b[seed]))
            yield f"seed {seed}: {' in A, '.join(fates)} in B"


def _is_identical(found: Change) -> bool:
    a, b = found.values
    common = a.keys() & b.keys()
    return bool(common) and all(a[seed] == b[seed] for seed in common)


def _judge_score(found: Change) -> Change:
    a, b = found.values
    differences = paired_differences(b, a)
    estimate = mean_interval(differences)
    metric, unit = found.key["metric"], found.key["unit"]
    if is_share(metric, unit):
        estimate = within_shares(estimate, differences)
    found = replace(found, estimate=estimate)
    if is_bound(unit, metric) and len({*found.environments}) == 2:
        return replace(found, outcome=OTHER_DEVICE)
    if _is_identical(found):
        return replace(found, outcome="identical")
    n = len(differences)
    if n < MIN_PAIRS:
        needed = f"{n} paired seed{'' if n == 1 else 's'}, and at least {MIN_PAIRS} are needed"
        return replace(found, reason=needed if n else "no seed in common")
    found = replace(found, p=smallest_level(differences))
    if estimate.excludes_zero:
        return replace(found, outcome="moved")
    return replace(found, reason="the interval of the difference contains zero")


def _judge_time(found: Change) -> Change:
    (values_a, values_b), (a, b) = found.values, found.readings
    if len({*found.environments}) == 2:
        ratio = unpaired_ratio([*values_a.values()], [*values_b.values()])
        return replace(found, estimate=ratio, outcome=OTHER_DEVICE)
    is_rate = found.key["unit"].endswith(_RATE_UNITS)  # the inverse of a rate is a time
    timed = compare(a, b) if is_rate else compare(b, a)
    found = replace(found, estimate=_inverse(timed.ratio) if is_rate else timed.ratio)
    if _is_identical(found):
        return replace(found, outcome="identical")
    found = replace(found, outcome=str(timed.outcome), reason=timed.reason)
    if found.outcome == "noisy":
        return found
    return replace(found, p=level_beyond_gap([*log_ratios(values_b, values_a).values()]))


def _judge_count(found: Change) -> Change:
    (a, b), values = found.summaries, found.values
    n = len(values[0].keys() & values[1].keys())
    found = replace(found, estimate=Estimate(n=n, point=b / a if a and b and b / a > 0 else None))
    if len({*found.environments}) == 2:
        return replace(found, outcome=OTHER_DEVICE)
    if not n:
        return replace(found, reason="no seed in common")
    return replace(found, outcome="identical" if _is_identical(found) else "moved")


def _inverse(ratio: Estimate) -> Estimate:
    ends = (ratio.point, ratio.high, ratio.low)
    point, low, high = (None if end is None else 1 / end for end in ends)
    return Estimate(n=ratio.n, point=point, low=low, high=high)


def level_beyond_gap(logs: Sequence[float]) -> float:
    """Return the smallest level at which the interval of the mean is more than 0.5 % from ratio 1.

    Args:
        logs: Natural logarithms of ratios, one per process.
    """
    mean, gap = math.fsum(logs) / len(logs), math.log(CLEAR_GAP)
    return smallest_level(logs, math.copysign(gap, mean)) if abs(mean) > gap else 1.0


def unpaired_ratio(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Return the ratio of geometric means, `b` over `a`, with Welch's interval of the logarithms.

    Args:
        a: One positive number per process.
        b: One positive number per process.

    Returns:
        The estimate; `n` counts the processes of both. It has no interval if `a` or `b` has a
        single process, and no ratio if one has none.
    """
    logs = [np.log([value for value in values if value > 0]) for values in (b, a)]
    n = sum(map(len, logs))
    if not all(map(len, logs)):
        return Estimate(n=n)
    point = float(logs[0].mean() - logs[1].mean())
    if min(map(len, logs)) == 1:
        return exponential(Estimate(n=n, point=point))
    if not any(values.std() for values in logs):
        return exponential(Estimate(n=n, point=point, low=point, high=point))
    interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval(CONFIDENCE)
    low, high = float(interval.low), float(interval.high)
    return exponential(Estimate(n=n, point=point, low=low, high=high))


def _correct(changes: list[Change]) -> list[Change]:
    """Apply Holm's procedure to each kind: changes that do not survive it are only possible."""
    corrected = list(changes)
    for kind in KINDS:
        tested = {str(i): c.p for i, c in enumerate(changes) if c.kind == kind and c.p is not None}
        reason = f"significant on its own, but not after correction for {len(tested)} tests"
        for i, p in holm(tested).items():
            if changes[int(i)].is_certain and p >= ALPHA:
                corrected[int(i)] = replace(changes[int(i)], outcome=POSSIBLE, reason=reason)
    return corrected


# The page


def headline(changes: Sequence[Change]) -> str:
    """Return the comparison as a sentence: the number of changes by direction, and of the rest."""
    paired = [c for c in changes if c.outcome not in ONLY.values()]
    if not any(c.estimate.n or c.outcome == "ended differently" for c in paired):
        return NOTHING_IN_COMMON
    text = "; ".join(filter(None, (_count_findings(kind, paired) for kind in KINDS)))
    if not any(change.is_certain for change in paired):
        return f"No significant change: {text}."
    return f"{text}. Largest change: {_in_a_line(paired[0])}."


def _count_findings(kind: str, changes: Sequence[Change]) -> str:
    """Return the findings of a kind, as ``24 scores: 2 worse, 1 better, 21 identical``."""
    some = [change for change in changes if change.kind == kind]
    ordered = sorted(some, key=lambda c: OUTCOMES.index(c.outcome))
    counts = Counter(change.finding for change in ordered)
    noun = kind if len(some) == 1 else f"{kind}s"
    found = ", ".join(f"{count:,} {finding}" for finding, count in counts.items())
    return f"{len(some):,} {noun}: {found}" if some else ""


def _in_a_line(change: Change) -> str:
    """Return a change as text: ``bits of heads=8 (words) +0.1 bit [0.09, 0.11] (worse)``."""
    entry = _change_entry(change, _notation(change))
    numbers = f"{entry.text} {entry.interval}".strip() if entry.text != change.finding else ""
    where = f"{readable(change.key['metric'])} of {change.key['variant']} ({_where(change)})"
    return " ".join(filter(None, (where, numbers, f"({change.finding})")))


def _page(a: Selection, b: Selection, changes: Sequence[Change]) -> dict[str, object]:
    """Return the values that the templates print."""
    moved = [c for c in changes if c.is_certain or c.outcome in (POSSIBLE, OTHER_DEVICE)]
    shown = moved or [c for c in changes if c.kind == "score" and c.outcome not in ONLY.values()]
    rest = [c for c in changes if c not in shown and c.outcome not in ONLY.values()]
    differences = recorded_differences(a, b)
    verdicts = [(name, _verdict(one)) for name, one in (("A", a), ("B", b))]
    options = (a.about.ablation, "--scale", a.about.scale, "--compare", a.name, b.name)
    return {
        "a": a,
        "b": b,
        "headline": headline(changes),
        "sentences": [*_sentences(a, b, changes)],
        "verdicts": [(name, one.sentence) for name, one in verdicts if one],
        "verdict_sentence": _compare_verdicts(*(one for _, one in verdicts)),
        "shown": change_table("What moved" if moved else "Scores", shown) if shown else None,
        "facts": _differences_table(differences) if differences else None,
        "diffs": source_diffs(a.source, b.source) if a.source and b.source else {},
        "rest": change_table(f"The other {len(rest):,}", rest) if rest else None,
        "command": f"bakeoff report {shlex.join(options)}",
        "definitions": DEFINITIONS,
    }


def _verdict(selection: Selection) -> Verdict | None:
    measured = without_controls(all_series(selection.about, selection.results))
    return verdict(selection.about, measured)


def _compare_verdicts(a: Verdict | None, b: Verdict | None) -> str:
    if a is None or b is None:
        return "" if a is b else f"Only {'B' if a is None else 'A'} makes a claim."
    if a.kind == b.kind:
        return f"The verdict on the claim is the same in both: “{a.kind}”."
    return f"The verdict on the claim moved: “{a.kind}” in A, “{b.kind}” in B."


def _sentences(a: Selection, b: Selection, changes: Sequence[Change]) -> Iterator[str]:
    """Yield how the machine itself changed, and which metrics and seeds only one selection has."""
    drift = machine_drift(a, b)
    if drift and any(c.kind == "time" and c.outcome != OTHER_DEVICE for c in changes):
        yield (
            f"The reference kernels, which do the same work in both, took {as_ratio(drift[0])} "
            f"times as long in B (median of {drift[1]:,} pairs). About this much of any change in "
            "time is due to the machine."
        )
    for outcome in ONLY.values():
        num = sum(c.outcome == outcome for c in changes)
        if num:
            yield f"{num:,} {'metric is' if num == 1 else 'metrics are'} {outcome}: see moved.csv."
    paired = [c.readings for c in changes if c.outcome not in ONLY.values()]
    sides = [({r.seed for r in one}, {r.seed for r in two}) for one, two in paired]
    only = {"A": {s for x, y in sides for s in x - y}, "B": {s for x, y in sides for s in y - x}}
    parts = [f"{_seeds(sorted(some))} in {name} only" for name, some in only.items() if some]
    if parts:
        yield f"Not paired, for some variants: {' and '.join(parts)}."


def _seeds(seeds: Sequence[int]) -> str:
    rest = len(seeds) - _MOST_SEEDS
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds[:_MOST_SEEDS]))}{more}"


def change_table(title: str, changes: Iterable[Change]) -> ReportTable:
    """Return a table with one row per change: both numbers, the change, and what else differs."""
    columns = (
        _column("of what"),
        _column("change"),
        _column("B against A", "mixed"),
        _column("A", "mixed"),
        _column("B", "mixed"),
        _column("what else differs"),
    )
    return _table(title, "variant", columns, [_row(change) for change in changes])


def _table(
    title: str, row_title: str, columns: tuple[Column, ...], rows: Sequence[Row]
) -> ReportTable:
    """Return a table with the first `MOST_ROWS` of the rows, and a footnote on the others."""
    note = f"{MOST_ROWS:,} of {len(rows):,} rows are shown; moved.csv contains all rows."
    return ReportTable(
        name=title,
        title=title,
        task="",
        row_title=row_title,
        columns=columns,
        rows=tuple(rows[:MOST_ROWS]),
        footnotes=(note,) if len(rows) > MOST_ROWS else (),
    )


def _column(title: str, measured_unit: str = "") -> Column:
    """Return a column of text, or of numbers in several units, each written with its own."""
    return Column(key=title, title=title, measured_unit=measured_unit, entries={})


def _row(change: Change) -> Row:
    notation, sides = _notation(change), zip(change.summaries, change.readings, strict=True)
    numbers = [_number_entry(change, notation, *side) for side in sides]
    if change.outcome == OTHER_DEVICE:
        numbers = [replace(n, note=d) for n, d in zip(numbers, change.devices, strict=True)]
    # Long reasons, and those that repeat the interval, are only in moved.csv.
    is_long = change.outcome in (POSSIBLE, "ambiguous", "noisy")
    return Row(
        name=change.key["variant"],
        entries=(
            Entry(text=readable(change.key["metric"]), note=_where(change)),
            Entry(text=change.finding, note="" if is_long else change.reason, tone=change.tone),
            _change_entry(change, notation),
            *numbers,
            Entry(text=", ".join(change.differs) or "nothing"),
        ),
    )


def _where(change: Change) -> str:
    task = change.key["task"]
    name = "the mixer alone" if task == MIXER_ALONE else readable(task)
    return ", ".join(filter(None, (name, change.key["at"])))


def _notation(change: Change) -> Notation:
    numbers = [number for number in change.summaries if number is not None]
    if change.kind != "score":
        return for_quantities(change.key["unit"], numbers)
    width = change.estimate.half_width or abs(change.estimate.point or 0.0)
    return for_scores(change.key["unit"], [width] if width else [], numbers)


def _number_entry(
    change: Change, notation: Notation, number: float | None, readings: Sequence[Reading]
) -> Entry:
    """Return the number of one selection, with the number of seeds behind it."""
    if number is None:
        return Entry(text=", ".join({r.fate: 0 for r in readings}), tone="none")
    n, text, interval = sum(r.is_usable for r in readings), notation.write(number), ""
    text = notation.with_unit(text)
    if change.kind == "score":
        n = change.estimate.n or n
        interval = f"{n} seed{'' if n == 1 else 's'}"
    elif change.kind == "time":
        interval = f"{n} process{'' if n == 1 else 'es'}"
    elif number.is_integer() and abs(number) < 1e15:
        unit = "" if change.key["unit"] == "1" else f" {change.key['unit']}"
        text = f"{number:,.0f}{unit}"  # all digits, since counts are compared exactly
    return Entry(estimate=Estimate(n=n, point=number), text=text, interval=interval)


def _change_entry(change: Change, notation: Notation) -> Entry:
    """Return B against A: the change and its interval."""
    estimate = change.estimate
    if change.outcome == "identical" or estimate.point is None:
        return Entry(estimate=estimate, text="–", tone="none")
    if change.kind == "score":
        text, write = (
            notation.with_unit(notation.write_signed(estimate.point)),
            notation.write_signed,
        )
    else:  # three decimals near 1, where two would hide the change
        write = Notation(decimals=3).write if 0.1 <= estimate.point < 10 else as_ratio
        text = f"{write(estimate.point)} ×"
    interval = as_interval(estimate, write)
    return Entry(estimate=estimate, text=text, interval=interval, tone=change.tone)


def csv_frame(changes: Iterable[Change]) -> pd.DataFrame:
    """Return every metric as a row of moved.csv: numbers exact, in their own units."""
    return pd.DataFrame([_record(change) for change in changes], dtype="object")


def _record(change: Change) -> dict[str, object]:
    (a, b), estimate = change.summaries, change.estimate.sure
    is_paired = change.outcome not in ONLY.values()
    return {
        "kind": change.kind,
        "outcome": change.outcome,
        "has_moved": "yes" if change.is_certain else "no",
        "direction": change.tone,
        **{name: change.key[name] for name in ("variant", "task", "probe", "metric", "at")},
        **{name: change.key[name] for name in ("unit", "better")},
        "a": a,
        "b": b,
        "change_is": ("difference" if change.kind == "score" else "ratio") if is_paired else "",
        "change": estimate.point,
        "change_low": estimate.low,
        "change_high": estimate.high,
        "n": estimate.n,
        "p": change.p,
        "differs": ", ".join(change.differs),
        "device_a": change.devices[0],
        "device_b": change.devices[1],
        "environment_id_a": change.environments[0],
        "environment_id_b": change.environments[1],
        "reason": change.reason,
    }


# Other differences


def _differences_table(differences: Mapping[str, tuple[str, str]]) -> ReportTable:
    rows = [
        Row(name=name, entries=tuple(Entry(text=value) for value in values))
        for name, values in differences.items()
    ]
    return _table("What else differs", "recorded", (_column("A"), _column("B")), rows)


def recorded_differences(a: Selection, b: Selection) -> dict[str, tuple[str, str]]:
    """Return each recorded property that differs, with the values of A and B."""
    of_a, of_b = _recorded(a), _recorded(b)
    if a.source and b.source:
        of_a["own source"], of_b["own source"] = (_digest(one.source) for one in (a, b))
    both = {name: (of_a.get(name, _NOTHING), of_b.get(name, _NOTHING)) for name in of_a | of_b}
    return {name: values for name, values in both.items() if values[0] != values[1]}


def _recorded(selection: Selection) -> dict[str, str]:
    about, rows = selection.about, selection.results
    claim = dataclasses.asdict(about.claim) if about.claim else {}
    made = [p for name, p in about.provenances.items() if name in set(rows["environment_id"])]
    noted = [
        {f"{name} version": version for name, version in p.versions.items()} | {**p.conditions}
        for p in made
    ]
    return {
        "commit": _joined(rows["commit"]),
        "environment": _joined(rows["environment_id"]),
        "device": _joined(rows["device"]),
        "threads": _joined(str(p.num_threads) for p in made),
        **{
            name: _joined(one.get(name, _NOTHING) for one in noted)
            for name in dict.fromkeys(name for one in noted for name in sorted(one))
        },
        "seeds planned": str(about.num_seeds),
        **{f"setting: {name}": str(value) for name, value in about.settings.items()},
        **{f"baseline model: {name}": str(value) for name, value in about.model.items()},
        "baseline": about.baseline,
        **{f"data: {task}": used.sha256 for task, used in about.data_sets.items()},
        **{f"claim: {name}": str(value) for name, value in claim.items()},
    }


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values) - {""})) or _NOTHING


def _digest(source: Mapping[str, str]) -> str:
    text = json.dumps(dict(source), sort_keys=True)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:12]


def source_diffs(a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, str]:
    """Return file -> unified diff from A to B, for the user's files that differ."""
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
    """Return how many times as long the instrument's own kernels took in B.

    Returns:
        The median ratio over kernels, coordinates and processes, and the number of ratios; or None
        if no kernel was timed in an environment of both.
    """
    key = ["metric", "task", "probe", "variant", "at", "environment_id", "seed"]
    kernels = [
        one.results[
            one.results["metric"].isin(KERNELS)
            & one.results["value"].between(0, math.inf, inclusive="neither")
        ]
        for one in (a, b)
    ]
    both = kernels[0].merge(kernels[1], on=key)
    logs = [math.log(b / a) for a, b in zip(both["value_x"], both["value_y"], strict=True)]
    return (math.exp(statistics.median(logs)), len(logs)) if logs else None
