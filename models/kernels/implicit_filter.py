"""Filters computed by a small network as functions of the position, under decaying windows.

    h_l = (W_3 sin(w * (W_2 sin(w * (W_1 sin(w * (W_0 e_l + b_0)) + b_1)) + b_2))) (exp(-a l') + s)

with l' = l / (max_length - 1), e_l = (l', cos(2 pi k l / max_length), sin(2 pi k l / max_length))
for k = 0 .. K-1, learned frequencies w that are shared by the layers, and decay rates a that are
evenly spaced over the channels: a filter falls to a hundredth within .3 to 1.5 of max_length. No
map has weight decay, and all keep their draw, which is torch's own; other rules would flatten the
sines. Three sines at a frequency of 14 amplify an error by a factor of a thousand, so all except
the last map are computed in float64: this is little work, the same for every sequence of a batch.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

_FALL, _FASTEST, _SLOWEST = math.log(100.0), 0.3, 1.5  # to a hundredth, within parts of max_length


class ImplicitFilter(nn.Module):
    """`num` filters for each of several channels.

    Args:
        num: Number of filters per channel.
        channels: Number of channels.
        max_length: Length of a filter.
        bands: K, number of frequencies of the features.
        width: Width of the hidden layers.
        frequency: Initial value of w.
        shift: s, the limit of a window.
    """

    keeps_own_draw = ("maps", "last", "frequency")
    no_weight_decay = ("maps", "last", "frequency")
    rates: Tensor

    def __init__(
        self,
        *,
        num: int,
        channels: int,
        max_length: int,
        bands: int,
        width: int,
        frequency: float,
        shift: float,
    ) -> None:
        super().__init__()
        self.num, self.channels, self.max_length = num, channels, max_length
        self.bands, self.width, self.shift = bands, width, shift
        sizes = (1 + 2 * bands, width, width, width)
        self.maps = nn.ModuleList(nn.Linear(*pair) for pair in itertools.pairwise(sizes))
        self.last = nn.Linear(width, num * channels, bias=False)
        self.frequency = nn.Parameter(torch.full((width,), frequency))
        rates = torch.linspace(_FALL / _SLOWEST, _FALL / _FASTEST, channels)
        self.register_buffer("rates", rates, persistent=False)

    def forward(self, places: Tensor, dtype: torch.dtype) -> Tensor:
        """Compute the filters at some positions: `[places]` -> `[num, channels, places]`."""
        part = places.double() / max(1, self.max_length - 1)
        hidden = self._features(part, places)
        for weight, bias in self._hidden_maps():
            mapped = functional.linear(hidden, weight.double(), bias.double())
            hidden = torch.sin(self.frequency.double() * mapped)
        filters = self.last.weight.to(dtype) @ hidden.to(dtype).T
        filters = filters.reshape(self.num, self.channels, -1)
        rates = self.rates.to(dtype).unsqueeze(1)
        return filters * (torch.exp(-rates * part.to(dtype)) + self.shift)

    def _features(self, part: Tensor, places: Tensor) -> Tensor:
        """Compute the features e, `[places, 1 + 2 bands]`."""
        bands = torch.arange(self.bands, device=places.device)
        angles = (places.double() * (2 * math.pi / self.max_length)).unsqueeze(1) * bands
        return torch.cat([part.unsqueeze(1), angles.cos(), angles.sin()], dim=1)

    def at(self, place: int) -> Tensor:
        """Compute the definition at one position, `[num, channels]`, for references."""
        part = place / max(1, self.max_length - 1)
        angles = [2 * math.pi * k * place / self.max_length for k in range(self.bands)]
        features = [part, *map(math.cos, angles), *map(math.sin, angles)]
        hidden = self.frequency.new_tensor(features)
        for weight, bias in self._hidden_maps():
            hidden = torch.sin(self.frequency * (weight @ hidden + bias))
        filters = (self.last.weight @ hidden).reshape(self.num, self.channels)
        windows = [math.exp(-float(rate) * part) + self.shift for rate in self.rates]
        return filters * filters.new_tensor(windows)

    def _hidden_maps(self) -> list[tuple[Tensor, Tensor]]:
        """Return the weights and biases of the hidden layers."""
        return [(each.weight, each.bias) for each in self.maps if isinstance(each, nn.Linear)]

    def flops(self, length: int) -> int:
        """Return the FLOPs of `length` positions, computed once per batch."""
        return 2 * length * self._map_parameters()

    def _map_parameters(self) -> int:
        into = 1 + 2 * self.bands + 2 * self.width
        return self.width * (into + self.num * self.channels)
