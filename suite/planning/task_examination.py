"""Examine a user's own task on a few batches, before anything runs.

The shapes and ranges of its batches must be those of its interface, its batches must be a function
of (seed, step) alone, its splits must not be the same, and its loss and its metric must be finite.
Files that it reads must be declared, because they are part of its identity.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bakeoff.models.interface import INPUTS, PER_TOKEN, Input, Outputs
from bakeoff.suite.planning.examination import generators_kept
from bakeoff.suite.planning.own_modules import declared_files, is_installed
from bakeoff.suite.tasks.batch import UNSCORED, Batch
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.tasks.task import Split, Task, TaskError

_ROWS = 8
_MOST_BATCHES = 16  # that are compared of each held-out split
_MASKS = {"mask", "context_mask"}
_SHARED = 0.5  # share of the test examples that may also be in another split


def examine_own_task(name: str, length: int) -> None:
    """Make a few batches and scores of a user's task at a length.

    Raises:
        TaskError: If the task breaks its contract; one sentence that names what was observed.
        Exception: Any exception of the user's code.
    """
    kind = task_class(name)
    with generators_kept(), _files_opened() as opened:
        if fault := _fault(name, kind, length):
            raise TaskError(f"{name}: {fault}")
    _refuse_undeclared(name, kind, opened)


def _fault(name: str, kind: type[Task], length: int) -> str:
    interface = kind.interface(length)
    if interface.output_size < 1:
        return f"output_size is {interface.output_size}; it must be at least 1"
    first = kind(length).training_batch(0, _ROWS, 0)
    if fault := _of_batch(first, kind, length, "training_batch"):
        return fault
    if fault := _of_repetition(kind, length, first):
        return fault
    rows: dict[Split, set[str]] = {}
    for split in ("validation", "test"):
        batches, again = (_some(kind(length), split) for _ in range(2))
        if not batches:
            return f"held_out({split!r}) yields no batch"
        for batch in batches:
            if fault := _of_batch(batch, kind, length, f"held_out({split!r})"):
                return fault
        rows[split] = {each for batch in batches for each in _digests(batch)}
        if rows[split] != {each for batch in again for each in _digests(batch)}:
            return f"held_out({split!r}) yields other examples the second time"
        if fault := _of_other_batches(kind, length, split):
            return fault
    shared = len(rows["test"] & rows["validation"]) / len(rows["test"])
    if shared > _SHARED:
        return (
            f"{shared:.0%} of the first test examples are validation examples too; held_out must "
            "yield other examples for each split"
        )
    seen = {each for step in range(_MOST_BATCHES) for each in _digests(_drawn(kind, length, step))}
    shared = len(rows["test"] & seen) / len(rows["test"])
    if shared > _SHARED:
        return f"{shared:.0%} of the first test examples are among the first training examples too"
    return _of_scores(kind(length), first)


def _some(task: Task, split: Split) -> list[Batch]:
    return list(islice(task.held_out(split, _ROWS), _MOST_BATCHES))


def _of_other_batches(kind: type[Task], length: int, split: Split) -> str:
    """Compare the first held-out examples, and their number, at two sizes of batches."""
    found = []
    for size in (_ROWS, _ROWS - 3):
        batches = islice(kind(length).held_out(split, size), _MOST_BATCHES * _ROWS)
        found.append([each for batch in batches for each in _digests(batch)])
    num_both = min(map(len, found))
    is_cut = max(map(len, found)) >= _MOST_BATCHES * _ROWS * (_ROWS - 3)
    if found[0][:num_both] == found[1][:num_both] and (is_cut or len(found[0]) == len(found[1])):
        return ""
    return (
        f"held_out({split!r}, batch) yields other examples if batch is {_ROWS - 3} in place of "
        f"{_ROWS} ({len(found[1])} and {len(found[0])}); draw them once, and yield them in parts: "
        "examples.rows(slice(first, first + batch))"
    )


def _drawn(kind: type[Task], length: int, step: int) -> Batch:
    return kind(length).training_batch(step, _ROWS, 0)


def _of_batch(batch: object, kind: type[Task], length: int, what: str) -> str:
    """Return the first way in which a batch differs from the interface; empty if none."""
    if not isinstance(batch, Batch):
        return f"{what} gives {type(batch).__name__}; it must give a Batch(inputs=..., targets=...)"
    interface = kind.interface(length)
    missing = interface.inputs.keys() - batch.inputs.keys()
    further = batch.inputs.keys() - interface.inputs.keys() - _MASKS
    if missing or further:
        names = ", ".join(sorted(missing or further))
        return f"{what}: the inputs {'lack' if missing else 'have'} {names}" + (
            "" if missing else ", which is not in other_inputs"
        )
    for name, asked in interface.inputs.items():
        if fault := _of_input(batch.inputs[name], asked):
            return f"{what}: the input {name!r} {fault}"
    if kind.is_padded and "mask" not in batch.inputs:
        return f"{what}: is_padded is True, so that each batch needs the input 'mask'"
    rows = len(batch.inputs[INPUTS])
    if what == "training_batch" and rows != _ROWS:
        return f"{what} gives {rows} rows for batch={_ROWS}; the first axis is the batch"
    if len(batch.targets) != rows:
        return f"{what}: there are {len(batch.targets)} targets for {rows} rows of inputs"
    return _of_targets(batch, kind, what)


def _of_input(given: object, asked: Input) -> str:
    if not isinstance(given, Tensor):
        return f"is {type(given).__name__}; it must be a tensor"
    if asked.kind == "tokens":
        if given.dtype != torch.int64:
            return f"has {given.dtype}; tokens must be torch.int64"
        low, high = (int(given.min()), int(given.max())) if given.numel() else (0, 0)
        if low < 0 or high >= asked.size:
            return (
                f"holds the token {low if low < 0 else high}; input_size allows 0 to "
                f"{asked.size - 1}"
            )
        return _of_length(given.shape[-1], asked.length)
    if not given.is_floating_point():
        return f"has {given.dtype}; {asked.kind} must be floats"
    if not bool(given.isfinite().all()):
        return "holds NaN or an infinite number"
    if given.shape[-1] != asked.size:
        return f"has {given.shape[-1]} features or channels; input_size is {asked.size}"
    if asked.kind == "image" and asked.grid and tuple(given.shape[1:3]) != asked.grid:
        return f"is {given.shape[1]} x {given.shape[2]}; grid is {asked.grid[0]} x {asked.grid[1]}"
    return _of_length(given.shape[-2], asked.length) if asked.kind == "vectors" else ""


def _of_length(found: int, most: int) -> str:
    return f"is {found} tokens long; length is {most}" if found > most else ""


def _of_targets(batch: Batch, kind: type[Task], what: str) -> str:
    targets = batch.targets
    if targets.is_floating_point():
        if not bool(targets.isfinite().all()):
            return f"{what}: a target is NaN or infinite"
        return ""
    asked = targets[targets != UNSCORED]
    if kind.asks_for not in ("class", "symbols", "next_symbols", "pair") or not asked.numel():
        return ""
    low, high = int(asked.min()), int(asked.max())
    if low < 0 or high >= kind.output_size:
        wrong = low if low < 0 else high
        return f"{what}: the target {wrong} is not in 0 to {kind.output_size - 1} (output_size)"
    return ""


def _of_repetition(kind: type[Task], length: int, first: Batch) -> str:
    """Draw the same batch after other draws, from a new object and another global seed."""
    task = kind(length)
    task.training_batch(3, _ROWS, 1)
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        if _digests(task.training_batch(0, _ROWS, 0)) != _digests(first):
            return (
                "training_batch(step=0, batch=8, seed=0) gives other examples the second time; it "
                "must be a function of its arguments alone (see "
                "bakeoff.suite.tasks.data_order.RandomStream)"
            )
    return ""


def _digests(batch: Batch) -> list[str]:
    """Return a hash of the inputs of each row."""
    rows = [
        [each[row].numpy().tobytes() for _, each in sorted(batch.inputs.items())]
        for row in range(len(batch.inputs[INPUTS]))
    ]
    return [hashlib.blake2b(b"|".join(parts), digest_size=8).hexdigest() for parts in rows]


def _of_scores(task: Task, batch: Batch) -> str:
    """Score equal and random logits; the loss must also have a gradient."""
    if task.asks_for not in ("class", "number", "symbols", "next_symbols"):
        return ""
    axes = batch.targets.shape[:1] if task.asks_for not in PER_TOKEN else batch.targets.shape[:2]
    drawn = torch.randn(*axes, task.output_size, generator=torch.Generator().manual_seed(0))
    for logits in (torch.zeros_like(drawn), drawn):
        outputs = Outputs(logits.requires_grad_())
        loss: object = task.loss(outputs, batch)
        if not isinstance(loss, Tensor) or loss.ndim:
            return "loss must return a scalar tensor"
        if not loss.requires_grad:
            return "its loss has no gradient with respect to the logits"
        if not math.isfinite(loss.item()):
            kind_of_logits = "random" if bool(logits.any()) else "equal"
            return f"its loss of {kind_of_logits} logits is {loss.item()}"
        with torch.no_grad():
            value: object = task.metric.value(task.metric.sums(Outputs(logits.detach()), batch))
        if not isinstance(value, float | int) or not math.isfinite(value):
            return f"its metric {task.metric.name} of these logits is {value!r}"
    return ""


_OPENED: list[set[str]] = []  # one set for each examination in progress; usually at most one
_IS_HOOKED = False


@contextmanager
def _files_opened() -> Iterator[set[str]]:
    """Collect the files that are opened for reading in the block."""
    global _IS_HOOKED
    if not _IS_HOOKED:
        sys.addaudithook(_note_opened)
        _IS_HOOKED = True
    found: set[str] = set()
    _OPENED.append(found)
    try:
        yield found
    finally:
        _OPENED.remove(found)


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if _OPENED and event == "open" and isinstance(path := arguments[0], str | bytes | os.PathLike):
        if isinstance(mode := arguments[1], str) and set(mode) & set("wax"):
            return
        for found in _OPENED:
            found.add(os.path.realpath(os.fsdecode(path)))


def _refuse_undeclared(name: str, kind: type[Task], opened: set[str]) -> None:
    declared: Mapping[str, Path] = declared_files(kind)
    known = {os.path.realpath(file) for file in declared.values()}
    for path in sorted(opened - known):
        is_data = os.path.isfile(path) and not path.startswith(("/proc/", "/dev/", "/sys/"))
        if is_data and Path(path).suffix not in (".py", ".pyc") and not is_installed(path):
            raise TaskError(
                f"{name} reads {path}, which it does not declare; write files = "
                f"('{Path(path).name}',) in the class, so that the content is part of its identity "
                "(the file must be in the folder of the module or below)"
            )
