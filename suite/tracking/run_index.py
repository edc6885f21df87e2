"""What does the store hold of one sweep, and what of it must go? No mlflow here: decisions only."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from suite.schema import Result
from suite.tracking.limits import TAG_LIMIT
from suite.tracking.run_fields import AXES_TAG, RESULT_SHA256_TAG, VARIANT_TAG


@dataclass(frozen=True, kw_only=True)
class TrialRun:
    """A trial as MLflow holds it.

    Attributes:
        result_sha256: Of the result that it shows; empty while it has none.
        status: MLflow's: RUNNING, FINISHED, FAILED or KILLED.
        start_ms: Milliseconds since 1970; time stamps of its points are this plus their step.
        attempt: Number of the attempt; empty where only the end was recorded.
        variant: What it is called after.
        axes: What was varied when it was begun; empty in older stores.
    """

    trial_id: str
    environment_id: str
    result_sha256: str
    status: str
    run_id: str
    start_ms: int
    attempt: str
    variant: str = ""
    axes: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether it shows a result and has ended."""
        return bool(self.result_sha256) and self.status != "RUNNING"


@dataclass(kw_only=True)
class SweepRuns:
    """The parent of an ablation at one scale, and its children, the earliest first.

    Attributes:
        run_id: Of the parent; so are `status`, `tags` and `metrics`.
        axes: Names of what is varied.
        children: trial_id -> run_id -> trial. More than one where environments differ, or where
            a crash left something behind.
    """

    experiment_id: str
    run_id: str
    status: str
    tags: dict[str, str]
    metrics: dict[str, float] = field(default_factory=dict)
    axes: tuple[str, ...] = ()
    children: dict[str, dict[str, TrialRun]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[TrialRun]:
        for family in self.children.values():
            yield from family.values()

    def of_trial(self, trial_id: str) -> list[TrialRun]:
        """All children of one trial."""
        return list(self.children.get(trial_id, {}).values())

    def put(self, child: TrialRun) -> None:
        """Add a child, or take its new state over."""
        self.children.setdefault(child.trial_id, {})[child.run_id] = child

    def drop(self, child: TrialRun) -> None:
        """Forget a child that was deleted."""
        del self.children[child.trial_id][child.run_id]

    def showing(self, result: Result) -> TrialRun | None:
        """The child that has this result."""
        family = self.of_trial(result.trial_id)
        return next((child for child in family if child.result_sha256 == result.sha256), None)

    def running(self, trial_id: str, begun: Container[str]) -> TrialRun | None:
        """The child without a result among those that this process began.

        What another process began may hold another attempt's points, and is never gone on with.
        """
        for child in self.of_trial(trial_id):
            if child.run_id in begun and not child.result_sha256:
                return child
        return None

    def stale(self, variants: Mapping[str, str]) -> list[TrialRun]:
        """Complete children whose name or parameters are no longer those of the plan.

        Args:
            variants: trial_id -> what its child is to be called after.
        """
        return [
            child
            for child in self
            if child.is_complete
            and len(wanted := variants.get(child.trial_id, child.variant)) <= TAG_LIMIT
            and (child.variant != wanted or child.axes not in ("", ", ".join(self.axes)))
        ]

    def superseded_by_start(self, trial_id: str) -> list[TrialRun]:
        """What a new attempt replaces: whatever is unfinished.

        A failure stays until there is another result, as in the journal: the attempt may be cut.
        """
        return [child for child in self.of_trial(trial_id) if not child.is_complete]

    def superseded_by(self, result: Result, keep: TrialRun | None) -> list[TrialRun]:
        """What a result replaces: leftovers, and an older result of the same environment."""
        environment_id = result.provenance.environment_id
        return [
            child
            for child in self.of_trial(result.trial_id)
            if child != keep and (not child.result_sha256 or child.environment_id == environment_id)
        ]

    def doubled(self) -> list[TrialRun]:
        """Of several results of one trial in one environment, all but the earliest."""
        seen: set[tuple[str, str]] = set()
        later = []
        for child in self:
            key = (child.trial_id, child.environment_id)
            if child.result_sha256 and key in seen:
                later.append(child)
            elif child.result_sha256:
                seen.add(key)
        return later


def trial_run_from_tags(
    run_id: str, status: str, start_ms: int, tags: Mapping[str, str]
) -> TrialRun:
    """A trial, read off its tags."""
    return TrialRun(
        trial_id=tags.get("bakeoff.trial_id", ""),
        environment_id=tags.get("bakeoff.environment_id", ""),
        result_sha256=tags.get(RESULT_SHA256_TAG, ""),
        status=status,
        run_id=run_id,
        start_ms=start_ms,
        attempt=tags.get("bakeoff.attempt", ""),
        variant=tags.get(VARIANT_TAG, ""),
        axes=tags.get(AXES_TAG, ""),
    )
