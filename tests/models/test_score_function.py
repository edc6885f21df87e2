"""Check the score-function estimator: its formulas, and the choices that a model returns."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models import ModelError, Outputs
from bakeoff.models.mixers.attentions import hard_attention
from bakeoff.models.score_function import BASELINE, Choices, move_baseline, score_term
from tests.models.small_models import build, inputs, spec

UNBIASED = {"score_weight": 1.0, "entropy_weight": 0.0}
REINFORCE = {"mixer": "hard_attention", "knobs": {"estimator": "reinforce", "heads": 1}}


def small(architecture: str = "tagger", **knobs: Any) -> Any:
    asked = spec(architecture, **REINFORCE)
    return replace(asked, knobs={**asked.knobs, **knobs})


def test_the_term_is_nothing_but_a_gradient() -> None:
    """Check by hand: l (c - b) grad log p, less h grad entropy, by the shares of the examples."""
    costs = torch.tensor([3.0, 0.5], requires_grad=True)
    log_p, entropy = (
        torch.tensor([x, y], requires_grad=True) for x, y in ((-1.0, -2.0), (4.0, 5.0))
    )
    term = score_term(
        costs * 1,
        torch.tensor([0.25, 0.75]),
        Choices(log_p, entropy),
        torch.tensor(2.0),
        score_weight=0.1,
        entropy_weight=0.2,
    )
    assert term.item() == 0
    term.backward()
    assert costs.grad is None, "a cost has its own gradient already"
    torch.testing.assert_close(log_p.grad, 0.1 * torch.tensor([0.25 * 1.0, 0.75 * -1.5]))
    torch.testing.assert_close(entropy.grad, -0.2 * torch.tensor([0.25, 0.75]))


def test_the_baseline_is_a_moving_average_from_zero() -> None:
    baseline, slow = torch.zeros(()), 0.0
    for mean in (5.0, 4.0, 1.0):
        move_baseline(baseline, torch.tensor(mean, requires_grad=True))
        slow = 0.9 * slow + 0.1 * mean
        assert baseline.item() == pytest.approx(slow)
    assert not baseline.requires_grad


def test_a_whole_model_has_the_gradient_of_the_expected_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check two layers, two tokens and all sixteen choices: both layers contribute."""
    model = build(small(soft_share=0.0)).double()
    tokens, target = torch.tensor([[3, 7]]), torch.tensor([1, 2])
    parameters = list(model.parameters())
    expected, total = torch.zeros(()).double(), 0.0
    estimated = [torch.zeros_like(parameter) for parameter in parameters]
    for places in product(range(2), repeat=4):
        left = torch.tensor(places).reshape(2, 1, 1, 2).unbind()
        turns = iter([1e6 * functional.one_hot(each, 2).double() for each in left])
        monkeypatch.setattr(hard_attention, "gumbel_like", lambda _, turns=turns: next(turns))
        outputs = model(tokens)
        choices = Choices(*outputs.auxiliary.values())
        cost = functional.cross_entropy(outputs.logits[0], target)
        probability = choices.log_probability.exp().sum()
        expected, total = expected + probability * cost, total + probability.item()
        term = score_term(cost[None], torch.ones(1), choices, torch.tensor(1.3), **UNBIASED)
        loss = cost + term
        found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        for sum_, each in zip(estimated, found, strict=True):
            sum_ += 0.0 if each is None else probability.detach() * each
    assert total == pytest.approx(1.0)
    exact = torch.autograd.grad(expected, parameters, allow_unused=True)
    for wanted, each in zip(exact, estimated, strict=True):
        torch.testing.assert_close(each, torch.zeros_like(each) if wanted is None else wanted)


def test_only_a_model_that_samples_so_returns_more_and_only_in_training() -> None:
    for knobs in ({"estimator": "soft"}, {"estimator": "straight_through"}):
        plain = build(small(**knobs))
        assert isinstance(plain(inputs(plain.spec)), Tensor)
        assert BASELINE not in plain.state_dict()
    model = build(small())
    assert model.state_dict()[BASELINE] == 0
    tokens = inputs(model.spec)
    for _ in range(2):
        outputs = model(tokens)
        assert isinstance(outputs, Outputs)
        assert {k: list(v.shape) for k, v in outputs.auxiliary.items()} == {
            "log_probability": [len(tokens)],
            "entropy": [len(tokens)],
        }
    assert isinstance(model.eval()(tokens), Tensor)
    assert all(mixer.choices is None for mixer in model.modules() if hasattr(mixer, "choices"))


def test_both_sequences_of_a_pair_count_for_the_pair() -> None:
    model = build(small("pair_classifier", soft_share=1.0))
    tokens = inputs(model.spec)
    both = model(tokens).auxiliary["entropy"]
    twice = [
        model(torch.stack([each, each], dim=1)).auxiliary["entropy"]
        for each in tokens.unbind(dim=1)
    ]
    assert not torch.allclose(*twice)
    torch.testing.assert_close(2 * both, sum(twice))


def test_a_translator_counts_its_context_mixers() -> None:
    model = build(replace(small("translator"), settings={"context_mixer": "hard_attention"}))
    calls = [mixer for mixer in model.modules() if hasattr(mixer, "choices")]
    assert len(calls) == 3 * model.spec.depth
    target = inputs(model.spec)
    entropy = model(target, context=target).auxiliary["entropy"]
    assert entropy.shape == (len(target),)
    entropy.sum().backward()
    assert all(mixer.query.weight.grad.abs().sum() > 0 for mixer in calls)


def test_a_reversible_stack_is_refused() -> None:
    asked = small()
    with pytest.raises(ModelError, match="hard_attention learns by what it samples"):
        build(replace(asked, settings={"residual": "reversible"}))
