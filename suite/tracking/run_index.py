"""Indexes the MLflow runs of one sweep, and decides which of them to delete. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from suite.schema import Result
from suite.tracking.client import TAG_LIMIT
from suite.tracking.run_fields import AXES_TAG, RESULT_SHA256_TAG, VARIANT_TAG
from suite.tracking.shared_views import EDITION_SHA256_TAG, EDITION_TAG, VARIANT_SHA256_TAG


@dataclass(frozen=True, kw_only=True)
class TrialRun:
    """A trial, or a variant, as MLflow holds it: a child of the sweep's run.

    Attributes:
        trial_id: Empty of a variant; so is `environment_id`.
        result_sha256: Of the result, or of the numbers, that it shows; empty while it has none.
        status: MLflow's: RUNNING, FINISHED, FAILED or KILLED.
        start_ms: Milliseconds since 1970; time stamps of its points are this plus their step.
        tags: All of them; so are `params`, and `metrics` with the newest number under each name.
    """

    trial_id: str
    environment_id: str
    result_sha256: str
    status: str
    run_id: str
    start_ms: int
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether it shows a result and has ended."""
        return bool(self.result_sha256) and self.status != "RUNNING"

    @property
    def place(self) -> tuple[str, ...]:
        """What it shows a result of: a trial in an environment, or a variant on a task."""
        if self.tags.get("bakeoff.role") == "variant":
            return "variant", self.tags.get(VARIANT_TAG, ""), self.tags.get("bakeoff.task", "")
        return "trial", self.trial_id, self.environment_id


def trial_run(run: Any) -> TrialRun:
    """Read a child that MLflow's client has returned."""
    info, tags = run.info, run.data.tags
    return TrialRun(
        trial_id=tags.get("bakeoff.trial_id", ""),
        environment_id=tags.get("bakeoff.environment_id", ""),
        result_sha256=tags.get(RESULT_SHA256_TAG) or tags.get(VARIANT_SHA256_TAG, ""),
        status=info.status,
        run_id=info.run_id,
        start_ms=info.start_time,
        tags=tags,
        params=run.data.params,
        metrics=run.data.metrics,
    )


def has_role(run: Any, role: str) -> bool:
    """Whether a run of MLflow's client is a ``trial``, a ``variant``, or the ``sweep``'s parent."""
    return bool(run.data.tags.get("bakeoff.role") == role)


def is_child(run: Any) -> bool:
    """Whether it is a trial's or a variant's."""
    return has_role(run, "trial") or has_role(run, "variant")


@dataclass(kw_only=True)
class SweepRuns:
    """The parent run of an ablation at one scale, and its children, the earliest first.

    Attributes:
        run_id: Of the parent; so are `status` and `tags`.
        axes: Names of what is varied.
        children: trial_id -> run_id -> run. More than one where environments differ, or where
            a crash left an incomplete one behind.
        variants: run_id -> run of a variant, of an older edition too.
    """

    experiment_id: str
    run_id: str
    status: str
    tags: dict[str, str]
    axes: tuple[str, ...] = ()
    children: dict[str, dict[str, TrialRun]] = field(default_factory=dict)
    variants: dict[str, TrialRun] = field(default_factory=dict)

    @property
    def edition(self) -> dict[str, str]:
        """The tags of the newest edition."""
        names = (EDITION_TAG, EDITION_SHA256_TAG)
        return {name: self.tags[name] for name in names if name in self.tags}

    def __iter__(self) -> Iterator[TrialRun]:
        for runs in self.children.values():
            yield from runs.values()

    def of_trial(self, trial_id: str) -> list[TrialRun]:
        """Return all runs of one trial."""
        return list(self.children.get(trial_id, {}).values())

    def put(self, run: TrialRun) -> None:
        """Add a run, or replace its state."""
        self._of_its_kind(run)[run.run_id] = run

    def drop(self, run: TrialRun) -> None:
        """Remove a run that was deleted."""
        self._of_its_kind(run).pop(run.run_id)

    def _of_its_kind(self, run: TrialRun) -> dict[str, TrialRun]:
        if run.tags.get("bakeoff.role") == "variant":
            return self.variants
        return self.children.setdefault(run.trial_id, {})

    def showing(self, result: Result) -> TrialRun | None:
        """Return the run that has this result."""
        runs = self.of_trial(result.trial_id)
        return next((run for run in runs if run.result_sha256 == result.sha256), None)

    def in_progress(self, trial_id: str, live: Container[str]) -> TrialRun | None:
        """Return the run without a result among the live ones, which this process has created.

        A run of another process may hold another attempt's points, and is never continued.
        """
        runs = self.of_trial(trial_id)
        return next((run for run in runs if run.run_id in live and not run.result_sha256), None)

    def stale(self, variants: Mapping[str, str]) -> list[TrialRun]:
        """Return complete runs whose parameters, or variant by trial_id, differ from the plan's."""
        found, now = [], ", ".join(self.axes)
        for run in [run for run in self if run.is_complete]:
            variant, axes = run.tags.get(VARIANT_TAG, ""), run.tags.get(AXES_TAG, "")
            wanted = variants.get(run.trial_id, variant)
            is_same = variant == wanted and axes in ("", now)  # an older version wrote none
            if not is_same and len(wanted) <= TAG_LIMIT:
                found.append(run)
        return found

    def of_other_editions(self, trial_ids: Container[str]) -> list[TrialRun]:
        """Return complete runs of these trials that carry another edition's number, or none."""
        runs = [run for run in self if run.is_complete and run.trial_id in trial_ids]
        return [run for run in runs if not self.edition.items() <= run.tags.items()]

    def superseded_by(self, result: Result, keep: TrialRun | None) -> list[TrialRun]:
        """Return what a result replaces: incomplete runs, and those of the same environment."""
        environment_id = result.provenance.environment_id
        return [
            run
            for run in self.of_trial(result.trial_id)
            if run != keep and (not run.result_sha256 or run.environment_id == environment_id)
        ]

    def duplicates(self) -> list[tuple[TrialRun, TrialRun]]:
        """Return the later ones of several results of one trial in one environment.

        Each is paired with the earliest.
        """
        first: dict[tuple[str, ...], TrialRun] = {}
        return [
            (run, kept)
            for run in self
            if run.result_sha256 and (kept := first.setdefault(run.place, run)) is not run
        ]
