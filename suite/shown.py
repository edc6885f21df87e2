"""Does a child in the store show what its result gives? Pure.

Its name and its description are people's to change; parameters, metrics and our own tags are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from suite.schema import Cell, Result, Status, Trial
from suite.tracking.limits import PARAM_LIMIT, TAG_LIMIT, MetricRow, shortened
from suite.tracking.run_fields import Key, result_rows, result_tags, trial_params, trial_tags
from suite.tracking.run_index import TrialRun

History = Callable[[str, str], Sequence[MetricRow]]  # of (run_id, metric): all that was logged

_OURS = "bakeoff."


@dataclass(frozen=True, kw_only=True)
class ShownTrial:
    """A child, with all that it shows.

    Attributes:
        metrics: The newest number under each name.
    """

    recorded: TrialRun
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a child is made of."""

    key: Key
    trial: Trial
    cells: Sequence[Cell]
    axes: Sequence[str]
    result: Result

    @property
    def trial_id(self) -> str:
        """Of the trial."""
        return self.trial.trial_id

    @property
    def environment_id(self) -> str:
        """Where the result was made."""
        return self.result.provenance.environment_id


def fault_of(shown: ShownTrial, given: Given, history: History) -> str:
    """What differs first, in a few words, and how much more does; empty where nothing does."""
    found = [*_of_texts(shown, given), *_of_metrics(shown, given, history)]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{found[0]}{more}" if found else ""


def _of_texts(shown: ShownTrial, given: Given) -> Iterator[str]:
    params = trial_params(given.trial, given.cells, given.axes)
    wanted = shortened(params, PARAM_LIMIT, "long_params.json")[0]
    yield from _unlike("parameter", wanted, shown.params)
    tags = trial_tags(given.key, given.trial, given.cells)
    tags |= result_tags(given.trial, given.cells, given.result)
    # One that is too long stands as a hash, beside a file that says which.
    ours = {k: v for k, v in tags.items() if k.startswith(_OURS) and len(v) <= TAG_LIMIT}
    yield from _unlike("tag", ours, shown.tags)


def _of_metrics(shown: ShownTrial, given: Given, history: History) -> Iterator[str]:
    """A failure may show live points more than its result has: they were logged before it died."""
    rows = result_rows(given.trial, given.cells, given.result, shown.recorded.start_ms)
    curves: dict[str, list[MetricRow]] = {}
    for row in rows:
        curves.setdefault(row.key, []).append(row)
    may_have_more = given.result.status is not Status.OK
    newest = {name: _newest(curve) for name, curve in curves.items()}
    if may_have_more:
        newest = {name: value for name, value in newest.items() if len(curves[name]) == 1}
    yield from _unlike("metric", newest, shown.metrics)
    for name in () if may_have_more else sorted(shown.metrics.keys() - curves.keys()):
        yield f"the metric {name}, which its result does not have"
    for name, curve in curves.items():
        if len(curve) > 1 and name in shown.metrics:
            logged = set(history(shown.recorded.run_id, name))
            if not (logged >= set(curve) if may_have_more else logged == set(curve)):
                yield f"another curve of {name}"


def _newest(curve: Sequence[MetricRow]) -> float:
    """The one that MLflow shows."""
    return max(curve, key=lambda row: (row.step, row.timestamp_ms, row.value)).value


def _unlike(kind: str, wanted: Mapping[str, object], shown: Mapping[str, object]) -> Iterator[str]:
    for name, value in wanted.items():
        if name not in shown:
            yield f"no {kind} {name}"
        elif shown[name] != value:
            yield f"the {kind} {name} as {_brief(shown[name])}, not {_brief(value)}"


def _brief(value: object) -> str:
    return repr(value)[:60]
