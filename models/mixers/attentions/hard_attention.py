"""Hard attention: in training every query reads one token, sampled by the weights of attention.

Paper: Xu et al. 2015, "Show, Attend and Tell" (arXiv:1502.03044), section 4.1; the straight-through
    form Jang et al. 2017 (arXiv:1611.01144), section 2.2, and Maddison et al. 2017
    (arXiv:1611.00712).
Equation: a_i = softmax(scores of query i), as of `attention`; s_i is drawn from a_i, for each head
    by itself; head i is v[s_i]. The choice has no gradient. By `estimator`,
    reinforce         a learns by (cost - b) grad log a_i[s_i], see `models.score_function`;
    straight_through  s_i = argmax(log a_i + g) with g from Gumbel(0, 1), which is a draw from a_i;
                      its gradient is taken for that of y = softmax((log a_i + g) / tau);
    soft              nothing is sampled: `attention`.
    With the chance `soft_share`, once for each batch and layer, everybody reads the mean of the
    values by a_i after all. In evaluation nothing is drawn: see `reading`.
Bias: reinforce estimates the gradient of the expected cost without bias, and with a variance that
    grows with the number of choices that share a cost. Straight-through is biased, unless the cost
    is linear in s and tau near 0; its variance does not grow so.
Cost: n^2 d, as `attention`, whose weights are always written in training.
Departures: Xu et al. sample for one query at a time and share one draw of soft or hard in the whole
    model; here each layer draws its own. The default estimator is straight_through, which every
    training can use. A query that may see nothing takes zeros from every head, and chooses nothing.
Padding: exact; padded keys are never drawn, and choices of padded queries teach nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from models.errors import ModelError
from models.kernels.softmax_attention import Visibility, merge_heads, softmax_weights
from models.mixer import Context, Mask, Mixer
from models.mixers.attention import Attention
from models.positions.relative import RelativePosition, ShawPosition
from models.score_function import Choices


class HardAttention(Attention):
    """Every token takes one token's value, by chance; see the module's note."""

    name = "hard_attention"
    paper = "Xu et al. 2015, arXiv:1502.03044"
    is_stochastic = True
    choices: list[Choices] | None = None  # of this pass, where a model collects them

    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        """Knobs of hard attention; the first nine are those of `Attention.Config`.

        Attributes:
            heads: Number of heads, which choose each for itself; must divide dim.
            score: How well a key answers a query.
            scale: What scores are multiplied by before the softmax.
            temperature: What they are divided by, above 0: higher ones choose more evenly.
            key_dim: Width of a head's queries and keys; None is dim / heads.
            value_dim: Width of a head's values; None is dim / heads.
            has_tied_values: Whether keys serve as values too.
            kernel: Of what is read softly; what is chosen is always `materialised`.
            bias: Whether the projections have biases.
            estimator: By what the choice learns, or `soft` for no choice at all.
            soft_share: Chance that a batch is read softly, from 0 to 1; None is 0.5 for reinforce,
                as in the authors' code, else 0.
            relaxation: tau, above 0: at lower ones the gradient of `straight_through` is nearer to
                that of a choice, and noisier.
            reading: What evaluation reads: the `expectation`, which is the mean of the values by
                the weights, or the value of the largest weight, `argmax`.
        """

        estimator: Literal["reinforce", "straight_through", "soft"] = "straight_through"
        soft_share: float | None = None
        relaxation: float = 1.0
        reading: Literal["expectation", "argmax"] = "expectation"

    config: Config
    forward_bytes = Mixer.forward_bytes  # none: training writes all weights out, reading does not

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.config.reading == "argmax":  # of weights, which no fused kernel gives
            self.is_fused = False

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Refuse what is no chance, and no temperature."""
        super().check_config(config, dim=dim)
        if config.soft_share is not None and not 0 <= config.soft_share <= 1:
            raise ModelError(f"{cls.name}: soft_share={config.soft_share} is not between 0 and 1")
        if not 0 < config.relaxation < float("inf"):
            raise ModelError(
                f"{cls.name}: relaxation={config.relaxation} is not a finite number above 0"
            )

    @classmethod
    def learns_by_score(cls, config: Any) -> bool:
        """See `Mixer.learns_by_score`."""
        return bool(config.estimator == "reinforce")

    @property
    def soft_share(self) -> float:
        """Chance that a batch is read softly."""
        if self.config.soft_share is None:
            return 0.5 if self.config.estimator == "reinforce" else 0.0
        return self.config.soft_share

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`; what padded queries have chosen is forgotten."""
        mixed = super().forward(x, mask, context, context_mask)
        if self.choices:
            *earlier, last = self.choices  # the last of each query, `[batch, time]`
            real = 1.0 if mask is None else mask
            self.choices = [*earlier, Choices(*((each * real).sum(1) for each in last))]
        return mixed

    def _attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        visible: Visibility,
        position: RelativePosition | None,
    ) -> Tensor:
        """Heads side by side, of what was chosen, through the output map: `[batch, time, dim]`."""
        reads_all = "estimator" if self.training else "reading"
        if getattr(self.config, reads_all) in ("soft", "expectation"):
            return super()._attend(queries, keys, values, visible, position)
        scores = self._scores(queries, keys, visible, position)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if self.training:
            weights = self._sampled(scores, visible)
        else:
            weights = softmax_weights(scores, visible)
            weights = largest(weights, weights)
        weights = weights.to(values.dtype)
        heads = weights @ values
        if isinstance(position, ShawPosition):
            heads = heads + position.added_to_values(weights, visible.distance())
        merged: Tensor = self.output(merge_heads(heads))
        return merged

    def reference_reading(self, weights: Tensor) -> Tensor:
        """All of the weights, or 1 at the largest one alone."""
        if self.config.reading == "expectation" or not len(weights):
            return weights
        return torch.eye(len(weights), dtype=weights.dtype)[weights.argmax()]

    def _sampled(self, scores: Tensor, visible: Visibility) -> Tensor:
        """One place of each row, or all of them: `[batch, heads, time, time2]`."""
        if self.config.estimator == "straight_through":
            noisy = (scores + gumbel_like(scores)) / self.config.relaxation
            relaxed = softmax_weights(noisy, visible)
            chosen = largest(relaxed, relaxed)
            chosen = chosen + (relaxed - relaxed.detach())  # the same number, another gradient
            if self.soft_share == 0:
                return chosen
            return torch.where(self._is_hard(scores), chosen, softmax_weights(scores, visible))
        weights = softmax_weights(scores, visible)
        logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
        noisy = (logs + gumbel_like(logs)).masked_fill(weights == 0, torch.finfo(logs.dtype).min)
        chosen, is_hard = largest(noisy, weights), self._is_hard(weights)
        if self.choices is not None:
            log_probability = (chosen * logs).sum(dim=(1, 3)) * is_hard
            entropy = -(weights * logs).sum(dim=(1, 3))
            self.choices = [*self.choices, Choices(log_probability, entropy)]
        return torch.where(is_hard, chosen, weights)

    def _is_hard(self, x: Tensor) -> Tensor:
        """Whether this batch chooses, drawn on the device of x."""
        return torch.rand((), device=x.device) >= self.soft_share


def gumbel_like(x: Tensor) -> Tensor:
    """Draws from Gumbel(0, 1): log a + g is largest at a place with the probability a of it."""
    smallest = torch.finfo(x.dtype).tiny
    return -torch.empty_like(x).exponential_().clamp_min_(smallest).log()


def largest(scores: Tensor, weights: Tensor) -> Tensor:
    """1 at the largest score of each row, 0 elsewhere, and in a row whose weights are all 0."""
    places = scores.detach().argmax(dim=-1, keepdim=True)
    ones = (weights.gather(-1, places) > 0).to(scores.dtype)
    return torch.zeros_like(scores).scatter_(-1, places, ones)
