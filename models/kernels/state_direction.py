"""Reading of a sequence into a matrix state, from left to right; a mixer has one or two readings.

Queries, keys and values come from one linear map, followed by a short convolution, a SiLU, and
norms of queries and keys, each if configured. The output of each head is divided by its root mean
square, scaled by a gain, and multiplied by a gate. A padded token writes nothing and causes no
decay, but enters a short convolution as a zero.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.initialisation import linear_map
from bakeoff.models.kernels.half_products import Product
from bakeoff.models.kernels.matrix_state import Streams, empty_state, one_step, recurrent
from bakeoff.models.kernels.short_conv import ShortConvolution
from bakeoff.models.kernels.softmax_attention import merge_heads, split_heads
from bakeoff.models.kernels.state_chunks import ChunkShape, chunked
from bakeoff.models.kernels.state_decay import DECAYS, Decay
from bakeoff.models.kernels.state_kernels import read_state
from bakeoff.models.kernels.state_reading import StateReading
from bakeoff.models.kernels.unit_length import unit_length, unit_mean_square
from bakeoff.models.mixer import State

_LEAST_NORM, LEAST_SQUARE = 1e-6, 1e-5


class Direction(StateReading):
    """A reading whose streams come from linear maps, a short convolution and rates."""

    def __init__(
        self, *, dim: int, heads: int, key_width: int, value_width: int, config: Any
    ) -> None:
        super().__init__(
            dim=dim, heads=heads, key_width=key_width, value_width=value_width, config=config
        )
        self.has_delta: bool = getattr(config, "delta", False)
        # Writes of many more tokens than key channels cancel each other, which loses digits.
        longest = 2 * key_width if self.has_delta else config.chunk
        self.chunk: int = min(config.chunk, longest)
        self.channels = sum(self.channel_widths())
        self.mixed = linear_map(dim, self.channels)
        self.conv = self.make_conv()
        self.make_rates()
        self.make_read_out()

    def channel_widths(self) -> tuple[int, int, int]:
        """Return the widths of queries, keys and values, in the order of concatenation."""
        return self.keys, self.keys, self.values

    def make_conv(self) -> ShortConvolution | None:
        """Return one convolution over queries, keys and values, or None."""
        taps = self.config.short_conv
        return ShortConvolution(self.channels, taps, has_bias=False) if taps else None

    def make_rates(self) -> None:
        """Create the parameters of decay and strength."""
        kind = self.config.decay
        self.decay: Decay | None = None
        if kind != "none":
            self.decay = DECAYS[kind](self.dim, self.heads, self.key_width)
        has_strength = self.config.strength != "one"
        self.strength = linear_map(self.dim, self.heads) if has_strength else None

    def make_read_out(self) -> None:
        """Create the parameters of gain and gate."""
        self.gain = nn.Parameter(torch.ones(self.value_width))
        maps = {
            "none": [],
            "silu": [(self.dim, self.values)],
            "sigmoid": [(self.dim, self.value_width), (self.value_width, self.values)],
        }[self.config.output_gate]
        self.gate = nn.Sequential(*(linear_map(*sizes) for sizes in maps)) if maps else None

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Read a sequence `[batch, time, dim]` in chunks."""
        mapped = self.mixed(x)
        mixed = mapped if self.conv is None else self.conv(mapped)
        with torch.autocast(x.device.type, enabled=False):
            streams = self.streams(x, mixed, self.places(x, real))
            if real is not None:
                streams = _without(streams, ~real[:, None, :, None])
            read = read_state(
                streams,
                self.by_torch,
                has_delta=self.has_delta,
                kernel=self.config.state_kernel,
                dtype=mapped.dtype,
            )
            return self.read_out(x, read, streams.values)

    def by_torch(self, streams: Streams, product: Product) -> Tensor:
        """Compute the recurrence in chunks, in torch."""
        return chunked(streams, has_delta=self.has_delta, size=self.chunk, product=product)

    def initial_state(self, batch: int) -> State:
        """Return the matrix, `[batch, heads, key_width, value_width]`, and the last tokens."""
        matrix = empty_state(
            batch, self.heads, self.key_width, like=self.mixed.weight, value_width=self.value_width
        )
        return (matrix,) if self.conv is None else (matrix, self.conv.initial_state(batch))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one token, `[batch, 1, dim]`."""
        matrix, *rest = state
        mixed = self.mixed(x)
        if self.conv is not None:
            mixed, rest[0] = self.conv.step(mixed, rest[0])
        with torch.autocast(x.device.type, enabled=False):
            streams = self.streams(x, mixed, self.place_of_step(rest))
            read, matrix = one_step(streams, matrix, has_delta=self.has_delta)
            return self.read_out(x, read, streams.values), (matrix, *rest)

    def places(self, x: Tensor, real: Tensor | None) -> Tensor | None:
        """Return the positions `[batch, time]` for readings that rotate queries and keys."""
        return None

    def place_of_step(self, rest: list[Tensor]) -> Tensor | None:
        """Return the position of one step; may advance `rest`, the state besides the matrix."""
        return None

    def streams(self, x: Tensor, mixed: Tensor, places: Tensor | None) -> Streams:
        """Return the inputs of the recurrence from outputs of the maps, at least in float32."""
        mixed = mixed.to(torch.promote_types(mixed.dtype, torch.float32))
        if self.config.feature_map == "silu":
            mixed = functional.silu(mixed)
        parts = torch.split(mixed, list(self.channel_widths()), dim=-1)
        queries, keys, values = (split_heads(part, self.heads) for part in parts)
        queries, keys = self.to_length_one(queries), self.to_length_one(keys)
        log_decay, strength = self.rates(x)
        return Streams(
            queries=queries * self.key_width**-0.5,
            keys=keys,
            values=values,
            log_decay=log_decay,
            strength=strength,
        )

    def to_length_one(self, heads: Tensor) -> Tensor:
        """Normalise queries or keys by the knob `qk_norm`."""
        if self.config.qk_norm == "l1":
            return heads / (heads.abs().sum(dim=-1, keepdim=True) + _LEAST_NORM)
        if self.config.qk_norm == "l2":
            return unit_length(heads, _LEAST_NORM)
        return heads

    def rates(self, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the log decay and the strength of each token."""
        log_decay = None if self.decay is None else self.decay(x)
        if self.strength is None:
            return log_decay, None
        mapped = self.strength(x)
        strength = mapped.to(torch.promote_types(mapped.dtype, torch.float32)).sigmoid()
        return log_decay, split_heads(self.most() * strength, self.heads)

    def most(self) -> float:
        """Return the upper bound of the strength."""
        return 2.0 if self.config.strength == "double" else 1.0

    def read_out(self, x: Tensor, read: Tensor, values: Tensor) -> Tensor:
        """Normalise and gate the output of the recurrence, in the dtype of `x`."""
        normed = unit_mean_square(read, LEAST_SQUARE)
        merged = merge_heads(normed * self.gain.to(read.dtype))
        if self.gate is not None:
            let = functional.silu if self.config.output_gate == "silu" else torch.sigmoid
            merged = merged * let(self.gate(x).to(merged.dtype))
        return merged.to(x.dtype)

    def reference(self, x: Tensor, seen: list[int]) -> Tensor:
        """Compute the definition, one token at a time, for references."""
        outputs = [x.new_zeros(self.values)] * len(x)
        if seen:
            tokens = [self.token(x, t, place) for place, t in enumerate(seen)]
            parts = {key: _side_by_side([one[key] for one in tokens]) for key in tokens[0]}
            read = recurrent(Streams(**parts), has_delta=self.has_delta)[0].unbind(dim=1)
            for t, one, values in zip(seen, read, parts["values"][0].unbind(dim=1), strict=True):
                outputs[t] = self.read_one(x[t], one, values)
        return torch.stack(outputs)

    def token(self, x: Tensor, t: int, place: int) -> dict[str, Tensor]:
        """Return the inputs of the recurrence for token t, the real token number `place`."""
        mixed = x @ self.mixed.weight.T
        channels = mixed[t] if self.conv is None else self.conv.at(mixed, t)
        if self.config.feature_map == "silu":
            channels = channels / (1 + torch.exp(-channels))
        parts = torch.split(channels, list(self.channel_widths()))
        queries, keys, values = (part.reshape(self.heads, -1) for part in parts)
        if self.config.qk_norm != "none":
            queries, keys = (
                torch.stack([self.one_norm(head) for head in heads]) for heads in (queries, keys)
            )
        read = {"queries": queries / self.key_width**0.5, "keys": keys, "values": values}
        return read | self.rates_of(x[t])

    def one_norm(self, head: Tensor) -> Tensor:
        """Compute `to_length_one` of one vector, for the reference."""
        if self.config.qk_norm == "l1":
            return head / (head.abs().sum() + _LEAST_NORM)
        return head / (head @ head + _LEAST_NORM).sqrt()

    def rates_of(self, x: Tensor) -> dict[str, Tensor]:
        """Return log decay and strength of one token `[dim]`, if any, as `[heads, width]`."""
        rates = {} if self.decay is None else {"log_decay": self.decay.of_token(x)}
        if self.strength is not None:
            mapped = self.strength.weight @ x
            rates["strength"] = (self.most() / (1 + torch.exp(-mapped))).unsqueeze(1)
        return rates

    def read_one(self, x: Tensor, read: Tensor, values: Tensor) -> Tensor:
        """Normalise and gate the output `[heads, value_width]` of one token `[dim]`."""
        normed = [head / (head.pow(2).mean() + LEAST_SQUARE).sqrt() for head in read]
        out = torch.cat([head * self.gain for head in normed])
        if self.gate is None:
            return out
        for weight in self.gate.parameters():
            x = weight @ x
        gates = 1 / (1 + torch.exp(-x))
        return out * (x * gates if self.config.output_gate == "silu" else gates)

    def state_numbers(self) -> int:
        """Return the number of values in the state of one sequence."""
        last = 0 if self.conv is None else (self.conv.taps - 1) * self.channels
        return self.keys * self.value_width + last

    def multiplications(self) -> int:
        """Return the multiplications per token in linear maps and in the convolution."""
        total = self.dim * self.channels
        total += 0 if self.conv is None else self.conv.taps * self.channels
        total += 0 if self.decay is None else self.decay.multiplications()
        total += 0 if self.strength is None else self.dim * self.heads
        return total + self.gate_parameters()

    def gate_parameters(self) -> int:
        """Return the number of parameters of the gate's maps."""
        low = self.value_width * (self.dim + self.values)
        return {"none": 0, "silu": self.dim * self.values, "sigmoid": low}[self.config.output_gate]

    def flops(self, length: int) -> int:
        """Return the FLOPs of one sequence: maps, and the recurrence in chunks."""
        chunks = ChunkShape(
            heads=self.heads,
            key_heads=self.key_heads(),
            key_width=self.key_width,
            value_width=self.value_width,
            has_delta=self.has_delta,
            is_by_channel=self.decay is not None and self.decay.width() > 1,
            size=self.chunk,
        )
        return 2 * length * self.multiplications() + chunks.flops(length)

    def key_heads(self) -> int:
        """Return the number of heads of queries and keys."""
        return self.heads


def _without(streams: Streams, padded: Tensor) -> Streams:
    """Return the streams such that padded tokens write nothing and cause no decay."""
    log_decay = streams.log_decay
    return Streams(
        queries=streams.queries,
        keys=streams.keys.masked_fill(padded, 0.0),
        values=streams.values,
        log_decay=None if log_decay is None else log_decay.masked_fill(padded, 0.0),
        strength=streams.strength,
    )


def _side_by_side(tokens: list[Tensor]) -> Tensor:
    """Stack tokens `[heads, width]` to `[1, heads, time, width]`."""
    return torch.stack(tokens, dim=1).unsqueeze(0)
