"""What every skeleton promises: the part of a model that stays still while the mixer varies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from models.errors import ModelError
from models.model_spec import InputKind, ModelSpec

_SIZES = ("dim", "depth", "length", "input_size", "output_size")


class Skeleton(nn.Module, ABC):
    """A whole model around a mixer, built from a `ModelSpec`.

    Attributes:
        version: Goes up whenever a change to the skeleton, or to what it shares, moves a number.
        name: Its key in `models.SKELETONS`.
        is_causal: Whether its mixers are built causal.
        input_kinds: What it can read.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str]
    is_causal: ClassVar[bool]
    input_kinds: ClassVar[tuple[InputKind, ...]]

    def __init__(self, spec: ModelSpec) -> None:
        if spec.input_kind not in self.input_kinds:
            takes = " or ".join(self.input_kinds)
            raise ModelError(f"{self.name} takes {takes}, not input_kind={spec.input_kind!r}")
        for key in _SIZES:
            value = getattr(spec, key)
            if type(value) is not int or value < 1:
                raise ModelError(f"{key}={value!r} is not a whole number of at least 1")
        super().__init__()
        self.spec = spec

    @abstractmethod
    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits.

        Args:
            inputs: `[batch, time]` integers, or `[batch, time, input_size]` floats.
            mask: `[batch, time]`, True where a real token stands; None where all are real.
                What stands at padded positions is never read.
        """

    @abstractmethod
    def flops(self, length: int, batch: int = 1) -> float:
        """Forward FLOPs by formula, counted as in `Mixer.flops`; a table look-up is 0.

        Raises:
            ModelError: the mixer gives no formula.
        """

    def num_parameters(self) -> int:
        """Trainable numbers; a tied matrix counts once."""
        return sum(parameter.numel() for parameter in self.parameters())
