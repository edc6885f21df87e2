"""Softmax attention that is bidirectional within a prefix and causal after it.

Paper: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences" (arXiv:1801.10198);
    "prefix LM" of Raffel et al. 2020 (arXiv:1910.10683), section 3.2.1 and Figure 4.
Equation: that of `attention`, in which token i attends to token j if j <= i or j < P, with
    P = n // 2 (`bakeoff.models.interface.prefix_length`).
Cost: n^2 d; one sequential operation. No information flows from later tokens to the prefix.
Departures: the prefix is half of a sequence; in the papers it is an input of any length.
Padding: exact; padded keys are masked, and the prefix is half of the real tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bakeoff.models.interface import prefix_length
from bakeoff.models.kernels.softmax_attention import Visibility, softmax_weights
from bakeoff.models.mixer import Context, Mask, Mixer
from bakeoff.models.mixers.attention import Attention


class PrefixAttention(Attention):
    """Softmax attention, bidirectional within the prefix and causal after it."""

    name = "prefix_attention"
    paper = "Liu et al. 2018, arXiv:1801.10198"
    supports_causal = False
    why_not_causal = "tokens of its prefix see later ones; `attention` has none"
    supports_step = False
    supports_context = False
    is_position_aware = True
    forward_bytes = Mixer.forward_bytes  # no formula: the cost of such a mask depends on the kernel

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        projected = self._project(x, mask, None, None)
        return self._attend(*projected, _visible(x, mask), self.position)

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the weights, `[batch, heads, time, time]`.

        Each row sums to one, or to zero if the query has no visible key.
        """
        self.check_inputs(x, mask, context, context_mask)
        queries, keys, _ = self._project(x, mask, None, None)
        visible = _visible(x, mask)
        return softmax_weights(self._scores(queries, keys, visible, self.position), visible)

    def _seen_from(self, place: int, seen: list[int]) -> list[int]:
        prefix = prefix_length(len(seen))
        return [j for j in seen if j <= place or j < prefix]


def _visible(x: Tensor, mask: Mask) -> Visibility:
    places = torch.arange(x.shape[1], device=x.device)
    lengths = torch.full_like(places[:1], x.shape[1]) if mask is None else mask.sum(dim=1)
    return Visibility(
        queries=places,
        keys=places,
        real=mask,
        is_causal=True,
        prefix=prefix_length(lengths)[:, None, None, None],
    )
