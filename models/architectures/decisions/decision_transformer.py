"""A sequence model that acts: returns asked for, states and actions in, the next action out.

Paper: Chen et al. 2021, "Decision Transformer: Reinforcement Learning via Sequence Modeling"
    (arXiv:2106.01345), section 3, algorithm 1, and the code for Gym.
Equation: each step t of an episode is three tokens,

    R_t = (r_t + r_(t+1) + ... ) / return_scale     what is still asked for, the return-to-go
    tokens      ..., W_R R_t + e_t, W_s s_t + e_t, W_a a_t + e_t, ...     e_t embeds the time t
    hidden      trunk(norm(tokens)), causal
    action a_t  read off the token of the state s_t, which sees R_t, s_t and all before, not a_t

    Actions that are vectors are answered by tanh of a linear map, to be trained by squared error;
    actions that are symbols by logits, to be trained by cross-entropy, as in the code for Atari.
Padding: it may stand before or behind the real steps. It is never read, and sees nothing that
    matters. Time is embedded, places in the window are not, so attention without a `position`
    gives the same wherever padding stands.
has_returns=False: behaviour cloning by the same trunk, from states and actions alone.
Departures: dropout is 0 unless it is asked for, the paper's is 0.1; actions at padding are 0 and
    not -10, which comes to the same, since nothing reads them. The code for Atari has tanh behind
    its embeddings, and the one for Gym none, as here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from models.architecture import StackArchitecture
from models.embedding import UNSCALED_DEVIATION
from models.errors import ModelError
from models.initialisation import PartSeeds, scaled_normal
from models.interface import ACTIONS, INPUTS, RETURNS, TIMES, Answer, InputKind
from models.stack import Trunk
from models.sublayers import build_norm, normed


class DecisionTransformer(StackArchitecture):
    """States `[batch, time, input_size]` and more -> actions `[batch, time, output_size]`."""

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
        """Knobs, besides those of every stack.

        Attributes:
            has_returns: Whether the return asked for is a token of each step; without it the
                model clones what the players of its data did.
            has_time: Whether the time in the episode is embedded.
            return_scale: What returns are divided by; the paper's is 1,000.
            feed_forward: See `StackConfig`; the paper's has ReLU.
        """

        has_returns: bool = True
        has_time: bool = True
        return_scale: float = 1.0
        feed_forward: Literal["gelu", "gelu_tanh", "relu", "glu", "swiglu", "none"] = "relu"

    @classmethod
    def check_config(cls, config: Config) -> None:
        """See `Architecture.check_config`."""
        super().check_config(config)
        if config.return_scale <= 0:
            raise ModelError(f"{cls.name}: return_scale={config.return_scale} is not above 0")

    @property
    def tokens_per_step(self) -> int:
        """Return, state and action; or the last two."""
        return 2 + self.config.has_returns

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
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
        """See `Architecture.forward`; `[batch, time, output_size]`.

        Args:
            inputs: The states, `[batch, time, input_size]`.
            actions: What was done in them, `[batch, time]` or `[batch, time, size]`; that of the
                last state may be anything.
            returns: What was asked for from then on, `[batch, time, 1]`.
            times: Steps since the episode began, `[batch, time]`.
            mask: `[batch, time]`, True at real steps; None where all are real.
        """
        tokens = self._tokens(inputs, _real(actions, mask), returns, times, mask)
        batch, time, count, dim = tokens.shape
        real = None if mask is None else mask.repeat_interleave(count, dim=1)
        flat = normed(self.embedding_norm, tokens.flatten(1, 2), real)
        hidden = self.trunk(flat, real).view(batch, time, count, dim)
        answered: Tensor = self.head(hidden[:, :, -2])  # the state's, which has not seen the action
        return torch.tanh(answered) if self._is_continuous else answered

    def _tokens(
        self, states: Tensor, actions: Tensor, returns: Tensor, times: Tensor, mask: Tensor | None
    ) -> Tensor:
        """`[batch, time, tokens, dim]`, of each step in their order."""
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
        """Of `length` steps: the linear maps of what enters, blocks, and the head at states."""
        maps = [self.state, self.head, *([self.asked] if self.config.has_returns else [])]
        per_step = sum(2 * each.weight.numel() for each in maps)
        if self._is_continuous:
            per_step += 2 * self.spec.others[ACTIONS].size * self.spec.dim
        return self.trunk.flops(self.tokens_per_step * length, batch) + batch * length * per_step


def _embedding(kind: InputKind, size: int, dim: int) -> nn.Module:
    """A table of symbols, drawn as GPT-2's, or a linear map of vectors."""
    if kind == "vectors":
        return nn.Linear(size, dim)
    table = nn.Embedding(size, dim)
    nn.init.normal_(table.weight, std=UNSCALED_DEVIATION)
    return table


def _real(values: Tensor, mask: Tensor | None) -> Tensor:
    """Zero where padding stands: what stands there is never read."""
    if mask is None:
        return values
    return values.masked_fill(~mask if values.ndim == 2 else ~mask.unsqueeze(-1), 0)
