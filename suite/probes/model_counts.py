"""Count the parameters and the floating-point operations of a whole model.

Parameters are counted on the built model, shared weights once. FLOPs come from the formulas of
the models, since torch's counter is silently zero on a CPU for attention, LSTM and FFT.
"""

from __future__ import annotations

from collections.abc import Iterator

from models import ModelSpec, build_model, mixer_class
from suite.probes.probe import Probe
from suite.schema import Measurement, MetricSpec, Parallel, Point, Trial
from suite.tasks.task import Task


class Parameters(Probe):
    """Trainable parameters of the whole model."""

    name = "parameters"
    version = 1
    grain = "variant"

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """One count."""
        return (MetricSpec(name="num_parameters", unit="1", better="none"),)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Build the model and count."""
        model = build_model(trial.subjects[0])
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        yield Measurement(metric="num_parameters", value=float(count), unit="1", better="none")


METRIC = "forward_flops"


class ForwardFlops(Probe):
    """Forward FLOPs of one sequence: 2 per multiply-add, elementwise work 0."""

    name = "flops"
    version = 1
    grain = "variant"

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """One count, at the length of the trial."""
        return (MetricSpec(name=METRIC, unit="FLOP", better="lower", at=f"length={length}"),)

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """A user's mixer may come without a formula."""
        if mixer_class(model.mixer).has_flops_formula():
            return ""
        return f"{model.mixer} defines no flops(length, batch)"

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """Evaluate the formula of the whole model."""
        count = build_model(trial.subjects[0]).flops(trial.length, batch=1)
        yield Measurement(
            metric=METRIC, value=float(count), unit="FLOP", better="lower",
            at=f"length={trial.length}",
        )  # fmt: skip
