"""Multi-query associative recall (MQAR): pairs of keys and values, then the keys again.

Arora, Eyuboglu et al. 2023, "Zoology: Measuring and improving recall in efficient language models"
(arXiv:2312.04927), section 3 and appendix E; the authors' public code settles the details that the
paper leaves open.

    symbols   8,192: 0 is filler, 1 to 4,095 are keys, 4,096 to 8,191 are values
    input     the pairs k1 v1 k2 v2 ..., keys distinct and values distinct, uniform; then each key
              once more, at even distances from there, with fillers between
    gaps      the query of a pair is 2 g positions after the last pair; g = 0, 1, ... is drawn
              without replacement, one pair after the other, in proportion to (g + 1)**(alpha - 1)
              with alpha = 0.1: distances between repeated bigrams of real text follow a power law
    target    at each query its value; other positions are not scored
    score     accuracy over queries; by number of pairs: ``pairs=8``

The paper uses one number of pairs for each length: 4 at 64 tokens, 8 at 128, 16 at 256, 64 at 512.
Here a trial has several, so that one trained model shows the limit of its memory: 4, 8, ... up to
an eighth of the length and at most 64, with equally many examples of each; a training batch has one
of them, drawn at each step. There are two further departures: training examples are always new,
whereas the paper takes 64 epochs over 100,000 examples; and its code has alpha = 0.01.

`mqar_small` has 256 symbols (127 keys, 128 values) and is otherwise the same: in a few hundred
steps on a CPU, every symbol occurs often enough to be learned, which is not so for 8,192.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.task import UNSCORED, Batch, DataSource, Split, TaskError

VERSION = 1
FILLER = 0
ALPHA = 0.1
FEWEST_PAIRS = 4
MOST_PAIRS = 64
TOKENS_PER_PAIR = 8  # minimum: a pair and its query take three, and queries need room to vary


def _source(name: str, num_symbols: int) -> DataSource:
    return definition_source(
        name=name,
        title=f"Multi-query associative recall, {num_symbols:,} symbols",
        origin="Arora, Eyuboglu et al. 2023, arXiv:2312.04927",
        definition={
            "symbols": num_symbols,
            "filler": FILLER,
            "alpha": ALPHA,
            "pairs": [FEWEST_PAIRS, MOST_PAIRS],
            "tokens_per_pair": TOKENS_PER_PAIR,
        },
        version=VERSION,
    )


class Mqar(GeneratedTask):
    """Recall of the value of each key that recurs."""

    name = "mqar"
    version = VERSION
    architecture = "language_model"
    asks_for = "next_symbols"
    answers_are_shown = True
    floors = ("uniform", "majority", "shown_answers")
    source = _source("mqar", 8_192)
    num_held_out: ClassVar[dict[Split, int]] = {"validation": 500, "test": 1_500}
    lengths = (FEWEST_PAIRS * TOKENS_PER_PAIR, 16_384)
    input_size = 8_192
    output_size = 8_192

    def __init__(self, length: int) -> None:
        least, most = self.lengths
        if length % 2 or not least <= length <= most:
            raise TaskError(
                f"{self.name}: length must be an even number of {least} to {most} tokens,"
                f" not {length}"
            )
        super().__init__(length)

    def kinds(self) -> Sequence[int]:
        """Return the numbers of pairs: 4, 8, ... up to an eighth of the length and at most 64."""
        most = min(MOST_PAIRS, self.length // TOKENS_PER_PAIR)
        return [num for num in (4, 8, 16, 32, 64) if num <= most]

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw `count` examples of `kind` pairs each: keys, values, then gaps."""
        half = self.input_size // 2
        keys = 1 + stream.distinct(count, kind, half - 1)
        values = half + stream.distinct(count, kind, half)
        first_query = 2 * kind
        queries = first_query + 2 * draw_gaps(stream, count, kind, self.length)
        inputs = np.full((count, self.length), FILLER, dtype=np.int64)
        inputs[:, 0:first_query:2] = keys
        inputs[:, 1:first_query:2] = values
        np.put_along_axis(inputs, queries, keys, axis=1)
        targets = np.full_like(inputs, UNSCORED)
        np.put_along_axis(targets, queries, values, axis=1)
        return Batch(inputs={"inputs": torch.from_numpy(inputs)}, targets=torch.from_numpy(targets))

    def parts(self) -> tuple[str, ...]:
        """Return one part for each number of pairs."""
        return tuple(f"pairs={num}" for num in self.kinds())

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts by the number of pairs of an example, which equals its queries."""
        num_pairs = (batch.targets != UNSCORED).sum(dim=1, keepdim=True)
        return {
            f"pairs={num}": (num_pairs == num).expand(batch.targets.shape) for num in self.kinds()
        }


class MqarSmall(Mqar):
    """MQAR with 256 symbols."""

    name = "mqar_small"
    source = _source("mqar_small", 256)
    input_size = 256
    output_size = 256


def draw_gaps(stream: RandomStream, count: int, num_pairs: int, length: int) -> NDArray[np.int64]:
    """Draw `[count, num_pairs]`: half the distance of each query from the end of the pairs.

    Gaps are distinct in a row; small ones are likely, and likelier for the earlier pairs.
    """
    num_places = (length - 2 * num_pairs) // 2
    weights = np.arange(1, num_places + 1, dtype=np.float64) ** (ALPHA - 1)
    return stream.weighted_distinct(count, num_pairs, weights)
