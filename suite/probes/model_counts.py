"""Count the parameters, the floating-point operations and the state of a whole model.

Parameters are counted on the built model, shared weights once and complex numbers as two. FLOPs
come from the formulas of the models; if a user's own model has none, they are counted. The bytes of
the state come from formulas too, which the tests of every mixer compare with the tensors of its
steps: they are cheap to evaluate at lengths that would take minutes to decode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from bakeoff.models import ModelSpec, architecture_class, build_model, build_shapes, mixer_class
from bakeoff.models.flop_count import UncountedOperationError
from bakeoff.suite.probes.probe import Probe, forward_flops, lengths_of, measurement
from bakeoff.suite.schema import (
    Measurement,
    MetricSpec,
    Parallel,
    Point,
    Status,
    Trial,
    metric_spec,
)
from bakeoff.suite.training.engines.engine import num_trained


class Parameters(Probe):
    """Trainable parameters of the whole model."""

    name = "parameters"
    version = 1
    grain = "variant"
    specs = (metric_spec("num_parameters"),)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Build the model and count its trained parameters."""
        yield measurement(self.specs[0], num_trained(build_model(trial.subjects[0])))


class ForwardFlops(Probe):
    """Forward FLOPs of one sequence: 2 per multiply-add, 0 for elementwise operations."""

    name = "flops"
    version = 1
    grain = "variant"
    is_at_length = True
    specs: ClassVar[tuple[MetricSpec, ...]] = (metric_spec("forward_flops"),)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Evaluate the formula of the whole model, or count if there is none."""
        metric = self.metrics(None, trial.length)[0]
        try:
            yield measurement(metric, forward_flops(trial.subjects[0], 1, lengths_of(trial)))
        except UncountedOperationError as error:  # an operation in a user's own model
            yield measurement(metric, None, status=Status.SKIPPED, reason=str(error))


class StateBytes(Probe):
    """The bytes of the state that a model keeps between tokens, after a sequence of its length.

    The state consists of keys and values that grow with the tokens read, or has a fixed size. It
    covers all layers, and the source if there is one.
    """

    name = "state_bytes"
    version = 1
    grain = "variant"
    is_at_length = True
    specs: ClassVar[tuple[MetricSpec, ...]] = (metric_spec("state_bytes"),)

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why a trial is skipped; the model must decode and have a state formula."""
        kind = architecture_class(model.architecture)
        if reason := kind.why_silent(model):
            return reason
        if not kind.has_state_formula():
            return f"{model.architecture} defines no state_bytes(length)"
        for mixer in kind.stepping_mixers(model):
            if not mixer_class(mixer).has_state_formula():
                return f"{mixer} defines no state_bytes(length)"
        return ""

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Evaluate the formula of the whole model, at the lengths of all its inputs."""
        count = build_shapes(trial.subjects[0]).state_bytes(**lengths_of(trial))
        yield measurement(self.metrics(None, trial.length)[0], count)
