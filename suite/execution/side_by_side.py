"""Run trials side by side on the GPUs of this machine, each in its own process, without Ray.

A trial starts as soon as one GPU has its share free, and the machine its CPUs; the order is that of
the work. Only its GPU is visible to a process, which may use its share of the memory
(`bakeoff.suite.execution.trial`), so that a trial that needs more fails alone.

The processes compute at the same time through NVIDIA's MPS, if the machine has it. Without MPS
their kernels take turns: each has the whole GPU for a slice of time, so that small kernels leave
most of it idle. The daemon is started for a sweep's trainings and ended before its timings. If it
cannot be started, or a process cannot compute through it (as in many containers), the GPU is shared
by time slices.

Source: NVIDIA, "Multi-Process Service" (docs.nvidia.com/deploy/mps).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from queue import SimpleQueue

import torch

from bakeoff.suite.events import Assignments, Event, ExecutorSettings
from bakeoff.suite.execution.fork_server import ForkServers
from bakeoff.suite.execution.subprocess import environment_of, run_in_subprocess
from bakeoff.suite.provenance import num_cpus
from bakeoff.suite.schema import Resources, Trial

PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_CONTROL = "nvidia-cuda-mps-control"
_A_CLIENT = "import torch; torch.ones(1, device='cuda').sum().item()"
_SECONDS = 60.0  # for the daemon to start or to end, and for its first client


def gpu_names() -> list[str]:
    """Return the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    given = os.environ.get(_VISIBLE)
    names = (
        given.split(",") if given else [str(index) for index in range(torch.cuda.device_count())]
    )
    return names[: torch.cuda.device_count()]


def num_places(resources: Resources) -> int:
    """Return how many trials with these resources run at a time; one on CPUs."""
    if not resources.num_gpus or resources.num_gpus > 1:
        return 1
    on_gpus = len(gpu_names()) * int(1 / _exact(resources.num_gpus))
    return max(1, min(on_gpus, num_cpus() // resources.num_cpus))


def beside_others(work: Assignments) -> Assignments:
    """Return the work for GPUs if more than one trial of it can run at a time, else nothing."""
    if all(num_places(resources) == 1 for resources in {resources for _, resources in work}):
        return []
    return [item for item in work if 0 < item[1].num_gpus <= 1]


@dataclass(frozen=True)
class _Ended:
    """A message that a trial has ended, and its resources are free again."""

    gpu: str
    resources: Resources
    error: BaseException | None


@dataclass
class _Room:
    """The free share of each GPU, the free CPUs, and the number of running trials."""

    gpus: dict[str, Fraction] = field(
        default_factory=lambda: dict.fromkeys(gpu_names(), Fraction(1))
    )
    cpus: int = field(default_factory=lambda: num_cpus())
    num_running: int = 0

    def taken(self, resources: Resources) -> str | None:
        """Take a share of the GPU with the most left; return None if the trial must wait."""
        gpu = max(self.gpus, key=lambda name: self.gpus[name])
        if self.gpus[gpu] < _exact(resources.num_gpus) or self.cpus < resources.num_cpus:
            return None
        self._change(gpu, resources, 1)
        return gpu

    def give_back(self, gpu: str, resources: Resources) -> None:
        """Free the resources that the trial held."""
        self._change(gpu, resources, -1)

    def _change(self, gpu: str, resources: Resources, trials: int) -> None:
        self.gpus[gpu] -= trials * _exact(resources.num_gpus)
        self.cpus -= trials * resources.num_cpus
        self.num_running += trials


def _exact(share: float) -> Fraction:
    """Return 1/3 for 0.333, so that three such shares are a whole GPU."""
    return Fraction(share).limit_denominator(64)


class SideBySide:
    """A runner of as many trials at a time as fit, each on one GPU or a share of one."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings
        self._events: SimpleQueue[Event | _Ended] = SimpleQueue()
        self._servers = ForkServers()
        self._is_stopped = threading.Event()

    def execute(self, work: Assignments) -> Iterator[Event]:
        """Run all trials; events of different trials are interleaved.

        When the generator ends or is closed, no process is left.
        """
        room, threads = _Room(), list[threading.Thread]()
        with ExitStack() as ending:
            environment = ending.enter_context(shared_gpus(work))
            ending.callback(self._end, threads)
            for trial, resources in work:
                while (gpu := room.taken(resources)) is None:
                    yield from self._until_one_ends(room)
                given = (trial, resources, gpu, environment)
                threads.append(threading.Thread(target=self._run, args=given, daemon=True))
                threads[-1].start()
            while room.num_running:
                yield from self._until_one_ends(room)

    def _until_one_ends(self, room: _Room) -> Iterator[Event]:
        """Yield events until a trial has ended and its share is free.

        Raises:
            BaseException: An error of running the trial, outside the trial itself.
        """
        while not isinstance(event := self._events.get(), _Ended):
            yield event
        room.give_back(event.gpu, event.resources)
        if event.error is not None:
            raise event.error

    def _run(
        self, trial: Trial, resources: Resources, gpu: str, environment: Mapping[str, str]
    ) -> None:
        error: BaseException | None = None
        try:
            seen = {**environment_of(resources), **environment, _VISIBLE: gpu}
            with self._servers.one_with(seen) as server:
                for event in run_in_subprocess(
                    trial,
                    resources,
                    self._settings.trial_seconds,
                    self._settings.checkpoints,
                    server,
                    code=self._settings.code,
                    is_stopped=self._is_stopped,
                ):
                    self._events.put(event)
        except BaseException as raised:  # raised again where the events are read
            error = raised
        self._events.put(_Ended(gpu, resources, error))

    def _end(self, threads: list[threading.Thread]) -> None:
        self._is_stopped.set()
        for thread in threads:
            thread.join()
        self._servers.close()


@contextmanager
def shared_gpus(work: Assignments) -> Iterator[Mapping[str, str]]:
    """Start MPS for the block; yield the environment for its clients, {} without MPS.

    If the environment names a running daemon, that one is used and left running.
    """
    is_asked = any(resources.is_shared for _, resources in work)
    if not is_asked or PIPES in os.environ or shutil.which(_CONTROL) is None:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="bakeoff-mps-") as folder:
        variables = {PIPES: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        # All GPUs are visible to the daemon, so that their indices mean the same to its clients.
        given = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"} | variables
        is_served = _succeeds([_CONTROL, "-d"], given) and _succeeds(
            [sys.executable, "-c", _A_CLIENT], os.environ | variables
        )
        try:
            yield variables if is_served else {}
        finally:
            _succeeds([_CONTROL], given, message="quit\n")


def _succeeds(command: list[str], environment: Mapping[str, str], message: str = "") -> bool:
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            env=environment,
            input=message.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
        return done.returncode == 0
    return False
