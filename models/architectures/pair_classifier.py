"""A classifier of pairs: two sequences in, one row of logits per pair out.

The two towers of the task "retrieval" of the Long Range Arena (Tay et al. 2020, arXiv:2011.04006):
one encoder, with the same weights, turns each sequence into a vector by itself, so that nothing
but these two vectors can tell whether they belong together. A linear map reads the features
[u; v; u * v; u - v] of the pair u, v (Mou et al. 2016, arXiv:1512.08422).
Departures: the Arena's code has the same features, and two hidden layers between them and logits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.architectures.classifier import Classifier


class PairClassifier(Classifier):
    """Tokens `[batch, 2, time]` or vectors `[batch, 2, time, input_size]`, mask `[batch, 2, time]`.

    The logits are `[batch, output_size]`.
    """

    name = "pair_classifier"
    answers = ("pair",)
    vectors_of_head = 4

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Architecture.forward`; `[batch, output_size]`."""
        sequences = inputs.flatten(0, 1)  # (batch * 2, time, ...)
        encoded = self.encode(sequences, None if mask is None else mask.flatten(0, 1))
        u, v = encoded.reshape(len(inputs), 2, self.spec.dim).unbind(1)
        logits: Tensor = self.head(torch.cat([u, v, u * v, u - v], dim=-1))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Both sequences of each pair, and the head."""
        return self.flops_of_encoding(length, 2 * batch) + batch * 2 * self.head.weight.numel()
