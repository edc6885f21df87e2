"""An image through a few tokens and back: the training of the tokenizer of `image_tokens`.

Papers: van den Oord et al. 2017 (VQ-VAE, arXiv:1711.00937) and the first training stage of Ramesh
    et al. 2021 (DALL-E, arXiv:2102.12092); `bakeoff.models.vision.image_tokenizer` has the
    equations and the departures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from bakeoff.models.architecture import Architecture
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import (
    IMAGE_TOKENS,
    INPUTS,
    PENALTY,
    Answer,
    Input,
    InputKind,
    Outputs,
)
from bakeoff.models.vision.image_tokenizer import (
    ImageTokenizer,
    ImageTokenizerConfig,
    check_image_tokenizer,
)


class DiscreteVae(Architecture):
    """`[batch, rows, columns, channels]` -> `[batch, rows, columns, output_size]`."""

    name = "discrete_vae"
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {INPUTS: ("image",)}
    answers: ClassVar[tuple[Answer, ...]] = ("image",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(ImageTokenizerConfig):
        """Knobs of the tokenizer."""

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        check_image_tokenizer(config, cls.name)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec = self.spec
        image = Input(kind="image", size=spec.input_size, length=spec.length, grid=spec.grid)
        self.tokenizer = ImageTokenizer(
            image, spec.output_size, self.config, seeds.within("tokenizer"), self.name
        )

    def forward(self, inputs: Tensor) -> Outputs:
        """Return the decoded images, their tokens, and the penalty added to the loss."""
        found = self.tokenizer(inputs)
        return Outputs(found.images, {IMAGE_TOKENS: found.tokens, PENALTY: found.penalty})

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of encoder and decoder at the model's image size."""
        return batch * self.tokenizer.flops()
