"""Write digits again, in some order: the smallest tasks with a source and a target.

Digits are copied, reversed or sorted, which tests a model's memory of its source. Copying, like
translation between languages of similar word order, first needs the token that was read first, a
whole source ago; Sutskever et al. 2014 (arXiv:1409.3215, section 3.3) reverse sources for that
reason. In reversal the last digit read is the first to be written. Sorting depends on the whole
source at each position (Vinyals et al. 2015, arXiv:1511.06391, section 5.1, sort numbers).

    symbols   13: 0 is padding, 1 begins and 2 ends a target, 3 to 12 are the digits
    context   the digits of the source, uniform and independent, padded at the end
    inputs    1, then the digits of the target, padded at the end
    target    at each position the next digit of the target, after the last one 2; padding is not
              scored
    score     exact match of the sequence that the model generates by greedy search: all digits,
              then 2; by number of digits: ``digits=16``

A trial of length n has sources of n - 1 digits, the largest number for which a target of n symbols
has room, and of half as many; a training batch has one of the two. Short sources are so few that
held-out ones also occur in training: there are 10**4 of four digits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.decoding import Decoder
from bakeoff.models.interface import Input
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.sequence_metrics import ExactMatch
from bakeoff.suite.tasks.task import UNSCORED, Batch, DataSource

VERSION = 1
PADDING, START, END, ZERO = 0, 1, 2, 3  # the other digits follow zero
NUM_DIGITS = 10


def _source(name: str, title: str, origin: str) -> DataSource:
    definition: dict[str, object] = {
        "symbols": ZERO + NUM_DIGITS,
        "digits": "uniform",
        "target": name,
        "lengths": "all but one of the places, and half of that",
    }
    return definition_source(
        name=name, title=title, origin=origin, definition=definition, version=VERSION
    )


class _Digits(GeneratedTask):
    """Rewriting of the digits of a source in another order."""

    version = VERSION
    architecture = "translator"
    asks_for = "sequence"
    reads_answers = True
    lengths = (2, 4_096)
    metric = ExactMatch(decoder=Decoder(max_length=4_096), end=END)
    floors = ("copied_source",)
    is_padded = True
    input_size = ZERO + NUM_DIGITS
    output_size = ZERO + NUM_DIGITS
    characters = " <>0123456789"

    @classmethod
    def other_inputs(cls, length: int) -> dict[str, Input]:
        """Return the source, one token shorter than the target with its start or end symbol."""
        return {"context": Input(kind="tokens", size=cls.input_size, length=length - 1)}

    @staticmethod
    @abstractmethod
    def rewritten(digits: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the targets of these sources, `[rows, digits]`."""

    def kinds(self) -> Sequence[int]:
        """Return the numbers of digits."""
        most = self.length - 1
        return sorted({max(1, most // 2), most})

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw `count` sources of `kind` digits."""
        source = stream.integers(count, kind, low=ZERO, high=ZERO + NUM_DIGITS)
        target = self.rewritten(source)
        context = np.full((count, self.length - 1), PADDING, dtype=np.int64)
        inputs = np.full((count, self.length), PADDING, dtype=np.int64)
        targets = np.full((count, self.length), UNSCORED, dtype=np.int64)
        context[:, :kind] = source
        inputs[:, 0], inputs[:, 1 : kind + 1] = START, target
        targets[:, :kind], targets[:, kind] = target, END
        named = {"inputs": torch.from_numpy(inputs), "context": torch.from_numpy(context)}
        masks = {"mask": named["inputs"] != PADDING, "context_mask": named["context"] != PADDING}
        return Batch(inputs=named | masks, targets=torch.from_numpy(targets))

    def parts(self) -> tuple[str, ...]:
        """Return one part for each number of digits."""
        return tuple(f"digits={kind}" for kind in self.kinds())

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the number of digits of the source."""
        num_digits = batch.inputs["context_mask"].sum(dim=1, keepdim=True)
        return {
            f"digits={kind}": (num_digits == kind).expand(batch.targets.shape)
            for kind in self.kinds()
        }


class Copying(_Digits):
    """Copying of the digits of a source, from the first to the last."""

    name = "copying"
    floors = ("likeliest_sequence",)  # not copied_source, which would be the answer
    source = _source("copying", "Digits once more", "Sutskever et al. 2014, arXiv:1409.3215")

    @staticmethod
    def rewritten(digits: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the digits unchanged."""
        return digits


class Reversal(_Digits):
    """Reversal of the digits of a source, from the last to the first."""

    name = "reversal"
    source = _source(
        "reversal", "Digits in reverse order", "Sutskever et al. 2014, arXiv:1409.3215"
    )

    @staticmethod
    def rewritten(digits: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the digits in reverse order."""
        return digits[:, ::-1]


class Sorting(_Digits):
    """Sorting of the digits of a source, from the smallest to the largest."""

    name = "sorting"
    source = _source(
        "sorting", "Digits in increasing order", "Vinyals et al. 2015, arXiv:1511.06391"
    )

    @staticmethod
    def rewritten(digits: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the digits in increasing order."""
        return np.sort(digits, axis=1)
