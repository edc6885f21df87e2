"""A small ablation for whole architectures: an encoder-decoder and a vision transformer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistImages
from bakeoff.suite.tasks.sequence_to_sequence.digits import Reversal, Sorting
from bakeoff.suite.tasks.task import Batch, Split

TASKS = {"sorting": "translator", "fashion_mnist_images": "vit"}
# For each task, a task of the same interface for pre-training.
STARTS = {"sorting": "reversal", "fashion_mnist_images": "fashion_mnist_images"}
_MODEL = {"mixer": "attention", "heads": 4, "position": "learned"}
_KNOBS: dict[str, dict[str, Any]] = {"sorting": {}, "fashion_mnist_images": {"patch": 14}}
# At width 128, a matrix is large enough to be split at ZeRO stage 3.
_SCALE = {
    "dim": 128,
    "depth": 1,
    "length": 3,
    "steps": 6,
    "batch": 100,
    "num_evaluations": 1,
    "seeds": 1,
    "warmup_steps": 1,
    "learning_rate": 3e-3,
}


def family_ablation(task: str, *, scale: dict[str, Any] | None = None, **fields: Any) -> Ablation:
    """Return an ablation on one of `TASKS`; `scale` changes fields of the quick scale."""
    return Ablation(
        **{
            "question": "Does it train?",
            "baseline": Model(**_MODEL, **_KNOBS[task]),
            "axes": [vary("learning_rate", [3e-3, 1e-2])],
            "tasks": [task],
            "probes": ["quality"],
            "scales": {"quick": Scale(**{**_SCALE, **(scale or {})})},
            **fields,
        }
    )


def hold_out_few(put: Callable[[type, str, object], None] = setattr) -> None:
    """Score on 40 sequences of each text task, and on one and a half batches of images."""
    held_out = FashionMnistImages.held_out

    def few(task: FashionMnistImages, split: Split, batch: int) -> Iterator[Batch]:
        first, second = itertools.islice(held_out(task, split, batch), 2)
        yield from (first, second.rows(slice(batch // 2)))

    put(FashionMnistImages, "held_out", few)
    for task in (Reversal, Sorting):
        put(task, "num_held_out", {"validation": 40, "test": 40})
