"""Test the memory of a training step: parameters, gradients and states by theory; activations."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode

from bakeoff.models import build_model
from bakeoff.suite.probes.peak_memory import PeakMemory
from bakeoff.suite.probes.tensor_bytes import NewTensors
from tests.suite.probes.conftest import TWO_WORKERS, language_model, measured, trial_on_text

pytestmark = pytest.mark.whole

SMALL = language_model(length=4, dim=128, depth=2, knobs={"heads": 4})


def peak(batch: int) -> float:
    found = measured(PeakMemory(), trial_on_text("peak_memory", SMALL, batch))
    return found["peak_memory_bytes"].value or 0.0


def test_a_step_over_few_tokens_takes_what_the_theory_says() -> None:
    """Count each parameter, its gradient, two AdamW states, and one update at a time.

    For the update, AdamW holds a root, a quotient and their sum.
    """
    sizes = [p.numel() for p in build_model(SMALL).parameters()]
    assert peak(batch=1) == pytest.approx(4 * (4 * sum(sizes) + 3 * max(sizes)), rel=0.01)


def test_activations_grow_with_the_batch() -> None:
    """Count at least a block's inputs, both norms, four projections and the hidden layer."""
    tokens = 64 * SMALL.length
    held = 4 * tokens * SMALL.depth * SMALL.dim * (1 + 2 + 4 + 2 * 4)
    assert held < peak(batch=128) - peak(batch=64) < 2.5 * held


def test_what_a_compiler_leaves_behind_is_no_memory() -> None:
    new, real = NewTensors(), torch.ones(256)
    with FakeTensorMode():
        fake = torch.ones(1_000_000)
    assert new.bytes() == real.nbytes
    assert fake.nbytes == 4_000_000


def test_workers_are_measured_elsewhere() -> None:
    assert "data_parallel measures workers" in PeakMemory().why_not(SMALL, TWO_WORKERS)
    assert PeakMemory().why_not(SMALL, None) == ""
