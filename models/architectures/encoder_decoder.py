"""The base of models that read a source and write a target, token by token."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from bakeoff.models.architecture import Architecture
from bakeoff.models.errors import ModelError
from bakeoff.models.interface import Answer, InputKind


class EncoderDecoder(Architecture):
    """A model of a source and a target; a subclass defines `encode`, `decoded` and `step`."""

    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        "inputs": ("tokens",),
        "context": ("tokens",),
    }
    answers: ClassVar[tuple[Answer, ...]] = ("sequence",)

    def forward(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the logits of the token after each target token, `[batch, time, output_size]`.

        Args:
            inputs: The target, `[batch, time]`, which begins with a start symbol.
            mask: `[batch, time]`, True at real tokens, or None if all are real.
            context: The source, `[batch, time2]`.
            context_mask: `[batch, time2]`, True at real tokens, or None if all are real.

        Raises:
            ModelError: There is no source.
        """
        return self.decoded(inputs, mask, self.source_of(context), context_mask)

    @abstractmethod
    def decoded(
        self, inputs: Tensor, mask: Tensor | None, context: Tensor, context_mask: Tensor | None
    ) -> Tensor:
        """Return the logits; the arguments are those of `forward`, with a source."""

    def source_of(self, context: Tensor | None) -> Tensor:
        """Return the source.

        Raises:
            ModelError: There is none.
        """
        if context is None:
            raise ModelError(f"{self.name} needs a context: the source")
        return context

    def initial_state(self, batch: int, encoded: Any) -> Any:
        """Return the state before the first token of each target; by default the encoded source.

        Args:
            batch: Number of sequences.
            encoded: Their sources, from `encode`.
        """
        return encoded

    @property
    def longest_source(self) -> int:
        """The length of the longest encoded source."""
        return self.spec.others["context"].length

    def source_length(self, context_length: int | None) -> int:
        """Return the length of the source, which is the longest unless one is given."""
        return self.longest_source if context_length is None else context_length
