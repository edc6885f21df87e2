"""A causal language model: tokens in, logits of the next token out.

Embedding + position -> depth x block -> logits. The output matrix is the embedding (Press and
Wolf 2017, arXiv:1608.05859), or a separate matrix; it has no bias.

Step form: in generation, a language model reads its own output, one token at a time. A step reads
one token and updates the state of the mixers (keys and values, or the state of a recurrence); it
equals the parallel form token by token, but does not read the earlier tokens again. The cost of a
step, and its growth with the length, is the decoding cost of the mixer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import TokenEmbedding
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds, scaled_normal
from bakeoff.models.interface import Answer, InputKind
from bakeoff.models.mixer import State
from bakeoff.models.model_spec import late_knob
from bakeoff.models.stack import Trunk


@dataclass(frozen=True)
class DecodingState:
    """State of a generating model after some tokens.

    Attributes:
        num_tokens: Number of tokens read; the position of the next one.
        layers: The states of the mixers, from the bottom upwards.
        context: The context mixers' prepared source, if there is a second sequence.
    """

    num_tokens: int
    layers: tuple[State, ...]
    context: tuple[State, ...] = ()


class LanguageModel(StackArchitecture):
    """Tokens `[batch, time]` -> logits `[batch, time, output_size]`."""

    name = "language_model"
    is_causal = True
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("tokens",)}
    answers: ClassVar[tuple[Answer, ...]] = ("next_symbols",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(StackArchitecture.Config):
        """Knobs of a language model, in addition to those of every stack.

        Attributes:
            is_tied: Whether the output matrix is the embedding; otherwise it is a separate matrix,
                also drawn from normal(0, 1 / dim).
            has_scaled_embedding: Whether input embeddings are multiplied by sqrt(dim), as in
                Vaswani et al. 2017, section 3.4; if not, the embedding is drawn from normal(0,
                0.02), as in GPT-2.
        """

        is_tied: bool = True
        has_scaled_embedding: bool = late_knob(True)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec = self.spec
        if self.config.is_tied:
            self.check_tie()
        with seeds.part("embedding"):
            is_scaled = self.config.has_scaled_embedding
            self.embedding = TokenEmbedding(spec.input_size, spec.dim, is_scaled=is_scaled)
        self.trunk = Trunk(spec, self.config, seeds, is_causal=self.is_causal)
        if not self.config.is_tied:
            with seeds.part("head"):
                self.head = nn.Linear(spec.dim, spec.output_size, bias=False)
                scaled_normal(self.head)

    def check_tie(self) -> None:
        """Raise if embedding and output matrix cannot be shared.

        Raises:
            ModelError: The input and output vocabularies differ in size.
        """
        inputs, outputs = self.spec.input_size, self.spec.output_size
        if outputs != inputs:
            raise ModelError(
                f"{self.name} ties its output to its embedding: output_size={outputs} must equal "
                f"input_size={inputs} (or is_tied=False)"
            )

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits `[batch, time, output_size]`."""
        return self._logits(self.trunk(self.embedding(inputs, mask), mask))

    def initial_state(self, batch: int) -> DecodingState:
        """Return the state before the first token of each sequence.

        Raises:
            ModelError: The mixer has no step form, or the model attends to later tokens.
        """
        return DecodingState(num_tokens=0, layers=self.trunk.initial_states(batch))

    def step(self, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        """Read one token of each sequence.

        Args:
            tokens: `[batch]` integers.
            state: State after the earlier tokens.

        Returns:
            The logits of the next token, `[batch, output_size]`, and the new state.

        Raises:
            ModelError: The position encoding does not cover the next position.
        """
        embedded = self.embedding(tokens)
        hidden, layers = self.trunk.step(embedded, state.num_tokens, state.layers)
        return self._logits(hidden), DecodingState(num_tokens=state.num_tokens + 1, layers=layers)

    def _logits(self, hidden: Tensor) -> Tensor:
        if not self.config.is_tied:
            logits: Tensor = self.head(hidden)
            return logits
        return nn.functional.linear(hidden, self.embedding.table.weight[: self.spec.output_size])

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of blocks and output matrix."""
        head = batch * length * 2 * self.spec.dim * self.spec.output_size
        return self.trunk.flops(length, batch) + head

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the states of all mixers."""
        return self.trunk.state_bytes(length)
