"""Text-to-image generation: draw an image from its caption, one token of a learned code at a time.

Paper: Ramesh et al. 2021, "Zero-shot text-to-image generation" (DALL-E, arXiv:2102.12092, section
    2). A discrete autoencoder is trained on images; then one causal Transformer is trained on the
    symbols of a caption followed by the tokens of its image. The loss weights text and image 1 to
    7. The fillers after a caption are read: here as one symbol, at its position.
Parts: the weights of `tokenizer` are those of a trained `discrete_vae`, and are not trained here.
    Embeddings of words and of codes + position -> depth x block -> logits, through the same two
    embedding matrices.
Departures: every layer attends to all earlier positions, where the paper's are sparse by rows and
    columns; positions are those of one sequence; one image is drawn per caption, at a temperature
    of 1, where the paper selects one of 512 with a contrastive model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import TokenEmbedding
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import CONTEXT, IMAGE_TOKENS, PENALTY, Answer, InputKind, Outputs
from bakeoff.models.stack import Trunk
from bakeoff.models.vision.image_tokenizer import (
    ImageTokenizer,
    ImageTokenizerConfig,
    check_image_tokenizer,
)


class ImageTokens(StackArchitecture):
    """Captions `[batch, time]` and their images -> logits `[batch, positions, codes]`."""

    name = "image_tokens"
    is_causal = True
    mask_mode = "pads_as_tokens"
    starts_from = "image"
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        "inputs": ("tokens",),
        "context": ("image",),
    }
    answers: ClassVar[tuple[Answer, ...]] = ("drawing",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(ImageTokenizerConfig, StackArchitecture.Config):
        """Knobs, in addition to those of the stack and of the tokenizer.

        Attributes:
            text_weight: Weight of the caption's loss; that of the image has weight 1.
        """

        text_weight: float = 1 / 7

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        check_image_tokenizer(config, cls.name)
        if config.text_weight < 0:
            raise ModelError(f"{cls.name}: text_weight={config.text_weight} is not at least 0")

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec, config = self.spec, self.config
        self.tokenizer = ImageTokenizer(
            spec.others[CONTEXT], spec.output_size, config, seeds.within("tokenizer"), self.name
        ).requires_grad_(False)
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim)
        with seeds.part("code_embedding"):
            self.code_embedding = TokenEmbedding(config.codes, spec.dim)
        whole = replace(spec, length=spec.length + self.num_image_tokens - 1)
        self.trunk = Trunk(whole, config, seeds, is_causal=True)

    @property
    def num_image_tokens(self) -> int:
        """Number of tokens of an image."""
        return self.tokenizer.num_places

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Outputs:
        """Return the logits of each image token, given the caption and earlier image tokens.

        Args:
            inputs: The caption, `[batch, time]`, which begins with a start symbol.
            mask: `[batch, time]`, False at fillers, or None if there are none.
            context: The image, `[batch, rows, columns, channels]`.

        Raises:
            ModelError: There is no image.
        """
        if context is None:
            raise ModelError(f"{self.name} needs context, the picture whose tokens it predicts")
        with torch.no_grad():
            tokens = self.tokenizer.tokens(context)
        words = inputs if mask is None else inputs.masked_fill(~mask, 0)
        read = torch.cat([self.embedding(words), self.code_embedding(tokens[:, :-1])], dim=1)
        of_words, of_picture = self.trunk(read).split(
            [words.shape[1] - 1, self.num_image_tokens], dim=1
        )
        penalty = self._loss_of_words(of_words, words, mask)
        return Outputs(self._code_logits(of_picture), {IMAGE_TOKENS: tokens, PENALTY: penalty})

    def _loss_of_words(self, hidden: Tensor, words: Tensor, mask: Tensor | None) -> Tensor:
        """Return the weighted mean loss over the words after the start symbol, `[batch]`."""
        logits = linear(hidden, self.embedding.table.weight)
        losses = cross_entropy(logits.transpose(1, 2), words[:, 1:], reduction="none")
        is_real = torch.ones_like(losses) if mask is None else mask[:, 1:].to(losses)
        return self.config.text_weight * (losses * is_real).sum(1) / is_real.sum(1).clamp(min=1)

    def _code_logits(self, hidden: Tensor) -> Tensor:
        return linear(hidden, self.code_embedding.table.weight)

    @torch.no_grad()
    def draw(self, inputs: Tensor, mask: Tensor | None = None, *, chances: Tensor) -> Tensor:
        """Draw image tokens one after another and return the decoded images.

        Args:
            inputs: The caption, `[batch, time]`, which begins with a start symbol.
            mask: `[batch, time]`, False at fillers, or None if there are none.
            chances: `[batch, positions]`, uniform random numbers between 0 and 1. Each token is the
                first one at which the cumulative probability reaches this number.

        Returns:
            `[batch, rows, columns, output_size]`.

        Raises:
            ModelError: The mixer has no step form.
        """
        words = inputs if mask is None else inputs.masked_fill(~mask, 0)
        states, place = self.trunk.initial_states(len(words)), 0
        drawn: list[Tensor] = []
        embedded = list(self.embedding(words).unbind(dim=1))
        while len(drawn) < self.num_image_tokens:
            for x_t in embedded:
                hidden, states = self.trunk.step(x_t, place, states)
                place += 1
            drawn.append(_drawn(self._code_logits(hidden), chances[:, len(drawn)]))
            embedded = [self.code_embedding(drawn[-1])]
        return self.tokenizer.images(torch.stack(drawn, dim=1))

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the image's tokens, the blocks and the logits of words and codes."""
        places, dim = self.num_image_tokens, self.spec.dim
        heads = 2 * dim * ((length - 1) * self.spec.input_size + places * self.config.codes)
        trunk = self.trunk.flops(length + places - 1, batch)
        return trunk + batch * (heads + self.tokenizer.flops_of_tokens())


def _drawn(logits: Tensor, chances: Tensor) -> Tensor:
    """Return one symbol per row, `[batch]`, drawn from logits `[batch, symbols]`."""
    until = logits.float().softmax(dim=-1).cumsum(dim=-1)
    return (until < chances[:, None] * until[:, -1:]).sum(dim=-1)
