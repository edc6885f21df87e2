"""Check the gradients of a reversible model on two workers with ZeRO 0 to 2."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bakeoff.models import Input
from bakeoff.suite.schema import Parallel
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.training.engines.engine import Engine
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.sharded import ShardedEngine
from tests.models.small_models import build, spec
from tests.suite.toy import training
from tests.suite.training.engines.pair import on_two_workers

STEPS, BATCH = 4, 8
ASKED = training(STEPS, learning_rate=3e-3, warmup_steps=1)


def trained(make: type[LocalEngine] | type[ShardedEngine], *more: object) -> list[float]:
    task = build_task("reversal", 6)
    size = {
        "input_size": task.input_size,
        "output_size": task.output_size,
        "others": {"context": Input(kind="tokens", size=task.input_size, length=6)},
    }
    model = build(spec("translator", residual="reversible", norm_placement="pre", **size))
    engine: Engine = make(model, ASKED, *more, "cpu")  # type: ignore[arg-type]
    steps = [[engine.step(task.training_batch(n, BATCH, 0), task)] for n in range(STEPS)]
    return [engine.mean(each) for each in steps]


def on_a_worker() -> dict[str, list[float]]:
    stages = {
        f"zero {zero}": Parallel(workers=2, zero=zero, precision="float32", accumulation=2)
        for zero in (0, 1, 2)
    }
    return {name: trained(ShardedEngine, parallel) for name, parallel in stages.items()}


@pytest.mark.slow
def test_two_workers_train_as_one(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    losses = trained(LocalEngine)
    assert losses[-1] < losses[0]
    for name, found in on_two_workers(on_a_worker, tmp_path / "two").items():
        assert found == pytest.approx(losses, rel=1e-5), name
