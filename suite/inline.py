"""Trials -> events, one after the other in this process: neither Ray nor MLflow is needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from suite.events import Event
from suite.executor import Unavailable, Work
from suite.machine import refuse_too_large
from suite.provenance import provenance
from suite.schema import Resources
from suite.trial import run_trial


class InlineExecutor:
    """Runs trials here. Timings are alone anyway, though not in a process of their own."""

    def __init__(self, source_paths: Sequence[str]) -> None:
        sys.path[:0] = [path for path in source_paths if path not in sys.path]

    def execute(self, work: Work) -> Iterator[Event]:
        """Run the trials in the order given."""
        for trial, resources in work:
            yield from run_trial(trial, resources, f"process {os.getpid()}")

    def execute_alone(self, work: Work, environment_id: str) -> Iterator[Event]:
        """The same: there is nothing else, and no other environment."""
        return self.execute(work)

    def environment_for_timing(self, resources: Resources, preferred: str) -> str:
        """That of this process."""
        return provenance(resources).environment_id

    def refuse_infeasible(self, work: Work) -> None:
        """Refuse what this machine has no room for, and what needs several processes.

        Raises:
            Unavailable: with the trial's number of workers, or what it asks for.
        """
        for trial, _ in work:
            if trial.parallel is not None:
                noun = "worker" if trial.num_workers == 1 else "workers"
                raise Unavailable(
                    f"a {trial.probe} trial takes {trial.num_workers} {noun} of DeepSpeed, and "
                    "--executor inline runs in this process; leave it out, and Ray starts them."
                )
        refuse_too_large(work)
