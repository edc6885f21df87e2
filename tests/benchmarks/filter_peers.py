"""Plain torch implementations of long convolutions as mixers, with that mixer's parameters.

They follow the public code of their authors without its custom kernels: a filter as long as the
sequence, and `torch.fft` over twice its length.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.benchmarks.torch_peers import Wrapped


def diagonal_states(ours: Any) -> nn.Module:
    """Build S4D with a plain Vandermonde product of complex numbers."""
    names = ("log_step", "log_decay", "frequency", "reading", "skip")
    given = nn.ParameterDict({name: getattr(ours, name).detach().clone() for name in names})

    def call(layers: Any, x: Tensor) -> Tensor:
        given, output = layers
        step, places = given["log_step"].exp(), torch.arange(x.shape[1], device=x.device)
        a = torch.complex(-given["log_decay"].exp(), given["frequency"])
        powers = torch.exp((a * step).unsqueeze(-1) * places)  # (dim, pairs, time)
        weights = torch.view_as_complex(given["reading"]) * (torch.exp(a * step) - 1) / a
        past, *future = 2 * torch.einsum("khn,hnl->khl", weights, powers).real
        filters = functional.pad(past, (0, x.shape[1]))
        for each in future:  # rotate the end, so that these filters reach backwards
            filters = filters + functional.pad(each.flip(-1), (x.shape[1], 0))
        u = x.transpose(1, 2)
        mixed = _convolved(u, filters) + given["skip"].unsqueeze(1) * u
        return functional.glu(output(functional.gelu(mixed).transpose(1, 2)), dim=-1)

    return Wrapped(nn.ModuleList([given, copy.deepcopy(ours.output)]), call)


class Filters(nn.Module):
    """Hyena's filters: a network of sines at each position, multiplied by windows."""

    def __init__(self, ours: Any) -> None:
        super().__init__()
        self.maps, self.last = copy.deepcopy(ours.maps), copy.deepcopy(ours.last)
        self.frequency = nn.Parameter(ours.frequency.detach().clone())
        places = torch.arange(ours.max_length).double().unsqueeze(1)
        part = places / (ours.max_length - 1)
        angles = 2 * math.pi * places / ours.max_length * torch.arange(ours.bands)
        self.register_buffer("features", torch.cat([part, angles.cos(), angles.sin()], dim=1))
        self.register_buffer("windows", torch.exp(-part * ours.rates) + ours.shift)

    def forward(self, length: int) -> Tensor:
        """Return the filters, `[filters * channels, length]`."""
        hidden = self.features[:length]
        for each in self.maps:
            hidden = torch.sin(self.frequency * each(hidden))
        filters = self.last(hidden).unflatten(1, (-1, self.windows.shape[1]))
        windowed: Tensor = (filters * self.windows[:length].unsqueeze(1)).flatten(1).T
        return windowed


def hyena(ours: Any) -> nn.Module:
    """Build gates and convolutions in turn; if not causal, half of the channels read backwards."""
    conv = nn.Conv1d(
        ours.conv.channels,
        ours.conv.channels,
        ours.conv.taps,
        groups=ours.conv.channels,
        padding=ours.conv.taps - 1,
    )
    conv.load_state_dict(ours.conv.conv.state_dict())
    skip = nn.ParameterList([ours.skip.detach().clone()])
    maps = (copy.deepcopy(ours.streams), conv, copy.deepcopy(ours.output))

    def turned(x: Tensor) -> Tensor:
        if ours.is_causal:
            return x
        first, second = x.unflatten(1, (-1, ours.dim)).chunk(2, dim=2)
        return torch.cat([first, second.flip(-1)], dim=2).flatten(1, 2)

    def call(layers: Any, x: Tensor) -> Tensor:
        streams, conv, output, (skip,), filters = layers
        length = x.shape[1]
        mixed = conv(turned(streams(x).transpose(1, 2)))[..., :length]
        z, *gates = mixed.chunk(ours.order + 1, dim=1)
        of_each = filters(length).unflatten(0, (ours.order, -1))
        for gate, each, at_once in zip(gates, of_each, skip.unsqueeze(-1), strict=True):
            z = gate * (_convolved(z, functional.pad(each, (0, length))) + at_once * z)
        mapped: Tensor = output(turned(z).transpose(1, 2))
        return mapped

    return Wrapped(nn.ModuleList([*maps, skip, Filters(ours.filters)]), call)


def _convolved(x: Tensor, filters: Tensor) -> Tensor:
    """Convolve `[batch, dim, time]` with filters `[dim, 2 time]`."""
    product = torch.fft.rfft(x, n=filters.shape[-1]) * torch.fft.rfft(filters)
    return torch.fft.irfft(product, n=filters.shape[-1])[..., : x.shape[-1]]
