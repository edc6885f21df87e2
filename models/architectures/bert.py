"""BERT: the models that are trained on text, and the classifier that starts from them.

Paper: Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language
    Understanding" (arXiv:1810.04805), section 3 and its code.
All: embedding + learned position + segment, normed -> depth x (mixer, feed-forward), a norm after
    each sum.
bert: a separate layer (a linear map, GELU, a norm) and the embedding, with a bias, predict the
    hidden tokens. If there are two texts, the first token predicts whether the second follows the
    first: its logits are then those of the pooler, a linear map and tanh, for the last two symbols,
    "it does not" and "it does", and a very low value for all others.
bert_left_to_right: each token attends to itself and earlier ones, and predicts the next one, like
    the model "left to right, no next sentence" of Table 5.
bert_prefix: the same after the first half of the tokens, which attend to each other; its mixer is
    always `prefix_attention`.
bert_classifier: the pooler, then a linear map to the classes. The parts of all models have the same
    names, so that training of one may start from the weights of another.
Departures: dropout is 0 by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.architectures.classifier import mean_of_real
from bakeoff.models.embedding import UNSCALED_DEVIATION, TokenEmbedding
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import Initialisation, PartSeeds, scaled_normal
from bakeoff.models.interface import PLACES, SEGMENTS, Answer, InputKind
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.stack import Trunk

NUM_SEGMENTS = 2
PREFIX_MIXER = "prefix_attention"


class _Encoder(StackArchitecture):
    """Base class of all BERT models: embeddings, trunk and pooler."""

    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("tokens",)}
    may_read: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {SEGMENTS: ("tokens",)}
    is_causal = False

    @dataclass(frozen=True, kw_only=True)
    class Config(StackArchitecture.Config):
        """Knobs of every stack, with the paper's values.

        Attributes:
            norm_placement: See `StackConfig`.
            norm_eps: See `StackConfig`.
            initialisation: See `StackArchitecture.Config`.
            position_std: Standard deviation of the learned positions at the start.
        """

        norm_placement: Literal["pre", "post", "res_post"] = "post"
        norm_eps: float = 1e-12
        initialisation: Initialisation = "truncated_normal"
        position_std: float = UNSCALED_DEVIATION

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec = self.spec
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim, is_scaled=False)
        with seeds.part("segments"):
            self.segments = nn.Embedding(NUM_SEGMENTS, spec.dim)
            nn.init.normal_(self.segments.weight, std=UNSCALED_DEVIATION)
        self.trunk = Trunk(
            self.stack_spec(),
            self.config,
            seeds,
            is_causal=self.is_causal,
            has_embedding_norm=True,
        )

    def stack_spec(self) -> ModelSpec:
        """Return the spec of the stack."""
        return self.spec

    def build_pooler(self, seeds: PartSeeds, outputs: int, name: str) -> None:
        """Build a linear map and tanh of one vector, and a linear map to logits."""
        with seeds.part("pooler"):
            self.pooler = nn.Linear(self.spec.dim, self.spec.dim)
            scaled_normal(self.pooler)
        with seeds.part(name):
            head = nn.Linear(self.spec.dim, outputs)
            scaled_normal(head)
            self.add_module(name, head)

    def hidden(self, inputs: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
        """Return `[batch, time, dim]`; without segments all tokens are in the first one."""
        which = torch.zeros_like(inputs) if segments is None else segments
        which = which if mask is None else which.masked_fill(~mask, 0)
        found: Tensor = self.trunk(self.embedding(inputs, mask) + self.segments(which), mask)
        return found

    def pooled(self, read: Tensor) -> Tensor:
        """Apply the pooler to one vector of each text, `[batch, dim]`."""
        return torch.tanh(self.pooler(read))


class Bert(_Encoder):
    """Tokens `[batch, time]`, some of them hidden -> logits `[batch, time, output_size]`."""

    name = "bert"
    answers: ClassVar[tuple[Answer, ...]] = ("symbols",)
    may_read: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        SEGMENTS: ("tokens",),
        PLACES: ("tokens",),
    }

    @property
    def has_next_sentence(self) -> bool:
        """True if the model reads two texts."""
        return SEGMENTS in self.spec.others

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
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
        if self.has_next_sentence:
            self.build_pooler(seeds, NUM_SEGMENTS, "next_sentence")

    def forward(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        segments: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Return logits `[batch, time, output_size]`.

        Args:
            inputs: `[batch, time]`.
            mask: `[batch, time]`, True at real tokens, or None if all are real.
            segments: `[batch, time]`, 1 in the second text, or None if there is one text.
            places: Indices of the tokens to predict, `[batch, answers]`; the logits are then
                `[batch, answers, output_size]`. With None all tokens are predicted.
        """
        hidden = self.hidden(inputs, mask, segments)
        asked = hidden
        if places is not None:
            asked = hidden.gather(1, places[:, :, None].expand(-1, -1, hidden.shape[2]))
        read = self.transform_norm(functional.gelu(self.transform(asked)))
        table = self.embedding.table.weight[: self.spec.output_size]
        logits = functional.linear(read, table, self.output_bias)
        return self._with_next_sentence(logits, hidden) if self.has_next_sentence else logits

    def _with_next_sentence(self, logits: Tensor, hidden: Tensor) -> Tensor:
        """Replace the logits of the first token, or of the first of `places`."""
        answers = self.get_submodule("next_sentence")(self.pooled(hidden[:, 0]))
        none = torch.full_like(logits[:, 0, NUM_SEGMENTS:], torch.finfo(logits.dtype).min / 2)
        first = torch.cat([none, answers], dim=-1)
        return torch.cat([first[:, None], logits[:, 1:]], dim=1)

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of the blocks, the layer before the output, output and pooler."""
        dim, places = self.spec.dim, self.spec.others.get(PLACES)
        num_named = length if places is None else min(length, places.length)
        per_token = 2 * dim * (dim + self.spec.output_size)
        pooler = 2 * dim * (dim + NUM_SEGMENTS) * self.has_next_sentence
        return self.trunk.flops(length, batch) + batch * (num_named * per_token + pooler)


class BertLeftToRight(Bert):
    """Tokens `[batch, time]` -> logits `[batch, time, output_size]` of the next ones."""

    name = "bert_left_to_right"
    answers = ("next_symbols",)
    may_read: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {}
    is_causal = True


class BertPrefix(Bert):
    """Tokens `[batch, time]` -> logits of the next ones; those of the prefix are meaningless."""

    name = "bert_prefix"
    answers = ("continuation",)
    takes = ("position", "dim", "depth")
    may_read: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {}
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(_Encoder.Config):
        """Knobs, in addition to those of every stack.

        Attributes:
            heads: Number of attention heads.
            bias: Whether the projections of the attention have biases.
        """

        heads: int = 4
        bias: bool = False

    @classmethod
    def mixers_of(cls, spec: ModelSpec) -> tuple[str, ...]:
        """Return the one mixer of the model, attention with a prefix."""
        return (PREFIX_MIXER,)

    def stack_spec(self) -> ModelSpec:
        """Return the spec of the stack, with attention that has a prefix."""
        knobs = {"heads": self.config.heads, "bias": self.config.bias}
        return replace(self.spec, mixer=PREFIX_MIXER, knobs=knobs)


class BertClassifier(_Encoder):
    """Tokens `[batch, time]` -> logits `[batch, output_size]`."""

    name = "bert_classifier"
    answers: ClassVar[tuple[Answer, ...]] = ("class", "number")
    siblings: ClassVar[Mapping[Answer, str]] = {
        "symbols": "bert",
        "next_symbols": "bert_left_to_right",
        "continuation": "bert_prefix",
    }
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(_Encoder.Config):
        """Knobs, in addition to those of every stack.

        Attributes:
            pooling: Input of the pooler: the `first` token, as in the paper, or the `mean` over
                all, for mixers in which the first token does not attend to others.
        """

        pooling: Literal["first", "mean"] = "first"

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        super().build(seeds)
        self.build_pooler(seeds, self.spec.output_size, "head")

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Return logits `[batch, output_size]`; arguments as in `Bert.forward`."""
        hidden = self.hidden(inputs, mask, segments)
        read = hidden[:, 0] if self.config.pooling == "first" else mean_of_real(hidden, mask)
        logits: Tensor = self.get_submodule("head")(self.pooled(read))
        return logits

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of blocks, pooler and head."""
        dim = self.spec.dim
        return self.trunk.flops(length, batch) + batch * 2 * dim * (dim + self.spec.output_size)
