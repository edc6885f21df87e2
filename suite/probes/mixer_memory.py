"""Probe `mixer_memory`: peak memory of a mixer alone, measured and by formula.

Measured apart from time, since the profiler slows things down. Of a forward pass without gradients
it is the peak beyond parameters, tables and the input; of forward and backward in training, with a
gradient to the input and to every parameter, the peak beyond parameters and the input. Those
gradients are in it, and so is the one that comes from above.

A run that could not fit is not tried. By the formula a forward pass is known beforehand, and
forward and backward fit where six times as much does. Where that is not enough to say, or there is
no formula, half the length is measured first (and before that a quarter, ...): nothing here grows
faster than the square of the length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from models import ModelError, build_model
from models.architectures.mixer_alone import MixerAlone
from suite.errors import classified
from suite.probes.free_memory import free_bytes
from suite.probes.probe import Probe
from suite.probes.tensor_bytes import growth_bytes
from suite.schema import Measurement, MetricSpec, Point, Status, Trial
from suite.tasks.task import Task

_SHORT = 256  # tokens; so many are tried at once, whatever the mixer
_SHARE = 0.8  # of what is free
_BACKWARD = 6  # times the formula: the most that was seen is 4.6, of the LSTM
_GIB = 2**30

_FORWARD = MetricSpec(name="forward_peak_bytes", unit="B", better="lower")
_FORWARD_BACKWARD = MetricSpec(name="forward_backward_peak_bytes", unit="B", better="lower")
_FORMULA = MetricSpec(name="forward_formula_bytes", unit="B", better="none")


class TooLargeError(Exception):
    """A run that would not fit; the message holds what it would take, and what there is."""


class MixerMemory(Probe):
    """Peak bytes of a mixer alone, one sequence."""

    name = "mixer_memory"
    version = 1
    grain = "variant"
    is_swept = True

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Two peaks, and the formula of the first."""
        return (_FORWARD, _FORWARD_BACKWARD, _FORMULA)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """The formula where there is one; it is of a CPU, wherever the peaks are measured."""
        bench = _Bench.of(trial, device)
        yield _said(_FORWARD, lambda: bench.forward(trial.length))
        yield _said(_FORWARD_BACKWARD, lambda: bench.forward_backward(trial.length))
        formula = bench.formula(trial.length)
        if formula is not None:
            yield _said(_FORMULA, lambda: formula)


def _said(spec: MetricSpec, measured: Callable[[], float]) -> Measurement:
    status, reason, value = Status.OK, "", None
    try:
        value = float(measured())
    except TooLargeError as error:
        status, reason = Status.OUT_OF_MEMORY, str(error)
    except RuntimeError as error:  # more was free a moment ago, or the device is in pieces
        status, reason = classified(error)
        if status is not Status.OUT_OF_MEMORY:
            raise
    return Measurement(
        metric=spec.name, value=value, unit=spec.unit, better=spec.better, status=status,
        reason=reason,
    )  # fmt: skip


@dataclass(frozen=True)
class _Bench:
    """The mixer, ready on its device."""

    model: MixerAlone
    device: str

    @staticmethod
    def of(trial: Trial, device: str) -> _Bench:
        """Built and warm: libraries take what they keep at the first call."""
        torch.manual_seed(trial.seed)
        bench = _Bench(cast("MixerAlone", build_model(trial.subjects[0]).to(device)), device)
        bench._training_step(min(trial.length, _SHORT) // 4 or 1)()
        return bench

    def formula(self, length: int) -> float | None:
        """Bytes of a forward pass; None where the mixer, or this form of it, has no formula.

        Layers come one after the other: what one leaves is the input of the next.
        """
        try:
            layers = [mixer.forward_bytes(length) for mixer in self.model.mixers]
        except ModelError:
            return None
        return max(layers)

    def forward(self, length: int) -> int:
        """Peak of a pass without gradients.

        Raises:
            TooLargeError: it would not fit.
        """
        formula = self.formula(length)
        if formula is None:
            self._refuse_by_half(self.forward, length)
        else:
            self._refuse(formula, f"a forward pass over {length} tokens takes")
        return growth_bytes(self._forward_pass(length), self.device)

    def forward_backward(self, length: int) -> int:
        """Peak of a pass and its gradients.

        Raises:
            TooLargeError: it would not fit.
        """
        formula = self.formula(length)
        if formula is not None:
            self._refuse(formula, f"a forward pass alone over {length} tokens takes")
        if formula is None or _BACKWARD * formula + self._gradient_bytes() > self._free():
            self._refuse_by_half(self.forward_backward, length)
        return growth_bytes(self._training_step(length), self.device)

    def _refuse_by_half(self, measured: Callable[[int], int], length: int) -> None:
        if length <= _SHORT:
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

    def _gradient_bytes(self) -> int:
        return sum(p.numel() * p.element_size() for p in self.model.parameters())

    def _forward_pass(self, length: int) -> Callable[[], object]:
        x = self._input(length)
        self.model.eval()

        def step() -> None:
            with torch.no_grad():
                self.model(x)

        return step

    def _training_step(self, length: int) -> Callable[[], object]:
        x = self._input(length).requires_grad_()
        self.model.train()
        self.model.zero_grad(set_to_none=True)

        def step() -> None:
            output = self.model(x)
            output.backward(torch.ones_like(output))

        return step

    def _input(self, length: int) -> Tensor:
        return torch.randn(1, length, self.model.spec.dim, device=self.device)
