"""Convert sweeps to DataFrames for programs: results, verdicts and learning curves.

Columns of axes, `axis_NAME`, and of coordinates, `at_NAME`, hold values, never labels. A column
that misses some numbers or booleans has the nullable type of pandas. `docs/results-columns.md`
describes every column.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bakeoff.reports.analysis.verdict import Verdict, with_q_values
from bakeoff.reports.export.records import records
from bakeoff.reports.pages.ablation import shown_sweep
from bakeoff.reports.render import write_whole
from bakeoff.reports.results.axis_values import PREFIX, all_values_of, arrow_array, with_axes
from bakeoff.reports.results.frame import FrameError
from bakeoff.reports.results.reading import coordinates
from bakeoff.reports.view import Sweep, read_sweep
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import journal_in
from bakeoff.suite.reporting.build import Sweeps, sweeps_of_journal
from bakeoff.suite.reporting.frames import CURVES_FILE, RESULTS_FILE
from bakeoff.suite.schema import FAILURES, About, Status
from bakeoff.suite.spec import SpecError
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.tasks.task import TaskError
from bakeoff.suite.text import command

AT = "at_"  # prefix of the columns of coordinates
FOLDER = "out"
VERDICT_TYPES = {
    "ablation": "str",
    "scale": "str",
    "question": "str",
    "claim": "str",
    "task": "str",
    "metric": "str",
    "at": "str",
    "a": "str",
    "b": "str",
    "by": "float64",
    "effect": "float64",
    "low": "float64",
    "high": "float64",
    "unit": "str",
    "num_pairs": "int64",
    "p": "float64",
    "q": "float64",
    "verdict": "str",
    "is_check": "bool",
    "is_exploratory": "bool",
    "is_indicative": "bool",
    "published": "str",
    "source": "str",
    "sentence": "str",
}
_RATIO = "ratio"  # unit of the effect if times are compared
_SPLITS = ("training", "validation")
_FORMAT = "%.6g"  # for numbers in the file of shipped verdicts

Held = Mapping[str, Sequence[Sweep]]  # output folder -> its sweeps that have results


def sweeps_in_folder(out: Path) -> list[Sweep]:
    """Return the sweeps with results in an output folder, or in a folder of finished reports.

    Raises:
        SpecError: If there is no such folder, or no result in it.
        JournalError: If the journal is damaged.
    """
    if not out.is_dir():
        raise SpecError(f"out={str(out)!r}: no such folder.")
    file = journal_in(out)
    if file.is_file():
        with Journal(file, read_only=True) as journal:
            every = [s for found in sweeps_of_journal(journal).values() for s in found]
    else:
        every = list(_reported(out))
    found = [sweep for sweep in every if len(sweep.results)]
    if not found:
        raise SpecError(
            f"out={str(out)!r}: no results are recorded here yet; run "
            f"`{command('run', 'NAME', out=out)}`."
        )
    return found


def _reported(out: Path) -> Iterator[Sweep]:
    """Yield the sweeps of finished reports, such as those that `bakeoff fetch` brings."""
    files = (*out.glob(f"*/{RESULTS_FILE}"), *out.glob(f"reports/*/{RESULTS_FILE}"))
    for home in sorted(file.parent for file in files):
        try:
            yield read_sweep(home / RESULTS_FILE, home / CURVES_FILE)
        except FrameError as error:
            raise SpecError(f"out={str(out)!r}: {error}") from None


def results_of(held: Held) -> pd.DataFrame:
    """Return a row for each measurement."""
    frames = []
    for out, sweep in _each(held):
        found = with_axes(sweep.about, sweep.in_order.results)
        at = [coordinates(text) for text in found["at"]]
        names = dict.fromkeys(name for one in at for name in one)
        places = {f"{AT}{name}": _objects((one.get(name) for one in at), found) for name in names}
        frames.append(found.assign(**places, **{FOLDER: out}))
    return _joined(frames)


def curves_of(held: Held) -> pd.DataFrame:
    """Return a row for each point of a learning curve.

    `tokens` is the step times the batch times the length of the inputs, padding included; it is
    missing if the length is not known.
    """
    frames = []
    for out, sweep in _each(held):
        about, found = sweep.about, sweep.in_order.curves
        values = {variant: all_values_of(about, variant) for variant in about.variants}
        pairs = list(zip(found["task"], found["variant"], strict=True))
        per_step = {
            (task, v): _tokens_per_step(about, task, values.get(v, {})) for task, v in {*pairs}
        }
        rates = pd.Series([per_step[pair] for pair in pairs], index=found.index, dtype="Int64")
        split, metric = zip(*map(_split, found["metric"]), strict=True) if len(found) else ((), ())
        axes = {
            f"{PREFIX}{axis}": _objects((values[v].get(axis) for v in found["variant"]), found)
            for axis in about.axes
        }
        frames.append(
            found.assign(metric=list(metric), split=list(split), tokens=rates * found["step"])
            .assign(**axes, **{FOLDER: out})
            .astype({"metric": "str", "split": "str"})
        )
    return _joined(frames)


def verdicts_of(held: Held) -> pd.DataFrame:
    """Return a row for each claim, with the verdict that its page shows.

    `q` is the q-value among all claims in the table, as on an overview; checks have none.
    """
    every = [(out, sweep, sweep.in_order.verdict) for out, sweep in _each(held)]
    claims = [(out, sweep.about, found) for out, sweep, found in every if found]
    judged = with_q_values({str(index): found for index, (_, _, found) in enumerate(claims)})
    rows = [
        _verdict_row(about, verdict) | {FOLDER: out}
        for (out, about, _), verdict in zip(claims, judged.values(), strict=True)
    ]
    frame = pd.DataFrame(rows, columns=[*VERDICT_TYPES, FOLDER])
    return frame.astype({**VERDICT_TYPES, FOLDER: "str"})


def as_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as values of JSON; a missing number is None."""
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return records


