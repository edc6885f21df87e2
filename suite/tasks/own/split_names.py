"""The names of the splits in the user's own data, and the number of examples that each needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.own.reading import TEST, TRAINING, VALIDATION
from bakeoff.suite.tasks.task import TaskError

SPLITS: Mapping[str, int] = {"training": TRAINING, "validation": VALIDATION, "test": TEST}
ALLOWED = "train, validation and test"
LEAST = 10  # examples of each split
_NAMES: Mapping[str, int] = {
    "train": TRAINING,
    "training": TRAINING,
    "validation": VALIDATION,
    "valid": VALIDATION,
    "val": VALIDATION,
    "dev": VALIDATION,
    "test": TEST,
}


def split_named(name: object) -> int | None:
    """Return the number of the split with this name, in capitals or not, or None."""
    return _NAMES.get(name.strip().lower()) if isinstance(name, str) else None


def counts_of(splits: NDArray[np.uint8]) -> list[int]:
    """Return the number of examples of each split."""
    counts: list[int] = np.bincount(splits, minlength=len(SPLITS)).tolist()
    return counts


def refuse_few(path: Path, counts: Sequence[int], what: str) -> None:
    """Raise if a split has less than `LEAST` examples.

    Args:
        path: The file or folder, for the message.
        counts: The number of examples of each split.
        what: The name of an example in the plural, as ``pairs``.
    """
    for name, split in SPLITS.items():
        if counts[split] < LEAST:
            raise TaskError(
                f"{path} has {shares(counts)} of its {sum(counts):,} {what}; each of the three "
                f"splits needs at least {LEAST}, and the {name} part has {counts[split]}"
            )


def shares(counts: Sequence[int]) -> str:
    """Return how many examples each split has, in words."""
    return (
        f"{counts[TRAINING]:,} for training, {counts[VALIDATION]:,} for validation and "
        f"{counts[TEST]:,} for the test"
    )
