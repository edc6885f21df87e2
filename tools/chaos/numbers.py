"""Compares the numbers of an output folder, in pages and in MLflow, with those of its journal.

The journal is read by SQL and JSON alone, and means are computed here: no code that makes the pages
or the runs of MLflow is used.
"""

from __future__ import annotations

import csv
import gzip
import html
import json
import math
import re
import sqlite3
import statistics
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakeoff.suite.tracking.location import Store

ABLATION, TASK, METRIC = "week", "fashion_mnist_patches", "accuracy"
VIEW = "mlflow.sharedViewState.quick"  # the variants' view; the trials' ends in ``.trials``
_NUMBER = r"[−-]?\d[\d,]*\.?\d*"  # the format of pages
_NAMED = re.compile(r'<span class="label" title="([^"]*)">([^<]*)</span>')  # label and name
_EXACT = 1e-9


@dataclass(frozen=True, kw_only=True)
class JournalNumbers:
    """The numbers of one edition in the journal.

    Attributes:
        number: The edition's number.
        baseline: The baseline's label.
        variants: All labels.
        values: (variant, seed, metric) -> (trial_id, value) for trials that ended well; without
            floors.
        num_trials: The number of the edition's trials.
        num_done: The number of those with a result.
    """

    number: int
    baseline: str
    variants: tuple[str, ...]
    values: Mapping[tuple[str, int, str], tuple[str, float]]
    num_trials: int
    num_done: int

    @property
    def scores(self) -> dict[str, list[float]]:
        """Variant -> the score of each seed."""
        found: dict[str, list[float]] = {}
        for (variant, _, metric), (_, value) in self.values.items():
            if metric == METRIC:
                found.setdefault(variant, []).append(value)
        return found

    @property
    def means(self) -> dict[str, float]:
        """Variant -> the mean of its scores."""
        return {variant: statistics.fmean(of_it) for variant, of_it in self.scores.items()}


