"""Hide symbols of texts, so that a model learns to name them again.

Devlin et al. 2019, "BERT" (arXiv:1810.04805), section 3.1: of 15 % of the symbols, which are asked
for, 80 % are replaced by a symbol of their own, 10 % by any symbol, and 10 % stay. Joshi et al.
2020, "SpanBERT" (arXiv:1907.10529), section 3.1: neighbours are hidden together, a whole span in
one of the three ways; there lengths are drawn, here all spans are equally long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suite.tasks.data_order import RandomStream, Whole


@dataclass(frozen=True, kw_only=True)
class Masking:
    """What is asked for, and what stands in its place.

    Attributes:
        share: Of the symbols that may be hidden; at least one span is.
        replaced: Of what is asked for, the share that the mask symbol replaces.
        random: The share in whose place any symbol stands, drawn uniformly; the rest stays.
        span: Symbols that are hidden together.
    """

    share: float = 0.15
    replaced: float = 0.8
    random: float = 0.1
    span: int = 1

    def hide(
        self, stream: RandomStream, texts: Whole, *, mask_symbol: int, num_symbols: int
    ) -> tuple[Whole, Whole]:
        """Hide some symbols of each text, whatever the other texts are.

        Args:
            stream: What is drawn from.
            texts: `[texts, time]`.
            mask_symbol: What stands for a hidden one.
            num_symbols: Symbols that a random one may be.

        Returns:
            The texts with what stands in place; and `[texts, time]` booleans, what is asked for.
        """
        hidden, asked = texts.copy(), np.zeros(texts.shape, dtype=bool)
        for row, text in enumerate(texts):
            places = self._places(stream, len(text))
            ways = np.repeat(stream.uniform(len(places) // self.span), self.span)
            drawn = stream.integers(len(places), low=0, high=num_symbols)
            instead = np.where(ways < self.replaced, mask_symbol, drawn)
            stays = ways >= self.replaced + self.random
            hidden[row, places] = np.where(stays, text[places], instead)
            asked[row, places] = True
        return hidden, asked

    def num_spans(self, length: int) -> int:
        """Of a text of so many symbols."""
        return max(1, min(round(self.share * length / self.span), length // self.span))

    def _places(self, stream: RandomStream, length: int) -> Whole:
        """`[spans * span]`: spans that do not overlap, each arrangement as likely as any other."""
        count = self.num_spans(length)
        gaps = np.sort(stream.distinct(1, count, length - count * (self.span - 1))[0])
        starts = gaps + np.arange(count) * (self.span - 1)
        places: Whole = (starts[:, None] + np.arange(self.span)).ravel()
        return places
