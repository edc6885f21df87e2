"""Tell pairs by how many short strings both sequences have: names, numbers, and no meaning.

Of each pair the distinct strings of WIDTHS symbols that stand in both sequences are counted. A pair
belongs together from so many on as gets most training pairs right; of equal ones the smallest. The
width is the one of WIDTHS with the best score on the validation split, the first of several.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from suite.floors.floor import Floor
from suite.floors.splits import held_out_batches, training_batches
from suite.tasks.metrics import Accuracy
from suite.tasks.task import Batch, Split, Task

WIDTHS = (3, 4, 5, 6)


class SharedSubstrings(Floor):
    """Yes from a number of shared strings on.

    Of passages in two languages these are mostly names. A model that beats this has read more.
    """

    name = "shared_substrings"
    label = "by shared strings"
    version = 1
    needs = "pairs of sequences, the answer yes or no"

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        is_pair = task.asks_for == "pair" and isinstance(task.metric, Accuracy)
        return is_pair and task.input_kind == "tokens" and task.output_size == 2

    def score(self, task: Task) -> float:
        """Of the width that is best on the validation split."""
        training = list(training_batches(task))
        least = {width: least_shared(training, width) for width in WIDTHS}
        best = max(WIDTHS, key=lambda width: _score(task, "validation", width, least[width]))
        return _score(task, "test", best, least[best])


def least_shared(batches: Iterable[Batch], width: int) -> int:
    """From how many shared strings on the answer is yes."""
    shared, answers = _counted(batches, width)
    tried = np.arange(shared.max() + 2)
    right = [((shared >= least) == answers).sum() for least in tried]
    return int(np.argmax(right))


def _score(task: Task, split: Split, width: int, least: int) -> float:
    shared, answers = _counted(held_out_batches(task, split), width)
    return float(((shared >= least) == answers).mean())


def _counted(batches: Iterable[Batch], width: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """`[pairs]`: how many strings each shares, and whether it belongs together."""
    shared, answers = [], []
    for batch in batches:
        for first, second in batch.inputs["inputs"].numpy():
            shared.append(len(_strings(first, width) & _strings(second, width)))
        answers.append(batch.targets.numpy() == 1)
    return np.array(shared), np.concatenate(answers)


def _strings(symbols: NDArray[np.int64], width: int) -> set[bytes]:
    windows = np.lib.stride_tricks.sliding_window_view(symbols, min(width, len(symbols)))
    return {window.tobytes() for window in windows}
