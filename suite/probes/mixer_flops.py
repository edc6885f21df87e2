"""Count the floating-point operations of a mixer, by its formula and by torch's counter.

Two independent counts must agree within 1 %: the formula counts the operations of the mixer's
definition, the counter those that torch runs. A user's own mixer may have no formula; its count is
then reported as both. The theoretical complexity is reported too, without its constant factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from bakeoff.models import build_model
from bakeoff.models.architectures.mixer_alone import MixerAlone
from bakeoff.models.flop_count import counted_flops
from bakeoff.suite.probes.cost_formula import evaluate
from bakeoff.suite.probes.model_counts import ForwardFlops
from bakeoff.suite.probes.probe import has_formula, measurement
from bakeoff.suite.schema import Measurement, Point, Trial, metric_spec

_WITHIN = 0.01
_FORMULA = metric_spec("forward_flops")
_COUNTED = metric_spec("counted_flops")
_THEORY = metric_spec("theory_operations")


class DisagreeingFlopsError(Exception):
    """Raised if formula and counter disagree; the message contains both numbers."""


class MixerFlops(ForwardFlops):
    """Forward FLOPs of a mixer alone, for one sequence."""

    name = "mixer_flops"
    version = 1
    grain = "variant"
    is_swept = True
    is_at_length = False
    specs = (_FORMULA, _COUNTED, _THEORY)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Count the operations on the CPU, on whichever device the trial runs.

        Raises:
            DisagreeingFlopsError: if the counts are more than 1 % apart.
        """
        spec, length = trial.subjects[0], trial.length
        model = cast("MixerAlone", build_model(spec).eval())
        counted = counted_flops(model, (1, length, spec.dim))
        formula = model.flops(length) if has_formula(spec) else counted
        if abs(formula - counted) > _WITHIN * max(formula, counted):
            raise DisagreeingFlopsError(
                f"{spec.mixer} over {length} tokens takes {formula:.6g} FLOPs by its formula, "
                f"and {counted:.6g} by the counter"
            )
        yield measurement(_FORMULA, formula)
        yield measurement(_COUNTED, counted)
        theory = [evaluate(mixer, mixer.cost.time, length) for mixer in model.mixers]
        known = [operations for operations in theory if operations is not None]
        if known:
            yield measurement(_THEORY, sum(known))
