"""A classifier of pairs: two sequences in, one row of logits per pair out.

The model has the two towers of the task "retrieval" of the Long Range Arena (Tay et al. 2020,
arXiv:2011.04006): one encoder, with the same weights, maps each sequence to a vector on its own, so
only these two vectors can show whether the sequences belong together. A linear map reads the
features [u; v; u * v; u - v] of the pair u, v (Mou et al. 2016, arXiv:1512.08422).
Departures: the Arena's code has the same features, but two hidden layers between them and the
logits; ``head="two_layers"`` adds these. The default has no hidden layer, so that each vector must
hold the relevant content of its sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bakeoff.models.architectures.classifier import Classifier
from bakeoff.models.initialisation import scaled_normal
from bakeoff.models.model_spec import late_knob

HIDDEN_OF_HEAD = 512  # width of the Arena's first hidden layer; the second has half of it


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
        """Map features `[batch, num_features]` to logits `[batch, output_size]`."""
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
        """Knobs of a classifier of pairs, in addition to those of every classifier.

        Attributes:
            head: Map from the features of a pair to its logits: `linear` is one linear map,
                `two_layers` the Arena's hidden layers of 512 and 256 with ReLU and a linear map.
        """

        head: Literal["linear", "two_layers"] = late_knob("linear")

    def make_head(self, num_features: int) -> nn.Module:
        """Return the map from the features of a pair to its logits."""
        if self.config.head == "linear":
            return super().make_head(num_features)
        return PairHead(num_features, self.spec.output_size)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits `[batch, output_size]`."""
        sequences = inputs.flatten(0, 1)  # (batch * 2, time, ...)
        encoded = self.encode(sequences, None if mask is None else mask.flatten(0, 1))
        u, v = encoded.reshape(len(inputs), 2, self.spec.dim).unbind(1)
        logits: Tensor = self.head(torch.cat([u, v, u * v, u - v], dim=-1))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of both sequences of each pair and of the head."""
        return self.flops_of_encoding(length, 2 * batch) + batch * self.flops_of_head()
