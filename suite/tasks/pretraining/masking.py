"""Hide symbols of texts, so that a model learns to predict them.

Devlin et al. 2019, "BERT" (arXiv:1810.04805), section 3.1: 15 % of the symbols are asked for; 80 %
of these are replaced by a mask symbol, 10 % by any symbol, and 10 % stay. Joshi et al. 2020,
"SpanBERT" (arXiv:1907.10529), section 3.1: neighbours are hidden together, a whole span in one of
the three ways; there the lengths are drawn, here all spans have the same length. The number of
hidden spans of a text is rounded up or down at random, so that the share is right on average: for
short texts the nearest whole number would be a quarter too many or too few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.data_order import RandomStream, Whole

Chosen = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Masking:
    """The symbols that are asked for, and their replacement.

    Attributes:
        share: The share of the symbols that may be hidden, as a mean over texts; a short text may
            have none.
        replaced: The share of the symbols asked for that the mask symbol replaces.
        random: The share that a uniformly drawn symbol replaces; the rest stays.
        span: The number of symbols that are hidden together, neighbours among those that may be
            hidden.
    """

    share: float = 0.15
    replaced: float = 0.8
    random: float = 0.1
    span: int = 1

    def hide(
        self, stream: RandomStream, texts: Whole, may_hide: Chosen, *, mask: int, others: range
    ) -> tuple[Whole, Chosen]:
        """Hide some symbols of each text; what is drawn for a text is independent of the others.

        Args:
            stream: The stream to draw from.
            texts: `[texts, time]`.
            may_hide: `[texts, time]` booleans, True for symbols that may be hidden.
            mask: The symbol that replaces a hidden one.
            others: The range of random replacements.

        Returns:
            The texts after replacement, and a mask of the symbols asked for, in the same shape.
        """
        rows, time = texts.shape
        numbers = stream.uniform(rows, 3 * time + 1)
        drawn, rounding = numbers[:, 1:].reshape(rows, 3, time), numbers[:, 0]
        places = np.argsort(~may_hide, axis=1, kind="stable")  # candidates come first
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
        """Return the largest number of spans of a text with `length` symbols that may be hidden."""
        return int(self._num_spans(np.array([length]), np.ones(1))[0])

    def _num_spans(self, lengths: Whole, rounding: NDArray[np.float64]) -> Whole:
        """Return `[texts]`: the number of spans, rounded up or down at random.

        It is rounded up with the probability of its fraction if `rounding` is uniform.
        """
        wanted = self.share * lengths / self.span
        is_up = rounding > 1 - (wanted - np.floor(wanted))
        return np.minimum((np.floor(wanted) + is_up).astype(np.int64), lengths // self.span)

    def _spans(self, drawn: NDArray[np.float64], lengths: Whole, counts: Whole) -> Whole:
        """Return `[texts, time]`: the number of the span of each symbol, from 1; 0 for none.

        Spans do not overlap, and all arrangements are equally likely: positions of spans are drawn
        as if a span were one symbol.
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
