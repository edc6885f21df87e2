"""Hard attention: in training each query attends to one token, sampled by the attention weights.

Paper: Xu et al. 2015, "Show, Attend and Tell" (arXiv:1502.03044), section 4.1; the straight-through
    form follows Jang et al. 2017 (arXiv:1611.01144), section 2.2, and Maddison et al. 2017
    (arXiv:1611.00712).
Equation: a_i = softmax(scores of query i), as in `attention`; s_i is drawn from a_i, independently
    for each head; head i is v[s_i]. Sampling has no gradient. The knob `estimator` chooses the
    substitute:
    reinforce         a is trained by (cost - b) grad log a_i[s_i], see
    `bakeoff.models.score_function`; straight_through  s_i = argmax(log a_i + g) with g from
                      Gumbel(0, 1), which is a sample of a_i; its gradient is replaced by that of y
                      = softmax((log a_i + g) / tau);
    soft              nothing is sampled: this is `attention`.
    With the probability `soft_share`, drawn once per batch and layer, all queries take the mean of
    the values weighted by a_i instead. Evaluation is deterministic; see the knob `reading`.
Bias: reinforce estimates the gradient of the expected cost without bias, but its variance grows
    with the number of samples that share a cost. Straight-through is biased, unless the cost is
    linear in s and tau is near 0; its variance does not grow in this way.
Cost: n^2 d, as for `attention`; training writes the weights to memory, on a GPU for a chunk of
    queries at a time (`bakeoff.models.kernels.query_chunks`). The backward pass computes a chunk
    again, from the same noise (`bakeoff.models.kernels.pair_noise`).
Departures: Xu et al. sample for one query at a time and draw soft or hard once for the whole model;
    here each layer draws separately. The default estimator is straight_through, which every
    training loop supports. A query without a visible key gets zeros from every head and samples
    nothing.
Padding: exact; padded keys are never sampled, and samples of padded queries do not contribute to
    the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.pair_noise import draw_pairs, gumbel_of_pairs
from bakeoff.models.kernels.query_chunks import is_in_chunks, over_queries
from bakeoff.models.kernels.softmax_attention import Visibility, merge_heads, softmax_weights
from bakeoff.models.mixer import Context, Mask, Mixer
from bakeoff.models.mixers.attention import Attention
from bakeoff.models.positions.relative import RelativePosition, ShawPosition
from bakeoff.models.score_function import Choices


class HardAttention(Attention):
    """Softmax attention that samples one token per query; see the module docstring."""

    name = "hard_attention"
    paper = "Xu et al. 2015, arXiv:1502.03044"
    is_stochastic = True
    choices: list[Choices] | None = None  # samples of the current pass, if a model collects them

    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        """Knobs of hard attention; the first nine are those of `Attention.Config`.

        Attributes:
            heads: Number of heads, which sample independently; must divide dim.
            score: Similarity of a query and a key.
            scale: Factor of the scores before the softmax.
            temperature: Divisor of the scores, above 0; higher values sample more uniformly.
            key_dim: Width of a head's queries and keys; with None it is dim / heads.
            value_dim: Width of a head's values; with None it is dim / heads.
            has_tied_values: Whether the keys also serve as values.
            kernel: Kernel of soft attention; hard attention always uses `materialised`.
            bias: Whether the projections have biases.
            estimator: Gradient estimator of the samples, or `soft` for no sampling.
            soft_share: Probability that a batch uses soft attention, from 0 to 1; with None it is
                0.5 for reinforce, as in the authors' code, and 0 otherwise.
            relaxation: tau, above 0; at lower values the gradient of `straight_through` is closer
                to that of a sample, and noisier.
            reading: Output in evaluation: `expectation` is the mean of the values by the weights,
                `argmax` the value with the largest weight.
        """

        estimator: Literal["reinforce", "straight_through", "soft"] = "straight_through"
        soft_share: float | None = None
        relaxation: float = 1.0
        reading: Literal["expectation", "argmax"] = "expectation"

    config: Config
    forward_bytes = Mixer.forward_bytes  # no formula: only training writes the weights to memory

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        if self.config.reading == "argmax":  # needs the weights, which fused kernels do not return
            self.is_fused = False

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if soft_share is not a probability, or relaxation is not positive."""
        super().check_config(config, dim=dim)
        if config.soft_share is not None and not 0 <= config.soft_share <= 1:
            raise ModelError(f"{cls.name}: soft_share={config.soft_share} is not between 0 and 1")
        if not 0 < config.relaxation < float("inf"):
            raise ModelError(
                f"{cls.name}: relaxation={config.relaxation} is not a finite number above 0"
            )

    @classmethod
    def learns_by_score(cls, config: Any) -> bool:
        """Return True for the estimator `reinforce`; see `Mixer.learns_by_score`."""
        return bool(config.estimator == "reinforce")

    @property
    def soft_share(self) -> float:
        """Probability that a batch uses soft attention."""
        if self.config.soft_share is None:
            return 0.5 if self.config.estimator == "reinforce" else 0.0
        return self.config.soft_share

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; drop the choices of padded queries."""
        mixed = super().forward(x, mask, context, context_mask)
        if self.choices:
            *earlier, last = self.choices  # the last are those of each query, `[batch, time]`
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
        """Return the sampled or averaged values, merged and projected: `[batch, time, dim]`."""
        reads_all = "estimator" if self.training else "reading"
        if getattr(self.config, reads_all) in ("soft", "expectation"):
            return super()._attend(queries, keys, values, visible, position)
        of_queries, of_keys = [queries], [keys, values]
        attend = partial(self._read, position=position)
        if self.training and is_in_chunks(queries):  # chunks draw nothing, so draw before them
            rows, columns = draw_pairs(queries, keys)
            of_queries, of_keys = [queries, rows], [keys, values, columns]
            attend = partial(self._read_noise, position=position, is_hard=self._is_hard(queries))
        heads, *choices = over_queries(attend, of_queries, of_keys, visible)
        if self.choices is not None and choices:
            self.choices = [*self.choices, Choices(*(each[:, 0, :, 0] for each in choices))]
        merged: Tensor = self.output(merge_heads(heads))
        return merged

    def _read_noise(
        self,
        queries: Tensor,
        rows: Tensor,
        keys: Tensor,
        values: Tensor,
        columns: Tensor,
        visible: Visibility,
        **how: Any,
    ) -> tuple[Tensor, ...]:
        """Return the result of `_read`, with noise from the numbers of queries and keys."""
        noise = gumbel_of_pairs(rows, columns)
        return self._read(queries, keys, values, visible, noise=noise, **how)

    def _read(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        visible: Visibility,
        *,
        position: RelativePosition | None,
        noise: Tensor | None = None,
        is_hard: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the heads `[batch, heads, time, width]`, and the choices if they are collected.

        Choices are those of each query, `[batch, 1, time, 1]`. In training, random numbers that are
        not given are drawn.
        """
        scores = self._scores(queries, keys, visible, position)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        choices: tuple[Tensor, ...] = ()
        if self.training:
            weights, choices = self._sampled(scores, visible, noise, is_hard)
        else:
            weights = softmax_weights(scores, visible)
            weights = largest(weights, weights)
        weights = weights.to(values.dtype)
        heads = weights @ values
        if isinstance(position, ShawPosition):
            heads = heads + position.added_to_values(weights, visible.distance())
        return heads, *choices

    def reference_reading(self, weights: Tensor) -> Tensor:
        """Return the weights, or with `argmax` a one-hot vector at the largest weight."""
        if self.config.reading == "expectation" or not len(weights):
            return weights
        return torch.eye(len(weights), dtype=weights.dtype)[weights.argmax()]

    def _sampled(
        self, scores: Tensor, visible: Visibility, noise: Tensor | None, is_hard: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return one-hot rows, or for a soft batch the weights, and the choices; see `_read`."""
        if self.config.estimator == "straight_through":
            noise = gumbel_like(scores) if noise is None else noise
            relaxed = softmax_weights((scores + noise) / self.config.relaxation, visible)
            chosen = largest(relaxed, relaxed)
            chosen = chosen + (relaxed - relaxed.detach())  # the same value, with another gradient
            if self.soft_share == 0:
                return chosen, ()
            is_hard = self._is_hard(scores) if is_hard is None else is_hard
            return torch.where(is_hard, chosen, softmax_weights(scores, visible)), ()
        weights = softmax_weights(scores, visible)
        logs = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
        noise = gumbel_like(logs) if noise is None else noise
        noisy = (logs + noise).masked_fill(weights == 0, torch.finfo(logs.dtype).min)
        chosen = largest(noisy, weights)
        is_hard = self._is_hard(weights) if is_hard is None else is_hard
        choices: tuple[Tensor, ...] = ()
        if self.choices is not None:
            log_probability = (chosen * logs).sum(dim=(1, 3), keepdim=True) * is_hard
            choices = log_probability, -(weights * logs).sum(dim=(1, 3), keepdim=True)
        return torch.where(is_hard, chosen, weights), choices

    def _is_hard(self, x: Tensor) -> Tensor:
        """Return a boolean scalar on the device of `x`: whether this batch is sampled."""
        return torch.rand((), device=x.device) >= self.soft_share


def gumbel_like(x: Tensor) -> Tensor:
    """Return samples of Gumbel(0, 1) with the shape of `x`.

    The argmax of log a + g, with g from this distribution, is a sample of the probabilities a.
    """
    smallest = torch.finfo(x.dtype).tiny
    return -torch.empty_like(x).exponential_().clamp_min_(smallest).log()


def largest(scores: Tensor, weights: Tensor) -> Tensor:
    """Return 1 at the largest score of each row, 0 elsewhere; all 0 if the row's weights are 0."""
    places = scores.detach().argmax(dim=-1, keepdim=True)
    ones = (weights.gather(-1, places) > 0).to(scores.dtype)
    return torch.zeros_like(scores).scatter_(-1, places, ones)
