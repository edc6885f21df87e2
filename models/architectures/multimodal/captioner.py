"""A captioner: an image in, a sentence about it out, word by word, from a decoder with attention.

Papers: the decoder is that of Vaswani et al. 2017 (arXiv:1706.03762), as in `translator`, over the
    vectors of an image: patches of a vision transformer (Liu et al. 2021, "CPTR",
    arXiv:2101.10804; Li et al. 2021, "TrOCR", arXiv:2109.10282), or the positions of a
    convolutional map (Herdade et al. 2019, arXiv:1906.05963, baseline of section 4).
Encoder: see `bakeoff.models.vision.image_encoder`. Decoder: embedding + position -> depth x
    (causal mixer, context mixer over the image, feed-forward) -> logits.
Departures: the encoder is trained with the decoder, from random weights; norms come before
    sub-layers, and feed-forwards have GELU, as in ViT, while CPTR takes both from the translator.

Encoder and decoder take any mixer that fits: the encoder's is bidirectional, the decoder's causal.
See `show_attend_tell` for captioners with a recurrent decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from bakeoff.models.architectures.translator import Translator
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import InputKind
from bakeoff.models.model_spec import ModelSpec, config_from_knobs
from bakeoff.models.vision.image_encoder import (
    ImageEncoder,
    ImageEncoderConfig,
    check_image_encoder,
    why_not_in_parts,
)


class Captioner(Translator):
    """Words `[batch, time]` and an image -> logits `[batch, time, output_size]`."""

    name = "captioner"
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        "inputs": ("tokens",),
        "context": ("image",),
    }
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(ImageEncoderConfig, Translator.Config):
        """Knobs of a captioner, in addition to those of a translator and of the image's encoder.

        Attributes:
            norm_placement: See `StackConfig`.
            feed_forward: See `StackConfig`.
            tied: See `Translator.Config`; `all` is invalid, since an image has no vocabulary.
        """

        norm_placement: Literal["pre", "post", "res_post"] = "pre"
        feed_forward: Literal["gelu", "gelu_tanh", "relu", "glu", "swiglu", "none"] = "gelu"
        tied: Literal["all", "output", "none"] = "output"

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        check_image_encoder(config, cls.name)
        if config.tied == "all":
            raise ModelError(f"{cls.name}: tied='all' needs a source of words, not an image")

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Return why a training step cannot be divided; empty if it can."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        return why_not_in_parts(config, num_parts)

    def build_encoder(self, seeds: PartSeeds) -> None:
        """Build the encoder of the image."""
        image = self.spec.others["context"]
        self.encoder = ImageEncoder(self.spec, image, self.config, seeds.within("encoder"))

    @property
    def longest_source(self) -> int:
        """Number of positions of the encoded image."""
        num_places: int = self.encoder.num_places
        return num_places

    def source_grid(self) -> tuple[int, int]:
        """Return the rows and columns of the encoded image."""
        grid: tuple[int, int] = self.encoder.grid
        return grid

    def encoded(self, context: Tensor, context_mask: Tensor | None) -> Tensor:
        """Return the vectors of an image, `[batch, positions, dim]`."""
        assert context_mask is None, "an image has no padding"
        encoded: Tensor = self.encoder(context)
        return encoded

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of encoder, decoder and output matrix at the model's image size."""
        of_image: float = self.encoder.flops(batch)
        return of_image + self.flops_of_decoder(length, batch, self.longest_source)

    def state_bytes(self, length: int, context_length: int | None = None) -> int:
        """Return the bytes of the decoder's state, its prepared keys and values included."""
        return self.decoder.state_bytes(length, self.longest_source)
