"""How is a trial ended that does not end itself in time? Ray is told, and its processes are killed.

`suite.timeouts` lets a trial end itself; it cannot where the trial hangs in C, is stopped by a
signal, or swallows what is raised into it.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field

import psutil
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from suite.cluster.nodes import live_nodes
from suite.cluster.task import node_of
from suite.schema import Trial
from suite.timeouts import SECONDS_OF_GRACE

_SECONDS_BETWEEN_STEPS = 5.0
_MOST_STEPS = 3  # to wait until Ray has noticed


@dataclass
class Overdue:
    """How long a trial may still run, and what was done about it since.

    Attributes:
        seconds: Its limit.
        num_steps: 0 while nothing was done.
    """

    seconds: float
    due: float
    num_steps: int = 0
    _begun: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, trial: Trial, seconds: float | None) -> Overdue | None:
        """Counting from now on. A trial of several workers cannot end itself, and gets no grace."""
        if seconds is None:
            return None
        grace = 0.0 if trial.parallel else SECONDS_OF_GRACE
        return cls(seconds, time.monotonic() + seconds + grace)

    @property
    def was_ended(self) -> bool:
        """Whether its end, whatever it looks like, is a time-out."""
        return self.num_steps > 0

    def is_due(self) -> bool:
        """Whether it is time for the next step."""
        return time.monotonic() > self.due

    def end(self, stream: ray.ObjectRefGenerator, place: str) -> bool:
        """Take the next step; True if there is none left, and the trial is to be given up."""
        self.num_steps += 1
        self.due = time.monotonic() + _SECONDS_BETWEEN_STEPS
        if self.num_steps == 1:  # a process that is stopped by a signal hears nothing of Ray
            ray.cancel(stream, force=True)
            _end_processes_at(place)
        return self.num_steps > _MOST_STEPS


def _end_processes_at(place: str) -> None:
    """Have its node kill it, by a task that asks for nothing; not waited for."""
    node = next((n.name for n in live_nodes() if n.name.startswith(node_of(place))), None)
    if node is not None:
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        _end_processes.options(scheduling_strategy=there).remote(_process_of(place))


def _process_of(place: str) -> int:
    """As ``node 1a2b3c4d at 10.0.0.7, process 4711`` has it."""
    return int(place.rpartition(" ")[2])


def _kill_family(pid: int) -> None:
    """A worker of Ray's, what it has started, and its process group where it leads one."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(pid)
        if not any(part.startswith("ray::") for part in process.cmdline()):
            return  # the number is another's by now
        family = [process, *process.children(recursive=True)]
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()


_end_processes = ray.remote(num_cpus=0, max_retries=0)(_kill_family)
