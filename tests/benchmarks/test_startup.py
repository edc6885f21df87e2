"""How long does a person wait before anything runs? `make bench` prints it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.planning.plan import plan
from suite.spec import Ablation, Model, Scale, vary

pytestmark = pytest.mark.bench

BAKEOFF = Path(sys.executable).with_name("bakeoff")
NUM_TRIALS = 10_000


def test_help(benchmark: Any) -> None:
    """Target: 0.5 s on the two-core machine."""
    done = benchmark.pedantic(
        lambda: subprocess.run([str(BAKEOFF), "--help"], capture_output=True, check=True),
        rounds=5, warmup_rounds=1,
    )  # fmt: skip
    assert b"regenerate" in done.stdout


def test_planning_ten_thousand_trials(benchmark: Any) -> None:
    """A cross of 50 x 20 settings under ten seeds."""
    ablation = Ablation(
        question="How fast is planning?",
        baseline=Model(mixer="attention", heads=4),
        axes=[
            vary("learning_rate", [1e-3 * step for step in range(1, 51)]),
            vary("steps", list(range(1, 21))),
        ],
        tasks=["shakespeare_characters"],
        probes=["quality"],
        scales={"quick": Scale(dim=64, depth=2, length=64, steps=1, batch=16)},
        combine="cross",
    )
    found = benchmark.pedantic(lambda: plan(ablation, seeds=10), rounds=3, warmup_rounds=1)
    ids = {trial.trial_id for trial in found.trials}
    assert len(ids) == len(found.trials) == NUM_TRIALS
