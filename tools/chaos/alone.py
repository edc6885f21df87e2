"""Runs one trial without a driver and returns its result and remarks."""

from __future__ import annotations

from dataclasses import dataclass

from suite.schema import Resources, Result, Trial
from suite.training.checkpoint import Checkpointer


@dataclass(frozen=True)
class Alone:
    """Its result, and its remarks, a line each."""

    result: Result
    said: str


def run_alone(
    trial: Trial, resources: Resources, checkpointer: Checkpointer | None = None
) -> Alone:
    """Run it in this process."""
    from suite.events import Finished, Remarked
    from suite.execution.trial import run_trial

    remarks = []
    for event in run_trial(trial, resources, "alone", checkpointer):
        if isinstance(event, Remarked):
            remarks.append(event.sentence)
        elif isinstance(event, Finished):
            return Alone(event.result, "\n".join(remarks))
    raise AssertionError("a trial ends with its result, whatever happens in it")
