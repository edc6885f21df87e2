"""Runs trials side by side on the GPUs of this machine, each in a process of its own, without Ray.

A trial starts as soon as one GPU has its share left, and the machine its CPUs; the order is that of
the work. A process sees the GPU that it runs on and no other, and may take its share of the memory
(`suite.execution.trial`), so that a trial that wants more fails by itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from queue import SimpleQueue

import torch

from suite.events import Assignments, Event, ExecutorSettings
from suite.execution.mps import shared_gpus
from suite.execution.process_template import ProcessTemplate
from suite.execution.subprocess import environment_of, run_in_subprocess
from suite.provenance import num_cpus
from suite.schema import Resources, Trial

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def gpu_names() -> list[str]:
    """The GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    given = os.environ.get(_VISIBLE)
    names = (
        given.split(",") if given else [str(index) for index in range(torch.cuda.device_count())]
    )
    return names[: torch.cuda.device_count()]


def num_places(resources: Resources) -> int:
    """How many trials with these resources run at a time: on GPUs as many as fit, on CPUs one."""
    if not resources.num_gpus or resources.num_gpus > 1:
        return 1
    on_gpus = len(gpu_names()) * int(1 / _exact(resources.num_gpus))
    return max(1, min(on_gpus, num_cpus() // resources.num_cpus))


def beside_others(work: Assignments) -> Assignments:
    """What of the work is to run on GPUs, if more than one of it can at a time; else nothing."""
    if all(num_places(resources) == 1 for resources in {resources for _, resources in work}):
        return []
    return [item for item in work if 0 < item[1].num_gpus <= 1]


@dataclass(frozen=True)
class _Ended:
    """A trial has given back what it held."""

    gpu: str
    resources: Resources
    error: BaseException | None


@dataclass
class _Room:
    """What no trial holds: of each GPU the share, and CPUs; and how many trials hold the rest."""

    gpus: dict[str, Fraction] = field(
        default_factory=lambda: dict.fromkeys(gpu_names(), Fraction(1))
    )
    cpus: int = field(default_factory=lambda: num_cpus())
    num_running: int = 0

    def taken(self, resources: Resources) -> str | None:
        """The GPU with the most left, of which the trial has its share now; None has to wait."""
        gpu = max(self.gpus, key=lambda name: self.gpus[name])
        if self.gpus[gpu] < _exact(resources.num_gpus) or self.cpus < resources.num_cpus:
            return None
        self._change(gpu, resources, 1)
        return gpu

    def give_back(self, gpu: str, resources: Resources) -> None:
        """What the trial held there."""
        self._change(gpu, resources, -1)

    def _change(self, gpu: str, resources: Resources, trials: int) -> None:
        self.gpus[gpu] -= trials * _exact(resources.num_gpus)
        self.cpus -= trials * resources.num_cpus
        self.num_running += trials


def _exact(share: float) -> Fraction:
    """As 1/3 of 0.333: three of them are a whole GPU."""
    return Fraction(share).limit_denominator(64)


class SideBySide:
    """Runs as many trials at a time as fit; every one asks for one GPU or a share of one."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self._settings = settings
        self._events: SimpleQueue[Event | _Ended] = SimpleQueue()
        self._templates: list[ProcessTemplate] = []
        self._idle: dict[tuple[str, Resources], list[ProcessTemplate]] = {}
        self._is_stopped = threading.Event()

    def execute(self, work: Assignments) -> Iterator[Event]:
        """Run all; the events of different trials are mixed.

        When this ends or is closed, no process is left.
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
        """Pass on events until a trial has given back what it held.

        Raises:
            BaseException: whatever running it raised, which is no fault of the trial.
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
            template = self._template(gpu, resources, environment)
            limit, checkpoints = self._settings.trial_seconds, self._settings.checkpoints
            for event in run_in_subprocess(
                trial,
                resources,
                limit,
                checkpoints,
                template,
                code=self._settings.code,
                is_stopped=self._is_stopped,
            ):
                self._events.put(event)
            self._idle[gpu, resources].append(template)
        except BaseException as raised:  # raised again where the events are read
            error = raised
        self._events.put(_Ended(gpu, resources, error))

    def _template(
        self, gpu: str, resources: Resources, environment: Mapping[str, str]
    ) -> ProcessTemplate:
        """One that forks nothing just now."""
        idle = self._idle.setdefault((gpu, resources), [])
        try:
            return idle.pop()
        except IndexError:
            seen = {**environment_of(resources), **environment, _VISIBLE: gpu}
            made = ProcessTemplate(seen)
            self._templates.append(made)
            return made

    def _end(self, threads: list[threading.Thread]) -> None:
        self._is_stopped.set()
        for thread in threads:
            thread.join()
        for template in self._templates:
            template.close()
