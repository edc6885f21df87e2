"""Run trials on this machine without Ray or MLflow, one after the other or sharing its GPUs.

Training trials run in this process. Timing trials, trials with user code, and trials on GPUs each
run in a process of their own, because an error on a GPU may persist in the process.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec

import torch

from bakeoff.suite.events import (
    Assignments,
    Event,
    ExecutorSettings,
    Remarked,
    Unavailable,
    code_for,
    runs_own_code,
)
from bakeoff.suite.execution.fork_server import ForkServers
from bakeoff.suite.execution.subprocess import environment_of, run_in_subprocess
from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.provenance import num_cpus, provenance
from bakeoff.suite.schema import Resources, Trial
from bakeoff.suite.tasks.own.data import use_located
from bakeoff.suite.timeouts import limited
from bakeoff.suite.timing.global_state import GlobalState
from bakeoff.suite.training.checkpoint import checkpointer_for

_GIB = 2**30


class InlineExecutor:
    """An executor of one trial at a time, or several that share GPUs; a timing runs alone."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings

    def execute(self, work: Assignments) -> Iterator[Event]:
        """Run the trials in the order given, but first those that can share GPUs."""
        beside: Assignments = []
        if any(resources.num_gpus for _, resources in work):
            from bakeoff.suite.execution.side_by_side import SideBySide, beside_others

            if beside := beside_others(work):
                yield from SideBySide(self._settings).execute(beside)
        begun = {trial.trial_id for trial, _ in beside}
        yield from self._in_turn([item for item in work if item[0].trial_id not in begun])

    def _in_turn(self, work: Assignments) -> Iterator[Event]:
        settings = self._settings
        with closing(ForkServers()) as servers:
            for trial, resources in work:
                if not resources.num_gpus and not runs_own_code(trial):
                    yield from self._here(trial, resources)
                    continue
                with servers.one_with(environment_of(resources)) as server:
                    yield from run_in_subprocess(
                        trial,
                        resources,
                        settings.trial_seconds,
                        settings.checkpoints,
                        server,
                        code=settings.code,
                    )

    def _here(self, trial: Trial, resources: Resources) -> Iterator[Event]:
        """Run a trial in this process, and undo its changes to the process."""
        torch.set_num_threads(resources.num_threads)
        if code := code_for(trial, self._settings.code):
            use_located(code.data)
        before = GlobalState()
        checkpointer = checkpointer_for(trial, self._settings.checkpoints)
        events = run_trial(trial, resources, f"process {os.getpid()}", checkpointer)
        yield from limited(events, self._settings.trial_seconds)
        if changes := before.changes():
            before.restore()
            yield Remarked(trial.trial_id, f"it changed {changes}, which was undone")

    def execute_alone(self, work: Assignments, environment_id: str) -> Iterator[Event]:
        """Run each trial in a new process, all in this machine's one environment."""
        gc.collect()
        torch.cuda.empty_cache()  # releases memory that earlier trainings still reserve on the GPU
        for trial, resources in work:
            yield from run_in_subprocess(
                trial, resources, self._settings.trial_seconds, code=self._settings.code
            )

    def environment_for_timing(self, resources: Resources, preferred: str) -> str:
        """Return the environment of this process."""
        return provenance(resources).environment_id

    def refuse_infeasible(self, work: Assignments) -> None:
        """Raise `Unavailable` in the same cases as the function `refuse_infeasible`."""
        refuse_infeasible(work)


def refuse_infeasible(work: Assignments) -> None:
    """Raise if trials do not fit on this machine, or need several processes.

    Raises:
        Unavailable: The message states the number of workers, or the requested resources.
    """
    for trial, _ in work:
        if trial.parallel is not None:
            noun = "worker" if trial.num_workers == 1 else "workers"
            raise Unavailable(
                f"a {trial.probe} trial takes {trial.num_workers} {noun} of DeepSpeed, and "
                "--executor inline runs in this process; leave it out, and Ray starts them."
            )
    refuse_too_large(work)


def refuse_too_large(work: Assignments) -> None:
    """Raise if trials can never run on this machine.

    Raises:
        Unavailable: The message states the requested and the available resources.
    """
    if any(trial.parallel for trial, _ in work) and find_spec("deepspeed") is None:
        raise Unavailable("trials with workers or zero need DeepSpeed, which is not installed.")
    available = {
        "CPU": float(num_cpus()),
        "GPU": float(torch.cuda.device_count()),
        "GiB of memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB,
    }
    all_cpus = os.cpu_count() or 1
    limits = {"CPU": " that this process may use"} if available["CPU"] < all_cpus else {}
    for resources, num_workers in {(asked, trial.num_workers) for trial, asked in work}:
        wanted = {
            "CPU": num_workers * float(resources.num_cpus),
            "GPU": num_workers * resources.num_gpus,
            "GiB of memory": num_workers * resources.memory_bytes / _GIB,
        }
        for kind, number in wanted.items():
            if number > available[kind]:
                limited = limits.get(kind, "")
                raise Unavailable(
                    f"a trial asks for {number:g} {kind}, and this machine has "
                    f"{available[kind]:.4g}{limited}; use a smaller --scale, or --address "
                    "HOST:PORT of a Ray cluster that has them."
                )
