"""Measure the peak memory of a mixer, forward and backward, and compare it with its formula.

Memory is measured separately from time, since the profiler slows the computation. For a forward
pass without gradients it is the peak beyond parameters, tables and the input. For forward and
backward in training, with a gradient of the input and of every parameter, it is the peak beyond
parameters and the input; it includes those gradients and the gradient of the output.

At bf16 the mixer runs under autocast, as in training: the peak includes the casts of parameters.

On a CPU, a run that would not fit is not tried, since the system might end the process. The
formula gives the memory of a forward pass in advance; forward and backward fit if six times as much
does. If that does not decide, or if there is no formula, half the length is measured first (and
before that a quarter, ...): memory grows at most with the square of the length. Formulas are for
float32, and are not used at bf16. On a GPU, where other kernels run, each run is tried: torch says
when memory is short.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import cast

import torch
from torch import Tensor

from bakeoff.models import ModelError
from bakeoff.models.architectures.mixer_alone import MixerAlone
from bakeoff.suite.errors import classified
from bakeoff.suite.probes.probe import Probe, initial_model, measurement
from bakeoff.suite.probes.tensor_bytes import growth_bytes
from bakeoff.suite.schema import (
    Measurement,
    MetricSpec,
    Point,
    Status,
    Trial,
    metric_spec,
)
from bakeoff.suite.training.recipes import at_precision

_SHORT = 256  # tokens; this length is tried directly for every mixer
_SHARE = 0.8  # of the free memory
_BACKWARD = 6  # times the formula; the largest factor observed is 4.6, for the LSTM
_GIB = 2**30

_FORWARD = metric_spec("forward_peak_bytes")
_FORWARD_BACKWARD = metric_spec("forward_backward_peak_bytes")
_FORMULA = metric_spec("forward_formula_bytes")


class TooLargeError(Exception):
    """Raised for a run that would not fit; the message has the required and the free memory."""


class MixerMemory(Probe):
    """Peak bytes of a mixer alone, for one sequence."""

    name = "mixer_memory"
    version = 1
    grain = "variant"
    is_swept = True
    depends_on = frozenset({"precision"})
    specs = (_FORWARD, _FORWARD_BACKWARD, _FORMULA)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Measure both peaks, and on a CPU report the formula, if there is one."""
        bench = _MemoryBench(trial, device)
        yield _peak(_FORWARD, bench.forward, trial.length)
        yield _peak(_FORWARD_BACKWARD, bench.forward_backward, trial.length)
        formula = bench.formula(trial.length)
        if formula is not None:
            yield measurement(_FORMULA, formula)


def _peak(spec: MetricSpec, measured: Callable[[int], int], length: int) -> Measurement:
    try:
        return measurement(spec, measured(length))
    except TooLargeError as error:
        reason = str(error)
    except RuntimeError as error:  # memory was taken since the check, or is fragmented
        status, reason = classified(error)
        if status is not Status.OUT_OF_MEMORY:
            raise
    return measurement(spec, None, status=Status.OUT_OF_MEMORY, reason=reason)


class _MemoryBench:
    """The mixer on its device, after a first step in which libraries allocate what they keep."""

    def __init__(self, trial: Trial, device: str) -> None:
        self.model, self.device = cast("MixerAlone", initial_model(trial).to(device)), device
        self._called = at_precision(self.model, trial.precision, device)
        self._has_formula = device == "cpu" and trial.precision != "bf16"
        self._training_step(min(trial.length, _SHORT) // 4 or 1)()

    def formula(self, length: int) -> float | None:
        """Return the bytes of a forward pass, or None if no formula holds for this run.

        It is the maximum over layers, since layers run one after the other.
        """
        if not self._has_formula:
            return None
        try:
            return max(mixer.forward_bytes(length) for mixer in self.model.mixers)
        except ModelError:
            return None

    def forward(self, length: int) -> int:
        """Return the peak bytes of a pass without gradients.

        Raises:
            TooLargeError: if it would not fit.
        """
        formula = self.formula(length)
        if formula is None:
            self._refuse_by_half(self.forward, length)
        else:
            self._refuse(formula, f"a forward pass over {length} tokens takes")
        x = self._input(length)
        self.model.eval()
        return growth_bytes(torch.no_grad()(lambda: self._called(x)), self.device)

    def forward_backward(self, length: int) -> int:
        """Return the peak bytes of a forward and backward pass.

        Raises:
            TooLargeError: if it would not fit.
        """
        formula = self.formula(length)
        if formula is not None:
            self._refuse(formula, f"a forward pass alone over {length} tokens takes")
        gradients = sum(p.numel() * p.element_size() for p in self.model.parameters())
        if formula is None or _BACKWARD * formula + gradients > self._free():
            self._refuse_by_half(self.forward_backward, length)
        return growth_bytes(self._training_step(length), self.device)

    def _refuse_by_half(self, measured: Callable[[int], int], length: int) -> None:
        if length <= _SHORT or self.device != "cpu":
            return
        half = -(-length // 2)
        at_most = 4 * measured(half)
        self._refuse(at_most, f"by what {half} tokens take, {length} may take")

    def _refuse(self, asked: float, why: str) -> None:
        free = self._free()
        if asked > free:
            raise TooLargeError(
                f"{why} {asked / _GIB:.3g} GiB, more than {_SHARE:.0%} of what is free "
                f"({free / _SHARE / _GIB:.3g} GiB)"
            )

    def _free(self) -> float:
        return _SHARE * free_bytes(self.device)

    def _training_step(self, length: int) -> Callable[[], object]:
        x = self._input(length).requires_grad_()
        self.model.train()
        self.model.zero_grad(set_to_none=True)

        def step() -> None:
            output = self._called(x)
            output.backward(torch.ones_like(output))

        return step

    def _input(self, length: int) -> Tensor:
        return torch.randn(1, length, self.model.spec.dim, device=self.device)


_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def free_bytes(device: str, proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Return the bytes that can still be allocated on `device`, including the allocator's cache.

    On a CPU this is the minimum of the kernel's estimate (`MemAvailable`) and of the rest of the
    limit of each control group of the process, as containers have them.
    """
    if device != "cpu":
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])
    return max(0, min([_of_the_machine(proc), *_of_groups(proc, groups)]))


def _of_the_machine(proc: Path) -> int:
    found = _fields(proc / "meminfo").get("MemAvailable:")
    if found is not None:
        return found * 1024  # the file writes kB for KiB
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(proc: Path, groups: Path) -> Iterator[int]:
    """Yield the rest of each limit; file pages that can be dropped count as free."""
    for folder in _folders(proc, groups):
        for limit, usage, droppable in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            allowed, used = _number(folder / limit), _number(folder / usage)
            if allowed is not None and used is not None:
                yield allowed - used + _fields(folder / "memory.stat").get(droppable, 0)


def _folders(proc: Path, groups: Path) -> Iterator[Path]:
    """Yield the folders of the process's control groups, from its own upwards, of both versions."""
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", maxsplit=2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = groups / "memory" if controllers else groups
        inside = PurePosixPath(path).relative_to("/")
        yield from (root / part for part in (inside, *inside.parents))


def _number(file: Path) -> int | None:
    """Return the number in a file, or None if there is no such file or it has ``max``."""
    lines = _lines(file)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _fields(file: Path) -> dict[str, int]:
    """Return the first two words of each line, as a dictionary."""
    pairs = [line.split() for line in _lines(file)]
    return {words[0]: int(words[1]) for words in pairs if len(words) > 1 and words[1].isdigit()}


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
