"""Mamba-2: a selective state space model with one scalar decay per head and token.

Paper: Dao and Gu 2024, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through
    Structured State Space Duality" (arXiv:2405.21060), sections 6 and 7.
Equation: S_t = exp(-exp(A) s_t) S_{t-1} + s_t B_t x_t', y_t = S_t' C_t + D x_t, for each head, with
    s_t = softplus(w u_t + d) for the token u_t; all heads share B and C; x, B and C pass through a
    convolution with 4 taps and SiLU; the output is W RMSNorm(y * silu(G u)) over all heads.
Cost: n d times the state; one sequential operation, since a decayed sum is limited only by its
    depth; any two positions are one step apart.
Departures: there are separate projections, where the authors have a single one, which is the same
    function. exp(A) starts uniform in 1 to 16, D at 1, and steps log-uniform in .001 to .1, as in
    the authors' code.
Padding: a padded token writes nothing, causes no decay, and enters the convolution as a zero.
Fast form: `kernels.state_chunks.chunked`; `step` holds S and three tokens of the convolution.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.initialisation import linear_map
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.matrix_state_mixer import MatrixStateMixer
from bakeoff.models.kernels.short_conv import ShortConvolution
from bakeoff.models.kernels.softmax_attention import merge_heads, split_heads
from bakeoff.models.kernels.state_decay import HeadDecay
from bakeoff.models.kernels.state_direction import LEAST_SQUARE, Direction
from bakeoff.models.kernels.state_kernels import StateKernel
from bakeoff.models.kernels.unit_length import unit_mean_square


class StateSpace(Direction):
    """Direction with keys B and queries C shared by all heads; steps give decay and strength."""

    def channel_widths(self) -> tuple[int, int, int]:
        """Return the widths of C, B and x."""
        return self.key_width, self.key_width, self.values

    def make_conv(self) -> ShortConvolution | None:
        """Create the short convolution, with a bias, or None without taps."""
        taps = self.config.short_conv
        return ShortConvolution(self.channels, taps, has_bias=True) if taps else None

    def make_rates(self) -> None:
        """Create the projection to the steps."""
        self.decay: HeadDecay = HeadDecay(self.dim, self.heads, self.key_width, slowest=1.0)

    def make_read_out(self) -> None:
        """Create the skip weight, the gain and the gate."""
        self.skip = nn.Parameter(torch.ones(self.heads)) if self.config.skip else None
        self.gain = nn.Parameter(torch.ones(self.values))
        self.let_through = linear_map(self.dim, self.values)

    def streams(self, x: Tensor, mixed: Tensor, places: Tensor | None) -> Streams:
        """Return the inputs of the recurrence; see `Direction.streams`."""
        wide = torch.promote_types(mixed.dtype, torch.float32)
        parts = torch.split(functional.silu(mixed.to(wide)), list(self.channel_widths()), dim=-1)
        queries, keys = (part.unsqueeze(1) for part in parts[:2])
        steps = self.decay.steps(x)
        return Streams(
            queries=queries,
            keys=keys,
            values=split_heads(parts[2], self.heads),
            log_decay=self.decay.of_steps(steps),
            strength=steps,
        )

    def read_out(self, x: Tensor, read: Tensor, values: Tensor) -> Tensor:
        """Return the output, gated before it is normalised; see `Direction.read_out`."""
        if self.skip is not None:
            read = read + self.skip.to(read.dtype).reshape(-1, 1, 1) * values
        merged = merge_heads(read)
        gated = merged * functional.silu(self.let_through(x).to(merged.dtype))
        normed = unit_mean_square(gated, LEAST_SQUARE)
        return (normed * self.gain.to(merged.dtype)).to(x.dtype)

    def token(self, x: Tensor, t: int, place: int) -> dict[str, Tensor]:
        """Return the inputs of the recurrence for token t; see `Direction.token`."""
        mixed = x @ self.mixed.weight.T
        channels = mixed[t] if self.conv is None else self.conv.at(mixed, t)
        channels = channels / (1 + torch.exp(-channels))
        queries, keys, values = torch.split(channels, list(self.channel_widths()))
        return {
            "queries": torch.stack([queries] * self.heads),
            "keys": torch.stack([keys] * self.heads),
            "values": values.reshape(self.heads, -1),
            "log_decay": self.decay.of_token(x[t]),
            "strength": self.decay.steps_of_token(x[t]),
        }

    def read_one(self, x: Tensor, read: Tensor, values: Tensor) -> Tensor:
        """Return the gated and normalised output of one token; see `Direction.read_one`."""
        if self.skip is not None:
            read = torch.stack([y + d * v for y, d, v in zip(read, self.skip, values, strict=True)])
        gates = self.let_through.weight @ x
        gated = read.flatten() * gates / (1 + torch.exp(-gates))
        return gated / (gated.pow(2).mean() + LEAST_SQUARE).sqrt() * self.gain

    def key_heads(self) -> int:
        """Return 1, since all heads share B and C."""
        return 1

    def multiplications(self) -> int:
        """Return the multiplications per token: maps of x, B, C, gate and step, and convolution."""
        conv = 0 if self.conv is None else self.conv.taps * self.channels
        return self.dim * (self.channels + self.values + self.heads) + conv


class Mamba2(MatrixStateMixer):
    """State space model with `state` numbers per channel; see the module docstring."""

    name = "mamba2"
    paper = "Dao and Gu 2024, arXiv:2405.21060"
    direction = StateSpace
    positive_knobs: ClassVar[tuple[str, ...]] = ("heads", "state", "chunk")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of Mamba-2.

        Attributes:
            heads: Number of heads, over both directions.
            state: Number of state values per channel, the width of B and C.
            value_ratio: Width of x over all heads, as a multiple of dim.
            short_conv: Number of taps of a causal convolution over x, B and C, at least 2; 0 for
                none.
            skip: Whether D x is added to the output.
            chunk: Number of tokens per chunk.
            state_kernel: ``torch`` (in chunks), ``fla`` (flash-linear-attention, on a GPU in
                bf16), or ``auto``: ``fla`` where it can be used and agrees with ``torch``.
        """

        heads: int = 4
        state: int = 128
        value_ratio: float = 2.0
        short_conv: int = 4
        skip: bool = True
        chunk: int = field(default=64, metadata={"cost_only": True})
        state_kernel: StateKernel = field(
            default="auto", metadata={"cost_only": True, "is_late": True}
        )

    def head_widths(self, config: Any) -> tuple[int, int]:
        """Return the width of B and C, and the width of x in one head."""
        return config.state, int(config.value_ratio * self.dim / config.heads)
