"""A sequence model that acts: desired returns, states and actions in, the next action out.

Paper: Chen et al. 2021, "Decision Transformer: Reinforcement Learning via Sequence Modeling"
    (arXiv:2106.01345), section 3, algorithm 1, and the code for Gym.
Equation: each step t of an episode is three tokens,

    R_t = (r_t + r_(t+1) + ... ) / return_scale     the return-to-go: rewards still desired
    tokens      ..., W_R R_t + e_t, W_s s_t + e_t, W_a a_t + e_t, ...     e_t embeds the time t
    hidden      trunk(norm(tokens)), causal
    action a_t  read from the token of the state s_t, which attends to R_t, s_t and all before,
                but not to a_t

    Actions that are vectors are predicted by tanh of a linear map, trained with the squared error;
    actions that are symbols by logits, trained with cross-entropy, as in the code for Atari.
Padding: it may precede or follow the real steps. It is never read, and its outputs are meaningless.
    Time is embedded, but positions in the window are not, so attention without a `position` gives
    the same result wherever padding is.
has_returns=False: behaviour cloning by the same trunk, from states and actions only.
Departures: dropout is 0 by default, the paper's is 0.1; actions at padding are 0 and not -10, which
    is equivalent, since nothing reads them. The code for Atari applies tanh to its embeddings; the
    one for Gym does not, and neither does this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from bakeoff.models.architecture import StackArchitecture
from bakeoff.models.embedding import UNSCALED_DEVIATION
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds, scaled_normal
from bakeoff.models.interface import ACTIONS, INPUTS, RETURNS, TIMES, Answer, InputKind
from bakeoff.models.stack import Trunk
from bakeoff.models.sublayers import build_norm, normed


class DecisionTransformer(StackArchitecture):
    """Desired returns, states, actions and times -> actions `[batch, time, output_size]`."""

    name = "decision_transformer"
    is_causal = True
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        INPUTS: ("vectors",),
        ACTIONS: ("tokens", "vectors"),
        RETURNS: ("vectors",),
        TIMES: ("tokens",),
    }
    answers: ClassVar[tuple[Answer, ...]] = ("action",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config(StackArchitecture.Config):
        """Knobs, in addition to those of every stack.

        Attributes:
            has_returns: Whether the desired return is a token of each step; without it the model
                clones the actions of its data.
            has_time: Whether the time in the episode is embedded.
            return_scale: Divisor of the returns; the paper's is 1,000.
            feed_forward: See `StackConfig`; the paper's has ReLU.
        """

        has_returns: bool = True
        has_time: bool = True
        return_scale: float = 1.0
        feed_forward: Literal["gelu", "gelu_tanh", "relu", "glu", "swiglu", "none"] = "relu"

    @classmethod
    def check_config(cls, config: Config) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        super().check_config(config)
        if config.return_scale <= 0:
            raise ModelError(f"{cls.name}: return_scale={config.return_scale} is not above 0")

    @property
    def tokens_per_step(self) -> int:
        """Number of tokens of a step: return (if there is one), state and action."""
        return 2 + self.config.has_returns

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec, config = self.spec, self.config
        with seeds.part("state"):
            self.state = nn.Linear(spec.input_size, spec.dim)
        with seeds.part("action"):
            self.action = _embedding(spec.others[ACTIONS].kind, spec.others[ACTIONS].size, spec.dim)
        if config.has_returns:
            with seeds.part("return"):
                self.asked = nn.Linear(spec.others[RETURNS].size, spec.dim)
        if config.has_time:
            with seeds.part("time"):
                self.time = _embedding("tokens", spec.others[TIMES].size, spec.dim)
        self.embedding_norm = build_norm(spec.dim, config)
        longer = replace(spec, length=self.tokens_per_step * spec.length)
        self.trunk = Trunk(longer, config, seeds, is_causal=True)
        with seeds.part("head"):
            self.head = nn.Linear(spec.dim, spec.output_size)
            scaled_normal(self.head)

    def forward(
        self,
        inputs: Tensor,
        actions: Tensor,
        returns: Tensor,
        times: Tensor,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the actions or their logits, `[batch, time, output_size]`.

        Args:
            inputs: The states, `[batch, time, input_size]`.
            actions: The actions taken, `[batch, time]` or `[batch, time, size]`; that of the last
                state is ignored.
            returns: The desired returns from each step on, `[batch, time, 1]`.
            times: Steps since the episode began, `[batch, time]`.
            mask: `[batch, time]`, True at real steps, or None if all are real.
        """
        tokens = self._tokens(inputs, _real(actions, mask), returns, times, mask)
        batch, time, count, dim = tokens.shape
        real = None if mask is None else mask.repeat_interleave(count, dim=1)
        flat = normed(self.embedding_norm, tokens.flatten(1, 2), real)
        hidden = self.trunk(flat, real).view(batch, time, count, dim)
        answered: Tensor = self.head(hidden[:, :, -2])  # the state's token; it precedes the action
        return torch.tanh(answered) if self._is_continuous else answered

    def _tokens(
        self, states: Tensor, actions: Tensor, returns: Tensor, times: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Return the tokens of each step in their order, `[batch, time, tokens, dim]`."""
        found = [self.state(_real(states, mask)), self.action(actions)]
        if self.config.has_returns:
            found.insert(0, self.asked(_real(returns, mask) / self.config.return_scale))
        tokens = torch.stack(found, dim=2)
        if not self.config.has_time:
            return tokens
        embedded: Tensor = tokens + self.time(_real(times, mask)).unsqueeze(2)
        return embedded

    @property
    def _is_continuous(self) -> bool:
        return self.spec.others[ACTIONS].kind == "vectors"

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of `length` steps: input maps, blocks, and the head at states."""
        maps = [self.state, self.head, *([self.asked] if self.config.has_returns else [])]
        per_step = sum(2 * each.weight.numel() for each in maps)
        if self._is_continuous:
            per_step += 2 * self.spec.others[ACTIONS].size * self.spec.dim
        return self.trunk.flops(self.tokens_per_step * length, batch) + batch * length * per_step


def _embedding(kind: InputKind, size: int, dim: int) -> nn.Module:
    """Return a table of symbols, initialised as in GPT-2, or a linear map of vectors."""
    if kind == "vectors":
        return nn.Linear(size, dim)
    table = nn.Embedding(size, dim)
    nn.init.normal_(table.weight, std=UNSCALED_DEVIATION)
    return table


def _real(values: Tensor, mask: Tensor | None) -> Tensor:
    """Set values at padding to zero, so that they are never read."""
    if mask is None:
        return values
    return values.masked_fill(~mask if values.ndim == 2 else ~mask.unsqueeze(-1), 0)