def verdicts_to_csv(frame: pd.DataFrame) -> str:
    """Return the table of verdicts as a file, without the column of the output folder."""
    return frame.drop(columns=FOLDER).to_csv(index=False, float_format=_FORMAT, lineterminator="\n")


def verdicts_from_csv(file: Path) -> pd.DataFrame:
    """Return the table that `verdicts_to_csv` wrote."""
    texts = {name for name, kind in VERDICT_TYPES.items() if kind == "str"}
    missing = {name: [] if name in texts else [""] for name in VERDICT_TYPES}
    return pd.read_csv(file, dtype=VERDICT_TYPES, keep_default_na=False, na_values=missing)


def shown_on_pages(sweeps: Sweeps, names: Iterable[str], scale: str | None) -> list[Sweep]:
    """Return the sweep that the page of each ablation shows; see `shown_sweep`."""
    return [shown_sweep(sweeps[name], scale) for name in names]


def trial_counts(sweeps: Iterable[Sweep]) -> dict[str, int]:
    """Return the number of trials by status, and of those that failed.

    A noisy timing is a measurement; its trial is ok. A trial that measures several variants has the
    status of the worst.
    """
    statuses: dict[str, Status] = {}
    for sweep in sweeps:
        rows = sweep.results
        for trial_id, text in zip(rows["trial_id"], rows["status"], strict=True):
            status = Status.OK if text == Status.NOISY else Status(text)
            statuses[trial_id] = max(status, statuses.get(trial_id, status), key=_rank)
    counts = Counter(statuses.values())
    return {
        "failed": sum(counts[status] for status in FAILURES),
        "skipped": counts[Status.SKIPPED],
        **{str(status): counts[status] for status in Status if counts[status]},
    }


def _rank(status: Status) -> tuple[bool, bool, str]:
    """Return a key that is larger for a worse status."""
    return status in FAILURES, status is not Status.OK, status


def write_records(sweeps: Iterable[Sweep], file: Path) -> None:
    """Write the numbers of the sweeps as benchmark records of PyTorch's dashboard.

    Raises:
        SpecError: If the file cannot be written.
    """
    found = [record for sweep in sweeps for record in records(sweep)]
    try:
        write_whole(file, f"{json.dumps(found, indent=1)}\n".encode())
    except OSError as error:
        raise SpecError(f"--records {file}: it cannot be written: {error.strerror}.") from None


def _each(held: Held) -> Iterator[tuple[str, Sweep]]:
    return ((out, sweep) for out, sweeps in held.items() for sweep in sweeps)


def _objects(values: Iterable[Any], beside: pd.DataFrame) -> pd.Series[Any]:
    return pd.Series(list(values), index=beside.index, dtype=object)


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return all rows; columns of axes and coordinates come last and get a type of their own."""
    joined = pd.concat(frames, ignore_index=True)
    values = [name for name in joined if str(name).startswith((PREFIX, AT))]
    plain = [name for name in joined if name not in (*values, FOLDER)]
    typed = {str(name): _typed(joined[name].tolist()) for name in values}
    return joined[[FOLDER, *plain, *values]].astype({FOLDER: "str"}).assign(**typed)


def _typed(values: Sequence[Any]) -> pd.Series[Any]:
    """Return values in their own type: bool, int, float, or else text; nullable if some miss."""
    array = arrow_array(values)
    kinds = {"bool": ("bool", "boolean"), "int64": ("int64", "Int64"), "double": ("float64",) * 2}
    whole, nullable = kinds.get(str(array.type), ("str", "str"))
    return pd.Series(array.to_pylist(), dtype=nullable if array.null_count else whole)


def _tokens_per_step(about: About, task: str, values: Mapping[str, Any]) -> int | None:
    batch, length = (values.get(name, about.settings.get(name)) for name in ("batch", "length"))
    try:
        length = task_class(task).fixed_length or length
    except TaskError:  # a task of the user's own that is not at hand
        return None
    return batch * length if type(batch) is int and type(length) is int else None


def _split(metric: str) -> tuple[str, str]:
    """Return the split and the metric that a name such as ``validation_accuracy`` combines."""
    split, _, rest = metric.partition("_")
    return (split, rest) if split in _SPLITS and rest else ("", metric)


def _verdict_row(about: About, judged: Verdict) -> dict[str, Any]:
    claim, found = about.claim, judged.advantage
    assert claim is not None, "what is judged is a claim"
    metrics = (m for of in about.metrics.get(claim.task, {}).values() for m in of)
    unit = next((metric.unit for metric in metrics if metric.name == claim.metric), "1")
    ends = (found.point, found.low, found.high)
    effect, low, high = (
        None if end is None or not math.isfinite(end) else math.exp(end) if judged.is_ratio else end
        for end in ends
    )
    return {
        "ablation": about.ablation,
        "scale": about.scale,
        "question": about.question,
        "claim": judged.statement,
        "task": claim.task,
        "metric": claim.stated_metric,
        "at": claim.at,
        "a": claim.a,
        "b": claim.b,
        "by": claim.by,
        "effect": effect,
        "low": low,
        "high": high,
        "unit": _RATIO if judged.is_ratio else unit,
        "num_pairs": found.n,
        "p": judged.p,
        "q": judged.q,
        "verdict": str(judged.outcome),
        "is_check": judged.is_check,
        "is_exploratory": judged.is_exploratory,
        "is_indicative": about.is_indicative,
        "published": claim.published,
        "source": claim.source,
        "sentence": judged.sentence,
    }
