"""On two workers, tasks with a source train and are scored as in one process, at ZeRO 0 and 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch

from models.decoding import Decoder
from suite.schema import Parallel
from suite.tasks.digits import END
from suite.tasks.sequence_metrics import SequenceMetric
from suite.tasks.task import Batch, Split
from suite.training.engines.engine import Engine
from suite.training.engines.local import LocalEngine
from suite.training.engines.sharded import ShardedEngine
from tests.suite.toy import training
from tests.suite.training.engines.pair import on_two_workers
from tests.suite.writers import GruPair, Penalised

STEPS, BATCH = 4, 8
CASES = {
    "zero 0, accumulated": Parallel(workers=2, zero=0, precision="float32", accumulation=2),
    "zero 3": Parallel(workers=2, zero=3, precision="float32", accumulation=1),
}


@dataclass(frozen=True, kw_only=True)
class Checksum(SequenceMetric):
    """Any other symbol, or any other number of them, gives another number."""

    name: str = "checksum"
    unit: str = "1"
    better: Literal["higher", "lower", "none"] = "none"

    def counts(self, written: Sequence[int], asked: Sequence[int]) -> Sequence[float]:
        return sum((place + 1) * symbol for place, symbol in enumerate(written)), 1


class Short(Penalised):
    """Held out are a batch of eight and one of a single row: fewer than there are workers."""

    metric = Checksum(decoder=Decoder(), end=END)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        whole = next(super().held_out(split, 9))
        yield from (whole.rows(slice(8)), whole.rows(slice(8, 9)))


def trained(engine: Engine) -> tuple[list[float], float]:
    """The losses of a few steps and the score after them."""
    task = Short(6)
    steps = [[engine.step(task.training_batch(n, BATCH, 0), task)] for n in range(STEPS)]
    return [engine.mean(each) for each in steps], engine.evaluate(task, "test", BATCH)


def on_a_worker() -> dict[str, tuple[list[float], float]]:
    asked = training(STEPS, learning_rate=3e-3, warmup_steps=1)
    return {
        name: trained(ShardedEngine(GruPair(), asked, parallel, "cpu"))
        for name, parallel in CASES.items()
    }


def test_two_workers_train_and_write_as_one(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    asked = training(STEPS, learning_rate=3e-3, warmup_steps=1)
    losses, score = trained(LocalEngine(GruPair(), asked, "cpu"))
    assert losses[-1] < losses[0]
    for name, (found, their_score) in on_two_workers(on_a_worker, tmp_path / "two").items():
        assert found == pytest.approx(losses, rel=1e-5), name
        assert their_score == score, name
