"""Images and texts as vectors that lie near to each other where they belong together (CLIP).

Paper: Radford et al. 2021, "Learning transferable visual models from natural language supervision"
    (arXiv:2103.00020, section 2.3 and Figure 3). Two towers that know nothing of each other:

    u = image tower, mapped by a matrix and divided by its length
    v = text tower, causal, read at the symbol that ends the text, mapped and divided likewise
    logits = exp(t) u v'

    where t is learned and starts at ln(1 / 0.07). In training each text of a batch is a candidate
    for each image, and the loss is the mean of the cross-entropies over texts and over images; see
    `suite.tasks.emoji.emoji_pairs`, which has it.
Clamp: t is held at ln(100) or less. The parameter itself is cut, before a training pass, hence
    after each update: a minimum in the formula would leave it above without a gradient.
Ending: the symbol that ends a text is its last real one. The paper's code takes the largest symbol
    of a text for it, which breaks where another symbol has a larger number.
Departures: the vector of an image is the mean over its places (see `models.vision.image_encoder`),
    not a class token, and no norm stands before the first block; linear maps are drawn as
    `initialisation` says, of which the default draws the two last maps as the paper does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.architecture import StackArchitecture
from models.embedding import TokenEmbedding
from models.errors import ModelError
from models.initialisation import PartSeeds
from models.interface import IMAGE_VECTOR, SCALE, TEXT_VECTOR, Answer, InputKind, Outputs
from models.model_spec import ModelSpec, config_from_knobs
from models.stack import Trunk
from models.vision.image_encoder import (
    ImageEncoder,
    ImageEncoderConfig,
    check_image_encoder,
    why_not_in_parts,
)

LARGEST_SCALE = 100.0


class Contrastive(StackArchitecture):
    """Texts `[batch, candidates, time]` and an image for each row -> logits `[batch, candidates]`.

    Beside these it returns what a loss over the whole batch needs, see `models.interface`.
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
        """Knobs, besides those of the stack and of the image's encoder.

        Attributes:
            embedding_dim: Numbers of a vector of an image or a text; None is the model's width.
            similarity_temperature: What products are divided by at first.
            has_learned_temperature: Whether it is learned, or stays.
        """

        embedding_dim: int | None = None
        similarity_temperature: float = 0.07
        has_learned_temperature: bool = True

    @classmethod
    def check_config(cls, config: Any) -> None:
        """See `Architecture.check_config`."""
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
        """See `Architecture.why_whole`."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        reason = super().why_whole(
            spec, num_parts=num_parts, are_parameters_divided=are_parameters_divided
        )
        return reason or why_not_in_parts(config, num_parts)

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
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
        start = torch.tensor([log_scale])  # of one number, since DeepSpeed takes none without axes
        self.log_scale: Tensor
        if config.has_learned_temperature:
            self.log_scale = nn.Parameter(start)
        else:
            self.register_buffer("log_scale", start)

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Outputs:
        """Logits of the candidates of each image, `[batch, candidates]`.

        Args:
            inputs: `[batch, candidates, time]`, the texts, each with its end.
            mask: The same shape, True where a real symbol stands; None where all are real.
            context: `[batch, rows, columns, channels]`, the images.
        """
        is_real = None if mask is None else mask.flatten(0, 1)
        texts = self.text_vectors(inputs.flatten(0, 1), is_real)
        texts = texts.reshape(*inputs.shape[:2], texts.shape[-1])
        image = self.image_vectors(context)
        scale = self._scale()
        vectors = {IMAGE_VECTOR: image, TEXT_VECTOR: texts, SCALE: scale.expand(len(image))}
        return Outputs(scale * torch.einsum("bd,bcd->bc", image, texts), vectors)

    def text_vectors(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """`[texts, embedding_dim]`, of length 1."""
        read: Tensor = self.trunk(self.embedding(tokens, mask), mask)
        last = tokens.shape[1] - 1 if mask is None else mask.sum(dim=1) - 1
        ends = torch.as_tensor(last, device=tokens.device).expand(len(tokens)).clamp(min=0)
        found = read.gather(1, ends[:, None, None].expand(-1, 1, read.shape[-1])).squeeze(1)
        return normalize(self.text_map(found), dim=-1)

    def image_vectors(self, images: Any) -> Tensor:
        """`[images, embedding_dim]`, of length 1."""
        return normalize(self.image_map(self.encoder(images).mean(dim=1)), dim=-1)

    def _scale(self) -> Tensor:
        """What products are multiplied by."""
        if self.training and self.config.has_learned_temperature:
            with torch.no_grad():
                self.log_scale.clamp_(max=math.log(LARGEST_SCALE))
        return self.log_scale.exp()

    def source_grid(self) -> tuple[int, int]:
        """See `Architecture.source_grid`."""
        return self.encoder.grid

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Both towers, of one text for each image, and their product; not those of the loss."""
        size = self.config.embedding_dim or self.spec.dim
        ends = 2.0 * batch * (2 * self.spec.dim * size + size)
        return self.encoder.flops(batch) + self.trunk.flops(length, batch) + ends
