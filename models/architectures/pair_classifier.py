"""A classifier of pairs: two sequences in, one row of logits per pair out.

The two towers of the task "retrieval" of the Long Range Arena (Tay et al. 2020, arXiv:2011.04006):
one encoder, with the same weights, turns each sequence into a vector by itself, so that nothing
but these two vectors can tell whether they belong together. A linear map reads the features
[u; v; u * v; u - v] of the pair u, v (Mou et al. 2016, arXiv:1512.08422).
Departures: the Arena's code has the same features, and two hidden layers between them and logits;
that is ``head="two_layers"``. The default has none, so that a tower must say by itself what it
has read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from models.architectures.classifier import Classifier
from models.initialisation import scaled_normal
from models.model_spec import late_knob

HIDDEN_OF_HEAD = 512  # the Arena's width of the first hidden layer; the second has half of it


class PairHead(nn.Module):
    """The Arena's head: two hidden layers with ReLU between the features and the logits."""

    def __init__(self, num_features: int, output_size: int) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, HIDDEN_OF_HEAD)
        self.second = nn.Linear(HIDDEN_OF_HEAD, HIDDEN_OF_HEAD // 2)
        self.last = nn.Linear(HIDDEN_OF_HEAD // 2, output_size)
        for linear in (self.first, self.second, self.last):
            scaled_normal(linear)

    def forward(self, features: Tensor) -> Tensor:
        """`[batch, num_features]` -> `[batch, output_size]`."""
        logits: Tensor = self.last(self.second(self.first(features).relu()).relu())
        return logits


class PairClassifier(Classifier):
    """Tokens `[batch, 2, time]` or vectors `[batch, 2, time, input_size]`, mask `[batch, 2, time]`.

    The logits are `[batch, output_size]`.
    """

    name = "pair_classifier"
    answers = ("pair",)
    vectors_of_head = 4
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(Classifier.Config):
        """Knobs of a classifier of pairs, besides those of every classifier.

        Attributes:
            head: What stands between the features of a pair and its logits: one `linear` map, or
                the Arena's `two_layers` of 512 and 256 with ReLU, and a linear map behind.
        """

        head: Literal["linear", "two_layers"] = late_knob("linear")

    def make_head(self, num_features: int) -> nn.Module:
        """See `Classifier.make_head`."""
        if self.config.head == "linear":
            return super().make_head(num_features)
        return PairHead(num_features, self.spec.output_size)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Architecture.forward`; `[batch, output_size]`."""
        sequences = inputs.flatten(0, 1)  # (batch * 2, time, ...)
        encoded = self.encode(sequences, None if mask is None else mask.flatten(0, 1))
        u, v = encoded.reshape(len(inputs), 2, self.spec.dim).unbind(1)
        logits: Tensor = self.head(torch.cat([u, v, u * v, u - v], dim=-1))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Both sequences of each pair, and the head."""
        return self.flops_of_encoding(length, 2 * batch) + batch * self.flops_of_head()
