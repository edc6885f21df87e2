"""Image and text encoders whose vectors are close for matching pairs (CLIP).

Paper: Radford et al. 2021, "Learning transferable visual models from natural language supervision"
    (arXiv:2103.00020, section 2.3 and Figure 3). There are two independent towers:

    u = image tower, mapped by a matrix and divided by its length
    v = text tower, causal, read at the symbol that ends the text, mapped and divided as u is
    logits = exp(t) u v'

    where t is learned and starts at ln(1 / 0.07). In training each text of a batch is a candidate
    for each image, and the loss is the mean of the cross-entropies over texts and over images; it
    is defined in `bakeoff.suite.tasks.emoji.emoji_pairs`.
Clamp: t is kept at ln(100) or below. The parameter itself is clamped before a training pass, hence
    after each update; a minimum in the formula would leave a larger t without a gradient.
Ending: the symbol that ends a text is its last real one. The paper's code takes the largest symbol
    of a text for it, which fails if another symbol has a larger number.
Departures: the vector of an image is the mean over its positions (see
    `bakeoff.models.vision.image_encoder`), not a class token, and there is no norm before the
    first block; linear maps are drawn by `initialisation`, whose default draws the two last maps
    as the paper does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import TokenEmbedding
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import IMAGE_VECTOR, SCALE, TEXT_VECTOR, Answer, InputKind, Outputs
from bakeoff.models.model_spec import ModelSpec, config_from_knobs
from bakeoff.models.stack import Trunk
from bakeoff.models.vision.image_encoder import (
    ImageEncoder,
    ImageEncoderConfig,
    check_image_encoder,
    why_not_in_parts,
)

LARGEST_SCALE = 100.0


class Contrastive(StackArchitecture):
    """Texts `[batch, candidates, time]` and an image for each row -> logits `[batch, candidates]`.

    The output also holds what a loss over the whole batch needs; see `bakeoff.models.interface`.
    """

    name = "contrastive"
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        "inputs": ("tokens",),
        "context": ("image",),
    }
    answers: ClassVar[tuple[Answer, ...]] = ("choice",)
    is_causal = True
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(ImageEncoderConfig, StackArchitecture.Config):
        """Knobs, in addition to those of the stack and of the image's encoder.

        Attributes:
            embedding_dim: Width of the vectors of images and texts, or None for the model's width.
            similarity_temperature: Initial divisor of the products.
            has_learned_temperature: Whether the temperature is learned or fixed.
        """

        embedding_dim: int | None = None
        similarity_temperature: float = 0.07
        has_learned_temperature: bool = True

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        check_image_encoder(config, cls.name)
        if config.embedding_dim is not None and config.embedding_dim < 1:
            raise ModelError(f"{cls.name}: embedding_dim={config.embedding_dim} is not at least 1")
        if not 1 / LARGEST_SCALE <= config.similarity_temperature <= LARGEST_SCALE:
            raise ModelError(
                f"{cls.name}: similarity_temperature={config.similarity_temperature} is not in "
                f"{1 / LARGEST_SCALE:g}..{LARGEST_SCALE:g}"
            )

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """Return why a training step cannot be divided; empty if it can."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        reason = super().why_whole(
            spec, num_parts=num_parts, are_parameters_divided=are_parameters_divided
        )
        return reason or why_not_in_parts(config, num_parts)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec, config = self.spec, self.config
        size = config.embedding_dim or spec.dim
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim)
        self.trunk = Trunk(spec, config, seeds, is_causal=True)
        self.encoder = ImageEncoder(spec, spec.others["context"], config, seeds.within("encoder"))
        with seeds.part("text_map"):
            self.text_map = nn.Linear(spec.dim, size, bias=False)
        with seeds.part("image_map"):
            self.image_map = nn.Linear(spec.dim, size, bias=False)
        log_scale = -math.log(config.similarity_temperature)
        start = torch.tensor([log_scale])  # 1-D: DeepSpeed rejects 0-D parameters
        self.log_scale: Tensor
        if config.has_learned_temperature:
            self.log_scale = nn.Parameter(start)
        else:
            self.register_buffer("log_scale", start)

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Outputs:
        """Return the logits of the candidates of each image, `[batch, candidates]`.

        Args:
            inputs: The texts, `[batch, candidates, time]`, each with its end symbol.
            mask: The same shape, True at real symbols, or None if all are real.
            context: The images, `[batch, rows, columns, channels]`.
        """
        is_real = None if mask is None else mask.flatten(0, 1)
        texts = self.text_vectors(inputs.flatten(0, 1), is_real)
        texts = texts.reshape(*inputs.shape[:2], texts.shape[-1])
        image = self.image_vectors(context)
        scale = self._scale()
        vectors = {IMAGE_VECTOR: image, TEXT_VECTOR: texts, SCALE: scale.expand(len(image))}
        return Outputs(scale * torch.einsum("bd,bcd->bc", image, texts), vectors)

    def text_vectors(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Return unit vectors `[texts, embedding_dim]`."""
        read: Tensor = self.trunk(self.embedding(tokens, mask), mask)
        last = tokens.shape[1] - 1 if mask is None else mask.sum(dim=1) - 1
        ends = torch.as_tensor(last, device=tokens.device).expand(len(tokens)).clamp(min=0)
        found = read.gather(1, ends[:, None, None].expand(-1, 1, read.shape[-1])).squeeze(1)
        return normalize(self.text_map(found), dim=-1)

    def image_vectors(self, images: Any) -> Tensor:
        """Return unit vectors `[images, embedding_dim]`."""
        return normalize(self.image_map(self.encoder(images).mean(dim=1)), dim=-1)

    def _scale(self) -> Tensor:
        """Return exp(t), the factor of the products; clamp t first in training."""
        if self.training and self.config.has_learned_temperature:
            with torch.no_grad():
                self.log_scale.clamp_(max=math.log(LARGEST_SCALE))
        return self.log_scale.exp()

    def source_grid(self) -> tuple[int, int]:
        """Return the rows and columns of the encoded image."""
        return self.encoder.grid

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of both towers and their product, one text per image; no loss."""
        size = self.config.embedding_dim or self.spec.dim
        ends = 2.0 * batch * (2 * self.spec.dim * size + size)
        return self.encoder.flops(batch) + self.trunk.flops(length, batch) + ends
