"""Retention: linear attention with rotary positions and a fixed decay for each head.

Paper: Sun et al. 2023, "Retentive Network: A Successor to Transformer for Large Language Models"
    (arXiv:2307.08621), RetNet, equations 5 to 8.
Equation: S_t = g_h S_{t-1} + k_t v_t', o_t = S_t' q_t d^-1/2, for head h = 0, 1, .. with
    g_h = 1 - 2^-(5+h); queries and keys are rotated by their position as in RoPE, pair i by the
    angle t 10000^(-2i/d); values have twice the width; the output is W (norm(o) * silu(G x)).
Cost: n d^2 / heads; one sequential operation, since a decayed sum is limited only by its depth; any
    two positions are one step apart.
Departures: the norm divides by the root mean square, as in the authors' later code, where the paper
    writes GroupNorm; heads share a gain. A direction that reads from the end counts positions from
    the end, and each direction has decays from 1 - 2^-5 upwards.
Padding: a padded token writes nothing, causes no decay, and has no position.
Fast form: `kernels.state_chunks.chunked`; `step` holds S and the number of tokens so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.matrix_state_mixer import Decays, Gates, MatrixStateMixer
from bakeoff.models.kernels.state_direction import Direction
from bakeoff.models.mixer import State

_BASE = 10000.0


class TurningDirection(Direction):
    """Direction that rotates queries and keys by their position."""

    def places(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Return the position of each token among the real ones, from 0: `[batch, time]`."""
        if real is None:
            return torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        return real.long().cumsum(dim=1) - 1

    def streams(self, x: Tensor, mixed: Tensor, places: Tensor | None) -> Streams:
        """Return the inputs of the recurrence; queries and keys are rotated if `rotary` is set."""
        s = super().streams(x, mixed, places)
        if places is None or not self.config.rotary:
            return s
        angles = self.angles(places.unsqueeze(-1).to(s.keys.dtype)).unsqueeze(1)
        return Streams(
            queries=_turned(s.queries, angles),
            keys=_turned(s.keys, angles),
            values=s.values,
            log_decay=s.log_decay,
            strength=s.strength,
        )

    def angles(self, place: Tensor) -> Tensor:
        """Return the angles `[..., pairs]` of positions `[..., 1]`."""
        first = torch.arange(0, self.key_width, 2, device=place.device, dtype=place.dtype)
        return place * _BASE ** (-first / self.key_width)

    def token(self, x: Tensor, t: int, place: int) -> dict[str, Tensor]:
        """Return the inputs of the recurrence for one token; see `Direction.token`.

        Each pair (a, b) is rotated as a complex number, multiplied by exp(i angle).
        """
        read = super().token(x, t, place)
        if self.config.rotary:
            read |= {key: self._turned_one(read[key], place) for key in ("queries", "keys")}
        return read

    def _turned_one(self, heads: Tensor, place: int) -> Tensor:
        """Return `[heads, width]` rotated pair by pair."""
        pairs = torch.view_as_complex(heads.double().reshape(self.heads, -1, 2))
        which = torch.arange(self.key_width // 2, dtype=torch.float64)
        angles = place * _BASE ** (-2 * which / self.key_width)
        turned = pairs * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(turned).flatten(-2).to(heads.dtype)

    def initial_state(self, batch: int) -> State:
        """Return the matrix, the state of any convolution, and the token count `[batch]`."""
        matrix, *rest = super().initial_state(batch)
        return (matrix, *rest, matrix.new_zeros(batch))

    def place_of_step(self, rest: list[Tensor]) -> Tensor:
        """Return the position of this token, and increment the count."""
        place = rest[-1]
        rest[-1] = place + 1
        return place.unsqueeze(1)

    def state_numbers(self) -> int:
        """Return the number of state values, the token count included."""
        return super().state_numbers() + 1


class Retention(MatrixStateMixer):
    """Linear attention with a fixed decay per head and rotary keys; see the module docstring."""

    name = "retention"
    paper = "Sun et al. 2023, arXiv:2307.08621"
    direction = TurningDirection

    @dataclass(frozen=True, kw_only=True)
    class Config(MatrixStateMixer.Config):
        """Knobs of retention, and those of every mixer with a matrix state.

        Attributes:
            rotary: Whether queries and keys are rotated by their position; requires an even width
                of keys per head.
        """

        value_ratio: float = 2.0
        decay: Decays = "fixed"
        output_gate: Gates = "silu"
        rotary: bool = True

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if keys of odd width are to be rotated."""
        super().check_config(config, dim=dim)
        width = int(config.key_ratio * dim / config.heads)
        if config.rotary and width % 2 != 0:
            raise ModelError(f"{cls.name}: rotary=True turns pairs, and keys have width {width}")


def _turned(heads: Tensor, angles: Tensor) -> Tensor:
    """Return heads `[batch, heads, time, width]` rotated by angles `[batch, 1, time, width / 2]`.

    Neighbouring channels form a pair.
    """
    a, b = heads[..., ::2], heads[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
