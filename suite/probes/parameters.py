"""Probe `parameters`: parameters of the built model; shared weights count once."""

from __future__ import annotations

from collections.abc import Iterator

from models import build_model
from suite.probes.probe import Probe
from suite.schema import Measurement, MetricSpec, Point, Trial
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
