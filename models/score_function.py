"""Compute gradients for sampled choices with the score-function estimator, REINFORCE.

Paper: Williams 1992, "Simple Statistical Gradient-Following Algorithms for Connectionist
    Reinforcement Learning" (Machine Learning 8), equation 5; as Xu et al. 2015 (arXiv:1502.03044),
    section 4.1, use it for hard attention.
Equation: a choice s, drawn with probability p(s), gives no gradient to p. But
    grad E[c] = E[grad c + l (c - b) grad log p(s)] with l = 1,
    for the cost c of an example and any b that does not depend on its own choices. Here b is a
    moving average of the mean cost, b <- 0.9 b + 0.1 mean c after each step, from 0, and l is 0.1,
    as in the authors' code: a tenth of that part of the gradient, and of its noise. h = 0.002 times
    the entropy of the choices is subtracted from the cost, to keep the choices random.
Departures: both terms are means over examples, as the cost is, while the code sums them; c is the
    mean over the targets of an example, as in the code, but the whole cost is also that mean, not
    the sum over words.
Cost: negligible; all choices of an example share one cost, so the estimate is noisy, the more so
    the more choices there are.

A mixer that draws such samples returns True from `learns_by_score`. A `StackArchitecture` with such
mixers returns, in training, the auxiliary outputs `LOG_PROBABILITY` and `ENTROPY`, `[batch]` each,
which its loss needs, and keeps b as a buffer, `BASELINE`. Other models are unaffected.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bakeoff.models.interface import Outputs
from bakeoff.models.mixer import Mixer

LOG_PROBABILITY, ENTROPY = "log_probability", "entropy"  # auxiliary outputs
BASELINE = "cost_baseline"  # a buffer of the model
DECAY = 0.9
SCORE_WEIGHT, ENTROPY_WEIGHT = 0.1, 0.002  # l and h


class Choices(NamedTuple):
    """The samples that a mixer drew in one pass.

    Attributes:
        log_probability: Sum over all choices of a sequence, `[batch]`; 0 if nothing was sampled.
        entropy: Sum of the entropies of all choices, `[batch]`, in nats.
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
    """Return a scalar of value 0 that adds the missing gradient to the loss.

    Args:
        costs: c of each example, `[batch]`.
        shares: Weight of each example in the loss, `[batch]`: the loss is the sum of costs times
            shares.
        choices: The samples of each example.
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
    """Update the moving average with the mean cost of a step, in place."""
    baseline.lerp_(cost.to(baseline.dtype), 1 - DECAY)


def return_choices(model: nn.Module) -> None:
    """Let the model return its mixers' samples in training, if a mixer draws any."""
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
    """Return the outputs with the sums over all choices of an example and all its sequences."""
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
