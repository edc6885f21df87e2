"""Define the contract of an architecture: a whole model, built from a `ModelSpec`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from models.errors import ModelError
from models.initialisation import Initialisation, PartSeeds, redraw
from models.model_spec import InputKind, ModelSpec, config_from_knobs
from models.sublayers import StackConfig, check_stack

_SIZES = ("dim", "depth", "length", "input_size", "output_size")


class Architecture(nn.Module, ABC):
    """A whole model around a mixer, built from a `ModelSpec`.

    Attributes:
        version: Goes up whenever a change to it, or to what it shares, moves a number.
        name: Its key in `models.ARCHITECTURES`.
        is_causal: Whether its mixers are built causal.
        input_kinds: What it can read.
        spec: What it was built from.
        config: Its knobs, defaults filled in.
    """

    version: ClassVar[int] = 1
    name: ClassVar[str]
    is_causal: ClassVar[bool]
    input_kinds: ClassVar[tuple[InputKind, ...]]

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Knobs of every architecture; some add knobs of their own.

        Attributes:
            initialisation: Of all linear maps; see `models.initialisation`.
            position_mode: How an absolute position p meets its token x: `added`, or
                `concatenated`, a linear map of [x; p] back to dim, of which adding is the case of
                two identity blocks.
        """

        initialisation: Initialisation = "scaled_normal"
        position_mode: Literal["added", "concatenated"] = "added"

    def __init__(self, spec: ModelSpec) -> None:
        if spec.input_kind not in self.input_kinds:
            takes = " or ".join(self.input_kinds)
            raise ModelError(f"{self.name} takes {takes}, not input_kind={spec.input_kind!r}")
        for key in _SIZES:
            value = getattr(spec, key)
            if type(value) is not int or value < 1:
                raise ModelError(f"{key}={value!r} is not a whole number of at least 1")
        config = config_from_knobs(self.Config, spec.settings, owner=self.name)
        self.check_config(config)
        super().__init__()
        self.spec = spec
        self.config = config
        seeds = PartSeeds()
        self.build(seeds)
        self.redraw(seeds)

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Refuse a `Config` that no model can have.

        Raises:
            ModelError: as ``classifier: dropout=1.0 is not at least 0 and below 1``.
        """
        check_stack(config, owner=cls.name)

    def redraw(self, seeds: PartSeeds) -> None:
        """Draw the linear maps anew, by the initialisation that the config asks for."""
        redraw(self, self.config.initialisation, seeds)

    @abstractmethod
    def build(self, seeds: PartSeeds) -> None:
        """Make the parts, each from the stream of its name; called once, by the constructor.

        Raises:
            ModelError: the sizes, the mixer, the position or the knobs do not go together.
        """

    @abstractmethod
    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits.

        Args:
            inputs: `[batch, time]` integers, or `[batch, time, input_size]` floats; with an axis
                of two sequences after the batch where an architecture reads pairs.
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
        """Trainable numbers; what is tied or shared between layers counts once."""
        return sum(parameter.numel() for parameter in self.parameters())
