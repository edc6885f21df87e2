"""A causal language model: tokens in, logits of the next token out.

Embedding + position -> depth x block -> logits. The output matrix is the embedding (Press and
Wolf 2017, arXiv:1608.05859), or one of its own; it has no bias.

Step form: in use, a language model writes its own next input, so that tokens come one by one. A
step reads one and carries on what the mixers know of the earlier ones (keys and values, the state
of a recurrence); it equals the parallel form token by token, where that one would read all earlier
tokens again. What a step costs, and how that grows, is what a mixer costs when it decodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from models.architecture import StackArchitecture
from models.embedding import TokenEmbedding
from models.errors import ModelError
from models.initialisation import PartSeeds, scaled_normal
from models.interface import Answer, InputKind
from models.mixer import State
from models.model_spec import late_knob
from models.stack import Trunk


@dataclass(frozen=True)
class DecodingState:
    """What a model that writes knows of the tokens that it has read.

    Attributes:
        num_tokens: How many; the place of the next one.
        layers: The states of the mixers, from the bottom upwards.
        context: What the context mixers have prepared, where there is another sequence.
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
        """Knobs of a language model, besides those of every stack.

        Attributes:
            is_tied: Whether the output matrix is the embedding; else it is a matrix of its own,
                drawn alike, from normal(0, 1 / dim).
            has_scaled_embedding: Whether tokens are multiplied by sqrt(dim) as they enter, as in
                Vaswani et al. 2017, section 3.4; if not, the embedding is drawn from
                normal(0, 0.02), as GPT-2's.
        """

        is_tied: bool = True
        has_scaled_embedding: bool = late_knob(True)

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
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
        """Refuse sizes at which embedding and output matrix cannot be one.

        Raises:
            ModelError: what can be predicted is not what can be read.
        """
        inputs, outputs = self.spec.input_size, self.spec.output_size
        if outputs != inputs:
            raise ModelError(
                f"{self.name} ties its output to its embedding: output_size={outputs} must equal "
                f"input_size={inputs} (or is_tied=False)"
            )

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `Architecture.forward`; `[batch, time, output_size]`."""
        return self._logits(self.trunk(self.embedding(inputs, mask), mask))

    def initial_state(self, batch: int) -> DecodingState:
        """The state before the first token of each sequence.

        Raises:
            ModelError: the mixer has no step form, or the model sees later tokens.
        """
        return DecodingState(num_tokens=0, layers=self.trunk.initial_states(batch))

    def step(self, tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        """One token of each sequence.

        Args:
            tokens: `[batch]` integers.
            state: Of the tokens before.

        Returns:
            The logits of the next token, `[batch, output_size]`, and the new state.

        Raises:
            ModelError: a place beyond those that the position knows.
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
        """Blocks and output matrix."""
        head = batch * length * 2 * self.spec.dim * self.spec.output_size
        return self.trunk.flops(length, batch) + head

    def state_bytes(self, length: int) -> int:
        """What all mixers keep."""
        return self.trunk.state_bytes(length)
