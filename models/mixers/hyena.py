"""Hyena: convolutions as long as the sequence, alternating with elementwise gates.

Paper: Poli et al. 2023, "Hyena Hierarchy: Towards Larger Convolutional Language Models"
    (arXiv:2302.10866), section 3, definition 3.1.
Equation: (v, g_1, .., g_N) is a depthwise convolution of V u with 3 taps; z_1 = v,
    z_{i+1} = g_i * (h_i conv z_i + D_i z_i) for i = 1 .. N; the output is W z_{N+1}. The filters
    h_i are functions of the position, see `kernels.implicit_filter`.
Cost: n d log n by Fourier transforms, n d^2 for the projections, and n (k^2 + k d) for filters
    shared by a batch, from a network of width k; one sequential operation; any two positions are
    one step apart.
Not causal: the paper defines only a causal form. Otherwise half of the channels run in reverse
    here, with their own filters and taps; both directions share the network that computes the
    filters.
Departures: there are N filters as in the definition, where the authors' code first gates v by g_1,
    and has filters for the other N - 1. The filter network has width 32, where the language models
    of the paper, of width 864, use 64; frequency 14 and 16 bands are the paper's. Windows and
    position features are fixed; the authors' code can train them. Projections have no biases and
    start from normal(0, 1 / inputs); the short convolution has biases; D starts from a normal
    distribution, as in the authors' code.
Length: filters end at `max_length`, which normalises the positions.
Padding: padded tokens enter every convolution as zeros, and outputs at padded positions are zeroed
    before the next one.
Precision: at least float32 between the projections.
Fast form: `kernels.long_convolution`. There is no state of constant size: `step` keeps the past
    inputs of each convolution and the filters computed so far, which it extends by one position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import linear_map
from bakeoff.models.kernels.implicit_filter import ImplicitFilter
from bakeoff.models.kernels.long_convolution import (
    long_convolution,
    long_convolution_bytes,
    long_convolution_flops,
)
from bakeoff.models.kernels.short_conv import ShortConvolution
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding

_LARGEST_ORDER = 4  # a product of five inputs of 1e6 still fits in float32


class Hyena(Mixer):
    """Long implicit convolutions with gates; see the module docstring."""

    name = "hyena"
    paper = "Poli et al. 2023, arXiv:2302.10866"
    family = "convolution"
    cost = Cost(
        time="n * (d * log2(n) + d**2 + k**2 + k * d)",
        sequential_operations="1",
        maximum_path_length="1",
    )
    supports_causal = True
    supports_step = True
    fixed_length = True
    is_position_aware = True
    mask_mode = "exact"
    positive_knobs: ClassVar[tuple[str, ...]] = (
        "order",
        "short_conv",
        "filter_width",
        "filter_bands",
    )

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of Hyena.

        Attributes:
            order: N, the number of successive long convolutions, at most 4.
            short_conv: Number of taps of the convolution over v and the gates; 1 only scales them.
            filter_width: Width of the hidden layers of the filter network.
            filter_bands: Number of frequencies in the position features of this network, 0
                included.
            frequency: Initial factor of the angles in the network's sines.
            shift: Value that the windows over the filters decay to; with 0 filters decay to zero.
        """

        order: int = 2
        short_conv: int = 3
        filter_width: int = 32
        filter_bands: int = 16
        frequency: float = 14.0
        shift: float = 0.0

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if the order is so high that products of inputs may overflow."""
        super().check_config(config, dim=dim)
        if config.order > _LARGEST_ORDER:
            raise ModelError(f"{cls.name}: order={config.order} is above {_LARGEST_ORDER}")

    def make_parameters(self, config: Config) -> None:
        """Create the projections, the short convolution, the filters and D."""
        self.num_directions = 1 if self.is_causal else 2
        if self.dim % self.num_directions != 0:
            raise ModelError(
                f"{self.name} needs an even dim for its two directions, not dim={self.dim}"
            )
        self.order = config.order
        self.streams = linear_map(self.dim, (self.order + 1) * self.dim)
        taps = config.short_conv
        self.conv = ShortConvolution((self.order + 1) * self.dim, taps, has_bias=True)
        self.filters = ImplicitFilter(
            num=self.order * self.num_directions,
            channels=self.dim // self.num_directions,
            max_length=self.max_length,
            bands=config.filter_bands,
            width=config.filter_width,
            frequency=config.frequency,
            shift=config.shift,
        )
        self.skip = nn.Parameter(torch.empty(self.order, self.dim).normal_())
        self.output = linear_map(self.dim, self.dim)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        mixed = self.conv(self._turned(self.streams(without_padding(x, mask))))
        real = None if mask is None else self._turned_mask(mask)
        with torch.autocast(x.device.type, enabled=False):
            wide = torch.promote_types(mixed.dtype, torch.float32)
            z, *gates = mixed.to(wide).transpose(1, 2).chunk(self.order + 1, dim=1)
            places = torch.arange(x.shape[1], device=x.device)
            for gate, past in zip(gates, self._filters_at(places, wide), strict=True):
                z = gate * long_convolution(z if real is None else z * real, past)
            read = z.transpose(1, 2).to(mixed.dtype)
        mixed_back: Tensor = self.output(self._turned(read))
        return mixed_back

    def _filters_at(self, places: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the filters `[order, dim, places]`, with D added at place 0."""
        filters: Tensor = self.filters(places, dtype)
        filters = filters.reshape(self.order, self.dim, -1)
        return filters + self.skip.to(dtype).unsqueeze(-1) * (places == 0).to(dtype)

    def _turned(self, x: Tensor) -> Tensor:
        """Return `[batch, time, streams * dim]` with the second half of each stream reversed."""
        if self.num_directions == 1:
            return x
        streams = x.shape[-1] // self.dim
        halves = x.reshape(*x.shape[:2], streams, 2, self.dim // 2)
        first, second = halves.unbind(dim=-2)
        return torch.stack([first, second.flip(1)], dim=-2).flatten(2)

    def _turned_mask(self, mask: Tensor) -> Tensor:
        """Return the mask as `[batch, 1 or dim, time]`, reversed for the second half."""
        if self.num_directions == 1:
            return mask.unsqueeze(1)
        return torch.stack([mask, mask.flip(1)], dim=1).repeat_interleave(self.dim // 2, dim=1)

    def initial_state(self, batch: int) -> State:
        """Return the empty state: tokens of the taps, inputs of each convolution, and filters."""
        self.check_steps()
        nothing = self.skip.new_zeros(batch, 0, self.order, self.dim)
        return self.conv.initial_state(batch), nothing, nothing

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Mix one token, `[batch, dim]`; sum each convolution anew over all tokens so far."""
        self.check_steps()
        tokens, entered, filters = state
        place = entered.shape[1]
        self._check_length(place + 1)
        mixed, tokens = self.conv.step(self.streams(x_t.unsqueeze(1)), tokens)
        with torch.autocast(x_t.device.type, enabled=False):
            wide = torch.promote_types(mixed.dtype, torch.float32)
            at = torch.full((1,), place, device=x_t.device)
            newest = self._filters_at(at, wide).permute(2, 0, 1)  # (1, order, dim)
            filters = torch.cat([filters.to(wide), newest.expand(len(x_t), 1, -1, -1)], dim=1)
            z, *gates = mixed.squeeze(1).to(wide).chunk(self.order + 1, dim=1)
            inputs = []
            for i, gate in enumerate(gates):
                inputs.append(z)
                seen = torch.cat([entered[:, :, i].to(wide), z.unsqueeze(1)], dim=1)
                z = gate * (filters[:, :, i] * seen.flip(1)).sum(dim=1)
            entered = torch.cat([entered, torch.stack(inputs, dim=1).unsqueeze(1)], dim=1)
        mixed_back: Tensor = self.output(z.to(mixed.dtype))
        return mixed_back, (tokens, entered, filters)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the taps' tokens, and of `length` inputs and filter places."""
        self.check_steps()
        self._check_length(length)
        taps = (self.conv.taps - 1) * self.conv.channels
        return 4 * (taps + 2 * length * self.order * self.dim)

    def _check_length(self, length: int) -> None:
        if length > self.max_length:
            raise ModelError(
                f"{self.name} takes at most max_length={self.max_length} tokens, not {length}"
            )

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of projections, taps, filters and long convolutions."""
        self.check_context_length(context_length)
        maps = (self.order + 2) * self.dim**2 + self.conv.taps * self.conv.channels
        long = self.order * long_convolution_flops(length, self.dim, batch)
        return 2 * batch * length * maps + self.filters.flops(length) + long

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: of the last convolution, the short one, or the filter network.

        The last convolution holds all streams, all filters, and z unless that is a stream; the
        short convolution holds the streams before it, their padded copy, and those after it; the
        filter network holds four hidden layers in float64.
        """
        self.check_context_length(context_length)
        one = 4 * batch * length * self.dim
        streams, places = (self.order + 1) * one, 8 * length
        filters = 4 * length * self.order * self.dim
        last = streams + filters + places + (one if self.order > 1 else 0)
        network = streams + 2 * places + 4 * 8 * length * self.filters.width
        long = long_convolution_bytes(length, self.dim, batch)
        return float(max(last + long, 3 * streams, network))

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the width of the filter network."""
        return {"k": self.filters.width}

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute the sums over the real tokens so far, separately for each direction."""
        length, half = len(x), self.dim // self.num_directions
        filters = torch.stack([self.filters.at(place) for place in range(length)])
        filters = filters.reshape(length, self.order, self.dim)
        columns = []
        for i in range(self.num_directions):
            order = list(range(length)) if i == 0 else list(range(length - 1, -1, -1))
            channels = slice(i * half, (i + 1) * half)
            streams = (x @ self.streams.weight.T)[order]
            real = [t for t, place in enumerate(order) if place in seen]
            read = self._one_direction(streams, real, filters, channels)
            columns.append(read[order])
        return torch.cat(columns, dim=1) @ self.output.weight.T

    def _one_direction(
        self, streams: Tensor, real: list[int], filters: Tensor, channels: slice
    ) -> Tensor:
        """Return z `[time, channels]` of streams `[time, (order + 1) dim]` in reading order."""
        mixed = torch.stack([self.conv.at(streams, t) for t in range(len(streams))])
        z, *gates = (stream[:, channels] for stream in mixed.chunk(self.order + 1, dim=1))
        for i, gate in enumerate(gates):
            rows = []
            for t in range(len(streams)):
                past = [s for s in real if s <= t]
                lags = [t - s for s in past]
                total = (filters[lags, i, channels] * z[past]).sum(dim=0)
                rows.append(gate[t] * (total + self.skip[i, channels] * z[t]))
            z = torch.stack(rows)
        return z
