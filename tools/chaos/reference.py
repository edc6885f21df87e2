"""What faults are compared with: undisturbed results, and an empty store."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from suite.planning.plan import plan
from suite.schema import Resources, Result, Trial
from suite.training.checkpoint import Checkpointer
from tools.chaos.command import forks, warm_up


def run_without_driver(
    trial: Trial, resources: Resources, checkpointer: Checkpointer | None = None
) -> tuple[Result, str]:
    """Run one trial in this process; returns its result, and its remarks, a line each."""
    from suite.events import Finished, Remarked
    from suite.execution.trial import run_trial

    remarks = []
    for event in run_trial(trial, resources, "without a driver", checkpointer):
        if isinstance(event, Remarked):
            remarks.append(event.sentence)
        elif isinstance(event, Finished):
            return event.result, "\n".join(remarks)
    raise AssertionError("a trial ends with its result, whatever happens in it")


def reference_findings(sweep: Path, num_seeds: int) -> dict[str, str]:
    """trial_id -> hash of the finding; in forked processes, so Ray must not be imported yet."""
    warm_up()
    planned = plan(str(sweep), seeds=num_seeds)
    with forks() as pool:
        run = partial(run_without_driver, resources=planned.resources)
        found = [result for result, _ in pool.map(run, planned.trials)]
    return {result.trial_id: result.finding_sha256 for result in found}


def make_empty_store(path: Path) -> None:
    """A store with its tables and nothing in them: making them takes seconds."""
    with forks(1) as pool:  # what opening a store leaves in a process must not be forked
        pool.submit(_make_store, path).result()


def _make_store(path: Path) -> None:
    from suite.tracking.location import Store
    from suite.tracking.write import RunWriter

    RunWriter(Store(uri=f"sqlite:///{path}", artifacts=None))
