"""Lets what a model samples learn from what it costs: the score-function estimator, REINFORCE.

Paper: Williams 1992, "Simple Statistical Gradient-Following Algorithms for Connectionist
    Reinforcement Learning" (Machine Learning 8), equation 5; as Xu et al. 2015 (arXiv:1502.03044),
    section 4.1, use it for hard attention.
Equation: a choice s, drawn with probability p(s), gives no gradient to p. Yet
    grad E[c] = E[grad c + l (c - b) grad log p(s)] with l = 1,
    for the cost c of an example and any b that does not depend on its own choices. Here b is a
    moving average of the mean cost, b <- 0.9 b + 0.1 mean c after each step, from 0, and l is 0.1,
    as in the authors' code: a tenth of that part of the gradient, and of its noise. h = 0.002 times
    the entropy of the choices is taken from the cost, so that they stay open.
Departures: all is a mean over examples, where the code sums both terms over them, beside the mean
    of the cost; and c is the mean of what an example is asked for, as there, while the whole cost
    is that mean, too, and not the sum over words.
Cost: none to speak of; all choices of an example share one cost, so the estimate is noisy, the more
    so the more choices there are.

A mixer that samples so says `learns_by_score`. A `StackArchitecture` with such mixers returns, in
training, what its loss needs, as auxiliary outputs `LOG_PROBABILITY` and `ENTROPY`, `[batch]` each,
and keeps b as a buffer, `BASELINE`. All others return what they always did.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from models.interface import Outputs
from models.mixer import Mixer

LOG_PROBABILITY, ENTROPY = "log_probability", "entropy"  # auxiliary outputs
BASELINE = "cost_baseline"  # a buffer of the model
DECAY = 0.9
SCORE_WEIGHT, ENTROPY_WEIGHT = 0.1, 0.002  # l and h


class Choices(NamedTuple):
    """What a mixer has sampled in one pass.

    Attributes:
        log_probability: Of all choices of a sequence, `[batch]`; 0 where nothing was sampled.
        entropy: The sum of that of each choice, `[batch]`, in nats.
    """

    log_probability: Tensor
    entropy: Tensor


def score_term(
    costs: Tensor,
    shares: Tensor,
    choices: Choices,
    baseline: Tensor,
    *,
    score_weight: float = SCORE_WEIGHT,
    entropy_weight: float = ENTROPY_WEIGHT,
) -> Tensor:
    """A scalar that is 0 and has the gradient that the loss lacks.

    Args:
        costs: c of each example, `[batch]`.
        shares: Of each in the loss, so that costs times shares add up to it, `[batch]`.
        choices: What was sampled for it.
        baseline: b, a scalar.
        score_weight: l.
        entropy_weight: h.
    """
    advantages = (costs - baseline).detach()
    terms = score_weight * advantages * choices.log_probability - entropy_weight * choices.entropy
    term = (shares * terms).sum()
    return term - term.detach()


@torch.no_grad()
def move_baseline(baseline: Tensor, cost: Tensor) -> None:
    """Take in the mean cost of a step, in place."""
    baseline.lerp_(cost.to(baseline.dtype), 1 - DECAY)


def return_choices(model: nn.Module) -> None:
    """Let the model return, in training, what its mixers have sampled; none if they do not."""
    if _samplers(model):
        model.register_buffer(BASELINE, torch.zeros(()))
        model.register_forward_pre_hook(_begin)
        model.register_forward_hook(_returned)


def _samplers(model: nn.Module) -> list[Any]:
    mixers = (each for each in model.modules() if isinstance(each, Mixer))
    return [mixer for mixer in mixers if mixer.learns_by_score(mixer.config)]


def _begin(model: nn.Module, _: Any) -> None:
    for mixer in _samplers(model):
        mixer.choices = [] if model.training else None


def _returned(model: nn.Module, _: Any, returned: Tensor | Outputs) -> Tensor | Outputs:
    """The outputs with the sums over all choices of an example, of several sequences if it has."""
    if not model.training:
        return returned
    outputs = returned if isinstance(returned, Outputs) else Outputs(returned)
    found: list[Choices] = []
    for mixer in _samplers(model):
        found += mixer.choices
        mixer.choices = None
    sums = {
        name: sum(getattr(each, name).reshape(len(outputs.logits), -1).sum(1) for each in found)
        for name in (LOG_PROBABILITY, ENTROPY)
    }
    return Outputs(outputs.logits, {**outputs.auxiliary, **sums})