def editions_in(out: Path) -> tuple[JournalNumbers, dict[int, JournalNumbers]]:
    """Return the edition that the journal shows, and all by number."""
    with closing(sqlite3.connect(f"file:{out / 'journal.db'}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT CAST(result AS TEXT) FROM results WHERE status = 'ok'")
        results = {result["trial_id"]: result for (result,) in ((json.loads(r),) for (r,) in rows)}
        shown = db.execute("SELECT plan FROM sweeps WHERE ablation = ?", (ABLATION,)).fetchone()[0]
        found: dict[int, JournalNumbers] = {}
        number_shown = 0
        query = "SELECT number, plan FROM editions WHERE ablation = ?"
        for number, body in db.execute(query, (ABLATION,)):
            plan = gzip.decompress(body)
            found[number] = _numbers(number, json.loads(plan), results)
            number_shown = number if plan == shown else number_shown
    return found[number_shown], found


def _numbers(number: int, plan: Any, results: Mapping[str, Any]) -> JournalNumbers:
    values = {
        (cell["variant"], cell["seed"], each["metric"]): (cell["trial_id"], each["value"])
        for cell in plan["cells"]
        if cell["trial_id"] in results and cell["variant"] in plan["about"]["variants"]
        for each in results[cell["trial_id"]]["measurements"]
        if each["subject"] == cell["subject"]
    }
    trials = {cell["trial_id"] for cell in plan["cells"] if not cell["reason"]}
    about = plan["about"]
    return JournalNumbers(
        number=number,
        baseline=about["baseline"],
        variants=tuple(about["variants"]),
        values=values,
        num_trials=len(trials),
        num_done=len(trials & results.keys()),
    )


def differences_of_pages(shown: JournalNumbers, reports: Path) -> Iterator[str]:
    """Yield a sentence for each number of the folder `reports` that is not the journal's."""
    folder = reports / ABLATION
    with (folder / "results.csv").open(encoding="utf-8") as file:
        rows = [r for r in csv.DictReader(file) if r["value"] and r["variant"] in shown.variants]
    values = {(r["variant"], int(r["seed"]), r["metric"]): float(r["value"]) for r in rows}
    journal = {key: value for key, (_, value) in shown.values.items()}
    yield from _differing("results.csv", values, journal)
    with (folder / f"tables/{TASK}.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["variant"] in shown.variants]
    table = {row["variant"]: row for row in rows}
    column = next(name for name in next(iter(table.values())) if name.startswith(f"{METRIC} ("))
    means = {variant: float(row[column]) for variant, row in table.items() if row[column]}
    yield from _differing(f"tables/{TASK}.csv", means, shown.means)
    page = (folder / "index.html").read_text("utf-8")
    labels = {html.unescape(name): html.unescape(label) for label, name in _NAMED.findall(page)}
    of_page = {labels.get(n, n): text for n, text in _rows_of_page(folder / "report.md").items()}
    written = {name: text for name, text in of_page.items() if name in shown.variants}
    yield from _rounded("report.md", written, shown.means)
    yield from (
        f"index.html lacks {text} of {v}" for v, text in written.items() if text not in page
    )


def _rows_of_page(page: Path) -> dict[str, str]:
    """Variant -> its first number, of the page's first table that begins with the variants."""
    lines = page.read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| variant"))
    found = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, number = (cell.strip() for cell in line.split("|")[1:3])
        if match := re.match(_NUMBER, number):
            found[name.replace("**", "").removesuffix(" (baseline)").strip("` ")] = match[0]
    return found


def differences_of_editions(
    table: str, shown: JournalNumbers, editions: Iterable[JournalNumbers]
) -> Iterator[str]:
    """Yield the same for the output of `bakeoff report --editions`."""
    lines = [re.split(r"\s{2,}", line) for line in table.splitlines()[2:]]
    listed = {int(line[0].removesuffix(" (shown)")): line for line in lines}
    wanted = {each.number: each for each in editions if each.num_done}
    if listed.keys() != wanted.keys():
        yield f"report --editions lists {sorted(listed)}; the journal has {sorted(wanted)}"
    for number in listed.keys() & wanted.keys():
        line, each = listed[number], wanted[number]
        where = f"report --editions, edition {number}"
        if line[0].endswith(" (shown)") != (number == shown.number):
            yield f"{where}: the edition shown is {shown.number}"
        if line[3] != f"{each.num_done} of {each.num_trials}":
            yield f"{where}: {line[3]}; the journal has {each.num_done} of {each.num_trials}"
        name, _, best = line[5].rpartition(": ")
        said = ((each.baseline, line[4].removeprefix(f"{METRIC} ")), (name, best))
        for variant, text in said:
            wanted_mean = {variant: each.means[variant]}
            yield from _rounded(where, {variant: text.split(" ")[0]}, wanted_mean)
        if each.means[name] < max(each.means.values()):
            yield f"{where}: {name} is not the best variant"


def differences_of_store(store: Store, shown: JournalNumbers) -> Iterator[str]:
    """Yield the same for the two views that MLflow's pages share; their filters select the runs.

    The experiment is the one of the store's folder, whatever its name.
    """
    from bakeoff.suite.tracking.connect import connect
    from bakeoff.suite.tracking.experiments import folder_of, readable_experiments

    found = connect(store.uri)
    client, experiment = found.client, readable_experiments(found, folder_of(store))[ABLATION]
    variants = _runs_of_view(client, experiment, VIEW)
    labels = [run.data.params["variant"] for run in variants]
    if sorted(labels) != sorted(shown.means):
        yield f"{VIEW} shows {sorted(labels)}; the journal has {sorted(shown.means)}"
    scores = {run.data.params["variant"]: run.data.metrics[METRIC] for run in variants}
    yield from _differing(VIEW, scores, shown.means)
    seeds = {run.data.params["variant"]: run.data.metrics["num_seeds"] for run in variants}
    number = {variant: float(len(of_it)) for variant, of_it in shown.scores.items()}
    yield from _differing(f"{VIEW}, seeds", seeds, number)
    trials = _runs_of_view(client, experiment, f"{VIEW}.trials")
    wanted = dict(found for key, found in shown.values.items() if key[2] == METRIC)
    held = [(run.data.tags["bakeoff.trial_id"], run.data.metrics.get(METRIC)) for run in trials]
    if len(held) != len(wanted):
        yield f"{VIEW}.trials shows {len(held)} runs; the journal has {len(wanted)} results"
    yield from _differing(f"{VIEW}.trials", dict(held), wanted)
    query = "tags.`bakeoff.role` = 'sweep'"
    (parent,) = client.search_runs([experiment.experiment_id], query)
    tags = {name: parent.data.tags.get(name) for name in _OF_PARENT}
    yield from _differing("the parent", tags, dict.fromkeys(_OF_PARENT, str(shown.number)))


_OF_PARENT = ("bakeoff.edition", "bakeoff.edition_of_variants")


def _runs_of_view(client: Any, experiment: Any, view: str) -> list[Any]:
    state = json.loads(json.loads(experiment.tags[view])["state"])
    found: list[Any] = []
    token = None
    while token is not None or not found:
        ids, query = [experiment.experiment_id], state["searchFilter"]
        page = client.search_runs(ids, query, max_results=100, page_token=token)
        found, token = [*found, *page], page.token
        if token is None:
            break
    return found


def _differing(
    where: str, said: Mapping[Any, object], journal: Mapping[Any, object]
) -> Iterator[str]:
    for key in sorted(said.keys() | journal.keys(), key=str):
        one, other = said.get(key), journal.get(key)
        is_number = isinstance(one, float) and isinstance(other, float)
        is_same = math.isclose(one, other, rel_tol=_EXACT) if is_number else one == other  # type: ignore[arg-type]
        if not is_same:
            yield f"{where}: {_words(key)} is {one}; the journal says {other}"


def _rounded(where: str, said: Mapping[str, str], journal: Mapping[str, float]) -> Iterator[str]:
    """Yield a sentence for each number that is not the journal's, rounded to its decimals."""
    for variant in sorted(said.keys() | journal.keys()):
        text, mean = said.get(variant, ""), journal.get(variant, math.nan)
        decimals = len(text.partition(".")[2])
        number = float(text.replace("−", "-").replace(",", "")) if text else math.nan
        if not abs(number - mean) <= 0.5000001 * 10**-decimals:
            yield f"{where}: {variant} is {text or 'missing'}; the journal says {mean}"


def _words(key: object) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)
