"""What a training step takes: parameters, gradients and states by theory, then activations."""

from __future__ import annotations

import pytest
import torch

from models import ModelSpec, build_model
from suite.probes.peak_memory import PeakMemory
from suite.schema import Measurement, Parallel, Trial
from suite.tasks.registry import task_class

TASK = "shakespeare_characters"
SMALL = ModelSpec(
    skeleton="language_model", mixer="attention", knobs={"heads": 4}, position="none", dim=128,
    depth=2, length=4, input_kind="tokens", input_size=81, output_size=81,
)  # fmt: skip


def peak(batch: int) -> float:
    trial = Trial(
        probe="peak_memory", task=TASK, task_digest="", length=SMALL.length, batch=batch,
        subjects=(SMALL,), training=None, seed=0, versions={},
    )  # fmt: skip
    (found,) = PeakMemory().measure(trial, "cpu")
    assert isinstance(found, Measurement)
    (spec,) = PeakMemory().metrics(task_class(TASK), SMALL.length)
    assert (spec.name, spec.unit, spec.better, spec.at) == (
        found.metric, found.unit, found.better, found.at,
    )  # fmt: skip
    assert found.value is not None
    return found.value


def test_a_step_over_few_tokens_takes_what_the_theory_says() -> None:
    """Of every parameter itself, its gradient, two states of AdamW; of one at a time its update.

    AdamW writes a root, its quotient and their sum before it changes a parameter.
    """
    sizes = [p.numel() for p in build_model(SMALL).parameters()]
    assert peak(batch=1) == pytest.approx(4 * (4 * sum(sizes) + 3 * max(sizes)), rel=0.01)


def test_activations_grow_with_the_batch() -> None:
    """A block keeps at least its inputs, both norms, four projections and the hidden layer."""
    torch.set_num_threads(1)
    tokens = 64 * SMALL.length
    held = 4 * tokens * SMALL.depth * SMALL.dim * (1 + 2 + 4 + 2 * 4)
    assert held < peak(batch=128) - peak(batch=64) < 2.5 * held


def test_workers_are_measured_elsewhere() -> None:
    two = Parallel(workers=2, zero=0, precision="float32", accumulation=1)
    assert "data_parallel measures workers" in PeakMemory().why_not(SMALL, two)
    assert PeakMemory().why_not(SMALL, None) == ""
