"""The interface of a reading: one pass over a sequence for a mixer with a matrix state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from bakeoff.models.mixer import State


class StateReading(nn.Module, ABC):
    """A module that reads a sequence from left to right.

    Args:
        dim: Width of a token.
        heads: Number of heads of this reading.
        key_width: Width of a head's keys.
        value_width: Width of a head's values.
        config: Knobs of the mixer.
    """

    def __init__(
        self, *, dim: int, heads: int, key_width: int, value_width: int, config: Any
    ) -> None:
        super().__init__()
        self.dim, self.heads, self.config = dim, heads, config
        self.key_width, self.value_width = key_width, value_width
        self.keys, self.values = heads * key_width, heads * value_width

    @abstractmethod
    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Read a sequence.

        Args:
            x: `[batch, time, dim]`, zeros at padding.
            real: `[batch, time]`, True for real tokens, or None if all are real.

        Returns:
            `[batch, time, heads * value_width]`.
        """

    @abstractmethod
    def initial_state(self, batch: int) -> State:
        """Return the matrix, `[batch, heads, key_width, value_width]`, and the last tokens."""

    @abstractmethod
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one token, `[batch, 1, dim]`."""

    @abstractmethod
    def reference(self, x: Tensor, seen: list[int]) -> Tensor:
        """Compute the definition token by token: `[time, dim]` -> `[time, heads * value_width]`.

        Args:
            x: `[time, dim]`, zeros at padding.
            seen: Indices of the real tokens, ascending.
        """

    @abstractmethod
    def state_numbers(self) -> int:
        """Return the number of values in the state of one sequence."""

    @abstractmethod
    def flops(self, length: int) -> int:
        """Return the FLOPs of one sequence: maps, and the recurrence in chunks."""
