"""How many floating-point operations does a mixer take? By its formula, and counted.

Two counts that know nothing of each other must agree within 1 %: the formula counts what the
mixer means to do, the counter what torch is asked to do. Beside them stands what the theory says,
without its constant factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from models import ModelSpec, build_model, mixer_class
from models.architectures.mixer_alone import MixerAlone
from suite.probes.flop_counter import counted_flops
from suite.probes.probe import Probe
from suite.schema import Measurement, MetricSpec, Parallel, Point, Trial
from suite.tasks.task import Task
from suite.theory import evaluate

_WITHIN = 0.01
_FORMULA = MetricSpec(name="forward_flops", unit="FLOP", better="lower")
_COUNTED = MetricSpec(name="counted_flops", unit="FLOP", better="none")
_THEORY = MetricSpec(name="theory_operations", unit="1", better="none")


class DisagreeingFlopsError(Exception):
    """A formula that the counter contradicts; the message holds both numbers."""


class MixerFlops(Probe):
    """Forward FLOPs of a mixer alone, one sequence."""

    name = "mixer_flops"
    version = 1
    grain = "variant"
    is_swept = True

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Two counts, and the theory's."""
        return (_FORMULA, _COUNTED, _THEORY)

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """A user's mixer may come without a formula."""
        if mixer_class(model.mixer).has_flops_formula():
            return ""
        return f"{model.mixer} defines no flops(length, batch)"

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Counted as on a CPU, wherever the trial runs.

        Raises:
            DisagreeingFlopsError: the counts are more than 1 % apart.
        """
        spec, length = trial.subjects[0], trial.length
        model = cast("MixerAlone", build_model(spec).eval())
        formula, counted = model.flops(length), counted_flops(model, (1, length, spec.dim))
        if abs(formula - counted) > _WITHIN * max(formula, counted):
            raise DisagreeingFlopsError(
                f"{spec.mixer} over {length} tokens takes {formula:.6g} FLOPs by its formula, "
                f"and {counted:.6g} by the counter"
            )
        yield _said(_FORMULA, formula)
        yield _said(_COUNTED, counted)
        theory = [evaluate(mixer, mixer.cost.time, length) for mixer in model.mixers]
        known = [operations for operations in theory if operations is not None]
        if known:
            yield _said(_THEORY, sum(known))


def _said(spec: MetricSpec, value: float) -> Measurement:
    return Measurement(
        metric=spec.name, value=float(value), unit=spec.unit, better=spec.better
    )  # fmt: skip
