"""Draw a picture from its caption, token by token, in a code that another training has found.

Paper: Ramesh et al. 2021, "Zero-shot text-to-image generation" (DALL-E, arXiv:2102.12092, section
    2). A discrete autoencoder is trained on pictures; then one causal Transformer on the symbols of
    a caption and, behind them, the tokens of its picture. The loss weighs them 1 to 7, and the
    fillers behind a caption are read: here as one symbol, at its position.
Parts: `tokenizer`, whose weights are those of a `discrete_vae` from which the training starts, and
    which is not trained here. Embeddings of words and of codes + position -> depth x block ->
    logits, by the same two matrices.
Departures: every layer sees all that stands before, where the paper's are sparse by rows and
    columns; positions are those of one sequence; a picture is drawn once, at a temperature of 1,
    where the paper chooses among 512 by a contrastive model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from models.architecture import StackArchitecture
from models.embedding import TokenEmbedding
from models.errors import ModelError
from models.initialisation import PartSeeds
from models.interface import CONTEXT, IMAGE_TOKENS, PENALTY, Answer, InputKind, Outputs
from models.stack import Trunk
from models.vision.image_tokenizer import (
    ImageTokenizer,
    ImageTokenizerConfig,
    check_image_tokenizer,
)


class ImageTokens(StackArchitecture):
    """Captions `[batch, time]` and their pictures -> logits `[batch, places, codes]`."""

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
        """Knobs, besides those of the stack and of the tokenizer.

        Attributes:
            text_weight: Of the caption's loss, where that of the picture counts 1.
        """

        text_weight: float = 1 / 7

    @classmethod
    def check_config(cls, config: Any) -> None:
        """See `Architecture.check_config`."""
        super().check_config(config)
        check_image_tokenizer(config, cls.name)
        if config.text_weight < 0:
            raise ModelError(f"{cls.name}: text_weight={config.text_weight} is not at least 0")

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
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
        """Of a picture."""
        return self.tokenizer.num_places

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Outputs:
        """Logits of each token of the picture, read with the caption and the tokens before it.

        Args:
            inputs: `[batch, time]`, the caption, which begins with a start symbol.
            mask: `[batch, time]`, False at fillers; None where there are none.
            context: `[batch, rows, columns, channels]`, the picture.

        Raises:
            ModelError: no picture.
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
        """`[batch]`, weighed: the mean over the words that follow the start, fillers left out."""
        logits = linear(hidden, self.embedding.table.weight)
        losses = cross_entropy(logits.transpose(1, 2), words[:, 1:], reduction="none")
        is_real = torch.ones_like(losses) if mask is None else mask[:, 1:].to(losses)
        return self.config.text_weight * (losses * is_real).sum(1) / is_real.sum(1).clamp(min=1)

    def _code_logits(self, hidden: Tensor) -> Tensor:
        return linear(hidden, self.code_embedding.table.weight)

    @torch.no_grad()
    def draw(self, inputs: Tensor, mask: Tensor | None = None, *, chances: Tensor) -> Tensor:
        """Pictures, as the tokenizer decodes tokens that are drawn one after the other.

        Args:
            inputs: As of `forward`.
            mask: Likewise.
            chances: `[batch, places]` between 0 and 1: a token is the first one up to which the
                probabilities add up to more.

        Returns:
            `[batch, rows, columns, output_size]`.

        Raises:
            ModelError: the mixer has no step form.
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
        """The picture's tokens, blocks, and the logits of words and codes."""
        places, dim = self.num_image_tokens, self.spec.dim
        heads = 2 * dim * ((length - 1) * self.spec.input_size + places * self.config.codes)
        trunk = self.trunk.flops(length + places - 1, batch)
        return trunk + batch * (heads + self.tokenizer.flops_of_tokens())


def _drawn(logits: Tensor, chances: Tensor) -> Tensor:
    """`[batch]`, of logits `[batch, symbols]`."""
    until = logits.float().softmax(dim=-1).cumsum(dim=-1)
    return (until < chances[:, None] * until[:, -1:]).sum(dim=-1)
