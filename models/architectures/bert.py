"""BERT, as it is trained on text, and as it then answers about texts.

Paper: Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language
    Understanding" (arXiv:1810.04805), section 3 and its code.
Both: embedding + learned position + segment, normed -> depth x (mixer, feed-forward), a norm after
    each sum.
bert: a hidden token is named by a layer of its own (a linear map, GELU, a norm) and the embedding,
    with a bias. Whether the second text follows the first is read off the first token by the
    pooler, a linear map and tanh; see `Config.has_next_sentence`.
bert_classifier: the pooler, then a linear map to the classes. Parts of both have the same names, so
    a training of the one may start from the other.
Departures: dropout is 0 unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.architecture import StackArchitecture
from models.architectures.classifier import mean_of_real
from models.embedding import UNSCALED_DEVIATION, TokenEmbedding
from models.errors import ModelError
from models.initialisation import Initialisation, PartSeeds, scaled_normal
from models.interface import SEGMENTS, Answer, InputKind
from models.stack import Trunk

NUM_SEGMENTS = 2


class _Encoder(StackArchitecture):
    """What both have."""

    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("tokens",)}
    may_read: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {SEGMENTS: ("tokens",)}
    is_causal = False

    @dataclass(frozen=True, kw_only=True)
    class Config(StackArchitecture.Config):
        """Knobs of every stack, with the paper's values.

        Attributes:
            norm_placement: See `StackConfig`.
            norm_eps: Likewise.
            initialisation: See `StackArchitecture.Config`.
            position_std: Of the learned positions.
        """

        norm_placement: Literal["pre", "post", "res_post"] = "post"
        norm_eps: float = 1e-12
        initialisation: Initialisation = "truncated_normal"
        position_std: float = UNSCALED_DEVIATION

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
        spec = self.spec
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim, is_scaled=False)
        with seeds.part("segments"):
            self.segments = nn.Embedding(NUM_SEGMENTS, spec.dim)
            nn.init.normal_(self.segments.weight, std=UNSCALED_DEVIATION)
        self.trunk = Trunk(spec, self.config, seeds, is_causal=False, has_embedding_norm=True)

    def build_pooler(self, seeds: PartSeeds, outputs: int, name: str) -> None:
        """A linear map of the first token, tanh, and a linear map to logits."""
        with seeds.part("pooler"):
            self.pooler = nn.Linear(self.spec.dim, self.spec.dim)
            scaled_normal(self.pooler)
        with seeds.part(name):
            head = nn.Linear(self.spec.dim, outputs)
            scaled_normal(head)
            self.add_module(name, head)

    def hidden(self, inputs: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
        """`[batch, time, dim]`; without segments all is of the first."""
        which = torch.zeros_like(inputs) if segments is None else segments
        which = which if mask is None else which.masked_fill(~mask, 0)
        found: Tensor = self.trunk(self.embedding(inputs, mask) + self.segments(which), mask)
        return found

    def pooled(self, read: Tensor) -> Tensor:
        """`[batch, dim]`, of one vector for each text; the paper's is the first token's."""
        return torch.tanh(self.pooler(read))


class Bert(_Encoder):
    """Tokens `[batch, time]`, some of them hidden -> logits `[batch, time, output_size]`."""

    name = "bert"
    answers: ClassVar[tuple[Answer, ...]] = ("symbols",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(_Encoder.Config):
        """Knobs, besides those of every stack.

        Attributes:
            has_next_sentence: Whether the first token answers whether the second text follows the
                first: its logits are then those of the pooler, for the last two symbols, "it does
                not" and "it does", and none for the others.
        """

        has_next_sentence: bool = False

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
        super().build(seeds)
        dim, outputs = self.spec.dim, self.spec.output_size
        if outputs > self.spec.input_size:
            raise ModelError(
                f"{self.name} ties its output to its embedding: input_size={self.spec.input_size} "
                f"must be at least output_size={outputs}"
            )
        with seeds.part("transform"):
            self.transform = nn.Linear(dim, dim)
            scaled_normal(self.transform)
        self.transform_norm = nn.LayerNorm(dim, eps=self.config.norm_eps)
        self.output_bias = nn.Parameter(torch.zeros(outputs))
        if self.config.has_next_sentence:
            self.build_pooler(seeds, NUM_SEGMENTS, "next_sentence")

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """See `Architecture.forward`; `[batch, time, output_size]`.

        Args:
            inputs: `[batch, time]`.
            mask: The same shape, True where a real token stands; None where all are real.
            segments: The same shape, 1 in the second text; None where there is one.
        """
        hidden = self.hidden(inputs, mask, segments)
        read = self.transform_norm(functional.gelu(self.transform(hidden)))
        table = self.embedding.table.weight[: self.spec.output_size]
        logits = functional.linear(read, table, self.output_bias)
        return self._with_next_sentence(logits, hidden) if self.config.has_next_sentence else logits

    def _with_next_sentence(self, logits: Tensor, hidden: Tensor) -> Tensor:
        """The first token's answers in place."""
        answers = self.get_submodule("next_sentence")(self.pooled(hidden[:, 0]))
        none = torch.full_like(logits[:, 0, NUM_SEGMENTS:], torch.finfo(logits.dtype).min / 2)
        first = torch.cat([none, answers], dim=-1)
        return torch.cat([first[:, None], logits[:, 1:]], dim=1)

    def flops(self, length: int, batch: int = 1) -> float:
        """Blocks, the layer before the output, the output, and the pooler."""
        dim = self.spec.dim
        per_token = 2 * dim * (dim + self.spec.output_size)
        pooler = 2 * dim * (dim + NUM_SEGMENTS) * self.config.has_next_sentence
        return self.trunk.flops(length, batch) + batch * (length * per_token + pooler)


class BertClassifier(_Encoder):
    """Tokens `[batch, time]` -> logits `[batch, output_size]`."""

    name = "bert_classifier"
    answers: ClassVar[tuple[Answer, ...]] = ("class", "number")
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(_Encoder.Config):
        """Knobs, besides those of every stack.

        Attributes:
            pooling: What the pooler reads: the `first` token, as in the paper, or the `mean` over
                all, for mixers in which the first token sees no other.
        """

        pooling: Literal["first", "mean"] = "first"

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
        super().build(seeds)
        self.build_pooler(seeds, self.spec.output_size, "head")

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """See `Architecture.forward`; `[batch, output_size]`; arguments as of `Bert`."""
        hidden = self.hidden(inputs, mask, segments)
        read = hidden[:, 0] if self.config.pooling == "first" else mean_of_real(hidden, mask)
        logits: Tensor = self.get_submodule("head")(self.pooled(read))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Blocks, pooler and head."""
        dim = self.spec.dim
        return self.trunk.flops(length, batch) + batch * 2 * dim * (dim + self.spec.output_size)
