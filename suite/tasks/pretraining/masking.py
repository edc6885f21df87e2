"""Hide symbols of texts, so that a model learns to name them again.

Devlin et al. 2019, "BERT" (arXiv:1810.04805), section 3.1: of 15 % of the symbols, which are asked
for, 80 % are replaced by a symbol of their own, 10 % by any symbol, and 10 % stay. Joshi et al.
2020, "SpanBERT" (arXiv:1907.10529), section 3.1: neighbours are hidden together, a whole span in
one of the three ways; there lengths are drawn, here all spans are equally long. How many are hidden
of a text is rounded up or down by chance, so that the share is right in the mean: of short texts
the nearest whole number would be a quarter too many or too few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.tasks.data_order import RandomStream, Whole

Chosen = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Masking:
    """What is asked for, and what stands in its place.

    Attributes:
        share: Of the symbols that may be hidden, in the mean over texts; of a short one it may be
            none.
        replaced: Of what is asked for, the share that the mask symbol replaces.
        random: The share in whose place any symbol stands, drawn uniformly; the rest stays.
        span: Symbols that are hidden together, neighbours among those that may be hidden.
    """

    share: float = 0.15
    replaced: float = 0.8
    random: float = 0.1
    span: int = 1

    def hide(
        self, stream: RandomStream, texts: Whole, may_hide: Chosen, *, mask: int, others: range
    ) -> tuple[Whole, Chosen]:
        """Hide some symbols of each text. What is drawn for a text depends on no other one.

        Args:
            stream: What is drawn from.
            texts: `[texts, time]`.
            may_hide: The same shape.
            mask: The symbol in place of a hidden one.
            others: Those that a random one is among.

        Returns:
            The texts with what stands in place, and what is asked for, in their shape.
        """
        rows, time = texts.shape
        numbers = stream.uniform(rows, 3 * time + 1)
        drawn, rounding = numbers[:, 1:].reshape(rows, 3, time), numbers[:, 0]
        places = np.argsort(~may_hide, axis=1, kind="stable")  # those that may be hidden first
        counts = self._num_spans(may_hide.sum(axis=1), rounding)
        spans = self._spans(drawn[:, 0], may_hide.sum(axis=1), counts)  # numbered from 1
        asked = np.zeros_like(may_hide)
        np.put_along_axis(asked, places, spans > 0, axis=1)
        ways = np.empty_like(drawn[:, 1])
        of_spans = np.take_along_axis(drawn[:, 1], np.maximum(spans - 1, 0), axis=1)
        np.put_along_axis(ways, places, of_spans, axis=1)
        any_symbol = (drawn[:, 2] * len(others)).astype(np.int64) + others.start
        hidden = np.where(ways < self.replaced, mask, any_symbol)
        stays = ~asked | (ways >= self.replaced + self.random)
        return np.where(stays, texts, hidden), asked

    def most_spans(self, length: int) -> int:
        """Of any text with at most so many symbols that may be hidden."""
        return int(self._num_spans(np.array([length]), np.ones(1))[0])

    def _num_spans(self, lengths: Whole, rounding: NDArray[np.float64]) -> Whole:
        """`[texts]`: rounded up as often as their fraction says, where `rounding` is uniform."""
        wanted = self.share * lengths / self.span
        is_up = rounding > 1 - (wanted - np.floor(wanted))
        return np.minimum((np.floor(wanted) + is_up).astype(np.int64), lengths // self.span)

    def _spans(self, drawn: NDArray[np.float64], lengths: Whole, counts: Whole) -> Whole:
        """`[texts, time]`: the number of the span that a symbol is of, from 1; 0 for none.

        Spans do not overlap, and each arrangement is as likely as any other: places of spans are
        drawn as if a span were one symbol.
        """
        rows, time = drawn.shape
        counts = counts[:, None]
        slots = lengths[:, None] - counts * (self.span - 1)
        order = np.argsort(np.where(np.arange(time) < slots, drawn, 2.0), axis=1)
        chosen = np.sort(np.where(np.arange(time) < counts, order, time), axis=1)
        starts = chosen + np.arange(time) * (self.span - 1)
        found = np.zeros((rows, time + self.span), dtype=np.int64)
        row, number = np.nonzero(chosen < time)
        for offset in range(self.span):
            found[row, starts[row, number] + offset] = number + 1
        return found[:, :time]
