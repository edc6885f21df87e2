"""A question about an image in, one row of logits out: words look at the places of the picture.

Papers: Lu et al. 2019, "ViLBERT" (arXiv:1908.02265, section 3.1: the words' queries meet the keys
    and values of the image); Li et al. 2019, "VisualBERT" (arXiv:1908.03557, section 3.2: words and
    regions in one sequence).
Image: see `models.vision.image_encoder`. Words: embedding + position -> depth x block -> the mean
    over the words -> linear map. By `fusion`,

    cross           a block has a context mixer over the image beside its mixer over the words
    concatenation   blocks run over words and places in one sequence, the words first
    question        nothing of the image is read: what the question alone gives

Departures: the image's vectors come from an encoder that is trained with the rest; ViLBERT also
    lets the image read the words. Places and words share the position's table in `concatenation`,
    in which places stand behind the longest question.
Padding: padded words are hidden from every mixer that hides padding, and are no part of the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from models.architecture import StackArchitecture
from models.architectures.classifier import mean_of_real
from models.embedding import TokenEmbedding
from models.initialisation import PartSeeds, scaled_normal
from models.interface import Answer, InputKind
from models.mixer import Mixer
from models.model_spec import ModelSpec, config_from_knobs
from models.registry import construct_mixer, mixer_config
from models.stack import Trunk
from models.vision.image_encoder import (
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
        """Knobs, besides those of the stack and of the image's encoder.

        Attributes:
            fusion: How words and image meet; see the module's note.
        """

        fusion: Literal["cross", "concatenation", "question"] = "cross"

    @classmethod
    def check_config(cls, config: Any) -> None:
        """See `Architecture.check_config`."""
        super().check_config(config)
        check_image_encoder(config, cls.name)

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """See `Architecture.why_whole`."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        is_read = config.fusion != "question"
        return why_not_in_parts(config, num_parts) if is_read else ""

    @classmethod
    def mixers_of(cls, spec: ModelSpec) -> tuple[str, ...]:
        """See `Architecture.mixers_of`."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        looks = ("attention",) if config.fusion == "cross" else ()
        return (*super().mixers_of(spec), *looks)

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
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
        """What mixes the image into the words, once for each block."""
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
        """See `Architecture.source_grid`."""
        return self.encoder.grid if self.encoder else None

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor:
        """Logits of the answer, `[batch, output_size]`.

        Args:
            inputs: `[batch, time]`, the question.
            mask: `[batch, time]`, True where a real word stands; None where all are real.
            context: `[batch, rows, columns, channels]`, the image.
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
        """One sequence, in which places stand behind the longest question, whatever the batch."""
        missing = self.spec.length - words.shape[1]
        is_real = words.new_ones(words.shape[:2], dtype=torch.bool) if mask is None else mask
        seen = places.new_ones(places.shape[:2], dtype=torch.bool)
        is_all = mask is None and not missing
        filled = nn.functional.pad(words, (0, 0, 0, missing))
        both = torch.cat([nn.functional.pad(is_real, (0, missing)), seen], dim=1)
        joint: Tensor = self.trunk(torch.cat([filled, places], dim=1), None if is_all else both)
        return joint

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Image, words and head, whatever the number of pixels."""
        num_places = self.encoder.num_places if self.encoder else 0
        of_image = self.encoder.flops(batch) if self.encoder else 0.0
        head = 2.0 * batch * self.head.weight.numel()
        if self.config.fusion == "concatenation":
            return of_image + head + self.trunk.flops(self.spec.length + num_places, batch)
        source = num_places if self.config.fusion == "cross" else None
        return of_image + head + self.trunk.flops(length, batch, source)
