"""What a mixer with a matrix state asks of one reading of a sequence, from left to right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from models.mixer import State


class StateReading(nn.Module, ABC):
    """Reads from left to right.

    Args:
        dim: Width of a token.
        heads: Of this reading.
        key_width: Of a head.
        value_width: Of a head.
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
        """Read.

        Args:
            x: `[batch, time, dim]`, zeros at padding.
            real: `[batch, time]`, True where a token is real; None where all are.

        Returns:
            `[batch, time, heads * value_width]`.
        """

    @abstractmethod
    def initial_state(self, batch: int) -> State:
        """The matrix, `[batch, heads, key_width, value_width]`, and the last tokens."""

    @abstractmethod
    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """One token, `[batch, 1, dim]`."""

    @abstractmethod
    def reference(self, x: Tensor, seen: list[int]) -> Tensor:
        """The definition, one token at a time: `[time, dim]` -> `[time, heads * value_width]`.

        Args:
            x: Zeros at padding.
            seen: Places of the real tokens, ascending.
        """

    @abstractmethod
    def state_numbers(self) -> int:
        """Numbers of the state of one sequence."""

    @abstractmethod
    def flops(self, length: int) -> int:
        """Of one sequence: maps, and the recurrence in chunks."""
