"""Trials -> events, one after the other on this machine: neither Ray nor MLflow is needed.

Trainings run in this process, timings each in a fresh one.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence

import torch

from suite.checkpoint_folder import keeper_for
from suite.checkpoints import Checkpoints
from suite.events import Event
from suite.executor import Unavailable, Work
from suite.fresh_process import events_of
from suite.machine import refuse_too_large
from suite.provenance import provenance
from suite.schema import Resources
from suite.trial import run_trial
from suite.trial_limit import limited


class InlineExecutor:
    """Runs trials here, one at a time, so that a timing is alone anyway.

    Args:
        source_paths: Folders that a user's own modules are imported from.
        checkpoints: Where trials keep what they could go on from; None keeps nothing.
        trial_seconds: How long one may run; None sets no limit.
    """

    def __init__(
        self,
        source_paths: Sequence[str],
        checkpoints: Checkpoints | None = None,
        trial_seconds: float | None = None,
    ) -> None:
        sys.path[:0] = [path for path in source_paths if path not in sys.path]
        self._checkpoints = checkpoints
        self._trial_seconds = trial_seconds

    def execute(self, work: Work) -> Iterator[Event]:
        """Run the trials in the order given."""
        for trial, resources in work:
            keeper = keeper_for(trial, self._checkpoints)
            events = run_trial(trial, resources, f"process {os.getpid()}", keeper)
            yield from limited(events, self._trial_seconds)

    def execute_alone(self, work: Work, environment_id: str) -> Iterator[Event]:
        """Run each in a process of its own; there is no other environment than this one."""
        _give_back_gpu_memory()
        for trial, resources in work:
            yield from events_of(trial, resources, self._trial_seconds)

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


def _give_back_gpu_memory() -> None:
    """What earlier trainings in this process still keep in reserve on the card."""
    gc.collect()
    torch.cuda.empty_cache()  # nothing where there is no card
