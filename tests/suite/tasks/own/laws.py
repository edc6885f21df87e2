"""Laws that every task on the user's own data must keep."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, build_model
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import UNSCORED, Batch, Split, Task

ROOT = Path(__file__).parents[4]
SPLITS: tuple[Split, ...] = ("validation", "test")

# A program for a separate process: spelling and length -> digest of some batches.
_ELSEWHERE = """
import sys
from tests.suite.tasks.own.laws import digest
from bakeoff.suite.tasks.registry import build_task
print(digest(build_task(sys.argv[1], int(sys.argv[2]))))
"""


def _tensors(batch: Batch) -> list[Tensor]:
    return [*batch.inputs.values(), batch.targets]


def same(a: Batch, b: Batch) -> bool:
    return all(torch.equal(x, y) for x, y in zip(_tensors(a), _tensors(b), strict=True))


def digest(task: Task) -> str:
    found = hashlib.sha256()
    for step in (7, 0, 50):
        for tensor in _tensors(task.training_batch(step, 8, seed=3)):
            found.update(tensor.numpy().tobytes())
    return found.hexdigest()


def another_process_sees_the_same(spelling: str, length: int) -> bool:
    other = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, spelling, str(length)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)},
    )
    return other.stdout.strip() == digest(build_task(spelling, length))


def keep(spelling: str, length: int) -> Task:
    """Check the laws, and return the task."""
    task = build_task(spelling, length)
    assert same(task.training_batch(2, 6, 1), build_task(spelling, length).training_batch(2, 6, 1))
    assert not same(task.training_batch(2, 6, 1), task.training_batch(3, 6, 1))
    interface = task.interface(length)
    for batch in (task.training_batch(0, 5, seed=0), next(task.held_out("test", 5))):
        for name, each in interface.inputs.items():
            found = batch.inputs[name]
            if each.kind == "tokens":
                assert found.dtype == torch.int64
                assert found.shape == (5, each.length)
                assert 0 <= found.min() <= found.max() < each.size
            else:
                assert found.dtype == torch.float32
                assert found.shape == (5, *(each.grid or (each.length,)), each.size)
                assert found.isfinite().all()
        scored = batch.targets[batch.targets != UNSCORED]
        if task.asks_for == "number":
            assert batch.targets.dtype == torch.float32
        else:
            assert batch.targets.dtype == torch.int64
            assert 0 <= scored.min() <= scored.max() < task.output_size
        kept = batch.map(Tensor.clone)
        for tensor in _tensors(batch):
            tensor.zero_()
    assert same(next(task.held_out("test", 5)), kept), "a batch may be overwritten"
    for split in SPLITS:
        by_3, by_64 = list(task.held_out(split, 3)), list(task.held_out(split, 64))
        whole = [torch.cat(list(map(_tensors_at(n), by_3))) for n in range(len(_tensors(by_3[0])))]
        again = [torch.cat(list(map(_tensors_at(n), by_64))) for n in range(len(whole))]
        assert all(map(torch.equal, whole, again))
    training = task.num_training_examples()
    assert training is not None
    epoch = [task.training_batch(epoch, training, seed=5) for epoch in (0, 1)]
    rows = [sorted(row.numpy().tobytes() for row in each.inputs["inputs"]) for each in epoch]
    assert rows[0] == rows[1]
    for name in task.floors:
        assert FLOORS[name].suits(type(task)), name
        assert math.isfinite(FLOORS[name].score(task)), name
    json.dumps(type(task).source.title)
    return task


def _tensors_at(number: int):  # type: ignore[no-untyped-def]
    return lambda batch: _tensors(batch)[number]


def inputs_of(task: Task, split: str) -> set[bytes]:
    """Return the first inputs of a whole split."""
    if split == "training":
        batches = [task.training_batch(0, task.num_training_examples() or 0, seed=0)]
    else:
        batches = list(task.held_out(split, 64))  # type: ignore[arg-type]
    key = "context" if "context" in batches[0].inputs else "inputs"
    return {np.ascontiguousarray(r).tobytes() for batch in batches for r in batch.inputs[key]}


def small_model(task: Task, architecture: str | None = None, **fields: object) -> nn.Module:
    """Return a small model for the task, of its own architecture by default."""
    interface = task.interface(task.length)
    first = interface.inputs["inputs"]
    return build_model(
        ModelSpec(
            architecture=architecture or task.architecture,
            length=first.length,
            input_size=first.size,
            input_kind=first.kind,
            grid=first.grid,
            output_size=interface.output_size,
            others={k: v for k, v in interface.inputs.items() if k != "inputs"},
            **fields,  # type: ignore[arg-type]
        )
    )
