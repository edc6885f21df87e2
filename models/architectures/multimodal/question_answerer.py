"""A question about an image in, one row of logits out: words attend to positions of the image.

Papers: Lu et al. 2019, "ViLBERT" (arXiv:1908.02265, section 3.1: queries of the words with keys
    and values of the image); Li et al. 2019, "VisualBERT" (arXiv:1908.03557, section 3.2: words and
    regions in one sequence).
Image: see `bakeoff.models.vision.image_encoder`. Words: embedding + position -> depth x block ->
    the mean over the words -> linear map. The values of `fusion` are

    cross           a block has a context mixer over the image after its mixer over the words
    concatenation   blocks run over words and image positions in one sequence, the words first
    question        the image is not read: a baseline that answers from the question alone

Departures: the image's vectors come from an encoder that is trained with the rest; ViLBERT also
    lets the image attend to the words. In `concatenation`, image positions and words share one
    table of positions, and the image follows the longest question.
Padding: padded words are hidden from every mixer that hides padding, and are left out of the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.architectures.classifier import mean_of_real
from bakeoff.models.embedding import TokenEmbedding
from bakeoff.models.initialisation import PartSeeds, scaled_normal
from bakeoff.models.interface import Answer, InputKind
from bakeoff.models.mixer import Mixer
from bakeoff.models.model_spec import ModelSpec, config_from_knobs
from bakeoff.models.registry import construct_mixer, mixer_config
from bakeoff.models.stack import Trunk
from bakeoff.models.vision.image_encoder import (
    ImageEncoder,
    ImageEncoderConfig,
    check_image_encoder,
    why_not_in_parts,
)


class QuestionAnswerer(StackArchitecture):
    """Words `[batch, time]` and an image -> `[batch, output_size]`."""

    name = "question_answerer"
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        "inputs": ("tokens",),
        "context": ("image",),
    }
    answers: ClassVar[tuple[Answer, ...]] = ("class",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(ImageEncoderConfig, StackArchitecture.Config):
        """Knobs, in addition to those of the stack and of the image's encoder.

        Attributes:
            fusion: How words and image are combined; see the module's note.
        """

        fusion: Literal["cross", "concatenation", "question"] = "cross"

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        check_image_encoder(config, cls.name)

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Return why a training step cannot be divided; empty if it can."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        is_read = config.fusion != "question"
        return why_not_in_parts(config, num_parts) if is_read else ""

    @classmethod
    def mixers_of(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return the names of all mixers of the model."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        looks = ("attention",) if config.fusion == "cross" else ()
        return (*super().mixers_of(spec), *looks)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec, image = self.spec, self.spec.others["context"]
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim)
        self.encoder: ImageEncoder | None = None
        if self.config.fusion != "question":
            self.encoder = ImageEncoder(spec, image, self.config, seeds.within("encoder"))
        num_places = self.encoder.num_places if self.encoder else 0
        is_joint = self.config.fusion == "concatenation"
        self.trunk = Trunk(
            replace(spec, length=spec.length + num_places) if is_joint else spec,
            self.config,
            seeds,
            is_causal=False,
            context_mixer=self._build_look if self.config.fusion == "cross" else None,
        )
        with seeds.part("head"):
            self.head = nn.Linear(spec.dim, spec.output_size)
            scaled_normal(self.head)

    def _build_look(self) -> Mixer:
        """Return a new context mixer over the image; each block calls this once."""
        assert self.encoder is not None, "called only where the image is read"
        dim = self.spec.dim
        return construct_mixer(
            "attention",
            dim=dim,
            max_length=max(self.spec.length, self.encoder.num_places),
            is_causal=False,
            config=mixer_config("attention", dim=dim, knobs={}),
            position=None,
        )

    def source_grid(self) -> tuple[int, int] | None:
        """Return the rows and columns of the encoded image, or None if it is not read."""
        return self.encoder.grid if self.encoder else None

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor:
        """Return the logits of the answer, `[batch, output_size]`.

        Args:
            inputs: The question, `[batch, time]`.
            mask: `[batch, time]`, True at real words, or None if all are real.
            context: The image, `[batch, rows, columns, channels]`.
        """
        words, time = self.embedding(inputs, mask), inputs.shape[1]
        if self.encoder is None:
            read = self.trunk(words, mask)
        elif self.config.fusion == "cross":
            read = self.trunk(words, mask, self.encoder(context))
        else:
            read = self._joint(words, mask, self.encoder(context))[:, :time]
        logits: Tensor = self.head(mean_of_real(read, mask))
        return logits

    def _joint(self, words: Tensor, mask: Tensor | None, places: Tensor) -> Tensor:
        """Return the trunk's output for words and image in one sequence.

        Image positions always follow the longest question, so that they do not depend on the batch.
        """
        missing = self.spec.length - words.shape[1]
        is_real = words.new_ones(words.shape[:2], dtype=torch.bool) if mask is None else mask
        seen = places.new_ones(places.shape[:2], dtype=torch.bool)
        is_all = mask is None and not missing
        filled = nn.functional.pad(words, (0, 0, 0, missing))
        both = torch.cat([nn.functional.pad(is_real, (0, missing)), seen], dim=1)
        joint: Tensor = self.trunk(torch.cat([filled, places], dim=1), None if is_all else both)
        return joint

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of image encoder, blocks and head at the model's image size."""
        num_places = self.encoder.num_places if self.encoder else 0
        of_image = self.encoder.flops(batch) if self.encoder else 0.0
        head = 2.0 * batch * self.head.weight.numel()
        if self.config.fusion == "concatenation":
            return of_image + head + self.trunk.flops(self.spec.length + num_places, batch)
        source = num_places if self.config.fusion == "cross" else None
        return of_image + head + self.trunk.flops(length, batch, source)
