"""Compare samples, their frequencies and their gradients with an enumeration of all choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import ModelError, build_mixer
from bakeoff.models.mixers.attentions import hard_attention
from bakeoff.models.mixers.attentions.hard_attention import HardAttention
from bakeoff.models.score_function import Choices, score_term

DIM, PLACES = 4, 3
UNBIASED = {"score_weight": 1.0, "entropy_weight": 0.0}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def mixer(*, seed: int = 0, heads: int = 1, is_causal: bool = False, **knobs: Any) -> Any:
    """Build a mixer in training mode."""
    torch.manual_seed(seed)
    built = build_mixer(
        "hard_attention", dim=DIM, heads=heads, max_length=16, is_causal=is_causal, **knobs
    )
    for parameter in built.parameters():
        parameter.data *= 2  # places must differ in weight
    return built.double()


def drawn(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def cost(output: Tensor) -> Tensor:
    """Return a nonlinear cost of each example, `[batch]`."""
    return (output - 1).square().sum(dim=(1, 2)).sqrt()


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, ...]], None]:
    """Return a function that makes the queries choose these places, in their order."""

    def forced(places: tuple[int, ...]) -> None:
        def noise(logs: Tensor) -> Tensor:
            chosen = torch.tensor(places).reshape(logs.shape[:-1])
            return 1e6 * torch.nn.functional.one_hot(chosen, logs.shape[-1]).to(logs.dtype)

        monkeypatch.setattr(hard_attention, "gumbel_like", noise)

    return forced


def probabilities(model: HardAttention, x: Tensor, context: Tensor) -> Iterator[tuple[Any, Tensor]]:
    """Yield all choices of the queries of one head, with their probabilities."""
    rows = model.attention_weights(x, context=context)[0, 0]
    for places in product(range(PLACES), repeat=len(rows)):
        yield places, torch.stack([row[j] for row, j in zip(rows, places, strict=True)]).prod()


def sampled(model: HardAttention, x: Tensor, context: Tensor) -> tuple[Tensor, Choices]:
    model.choices = []
    output = model(x, context=context)
    (choices,) = model.choices
    return output, choices


@pytest.mark.parametrize("baseline", [0.0, 1.7])
def test_reinforce_has_the_gradient_of_the_expected_cost(force: Any, baseline: float) -> None:
    """Check two queries, three places and all nine choices, whatever baseline the cost has."""
    model = mixer(estimator="reinforce", soft_share=0.0)
    x, context = drawn(1, 2, DIM), drawn(1, PLACES, DIM, seed=2)
    parameters = list(model.parameters())
    expected, estimated = torch.zeros(()).double(), [torch.zeros_like(p) for p in parameters]
    for places, probability in probabilities(model, x, context):
        force(places)
        output, choices = sampled(model, x, context)
        assert choices.log_probability.exp().item() == pytest.approx(probability.item())
        found = cost(output)
        expected = expected + probability * found.sum()
        loss = found.sum() + score_term(
            found, torch.ones(1).double(), choices, torch.tensor(baseline), **UNBIASED
        )
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
        for total, each in zip(estimated, gradients, strict=True):
            total += probability.detach() * each
    for exact, each in zip(torch.autograd.grad(expected, parameters), estimated, strict=True):
        torch.testing.assert_close(each, exact, rtol=1e-9, atol=1e-12)
        assert exact.abs().max() > 1e-3


def gradients_by_row(rows: int, queries: int = 1, **knobs: Any) -> tuple[Tensor, Tensor]:
    """Return each row's gradient of the mean cost, `[rows, dim]`, and the exact expectation."""
    model = mixer(**knobs)
    x, context = drawn(1, 1, DIM), drawn(1, PLACES, DIM, seed=2)
    torch.manual_seed(5)
    many = x.expand(rows, queries, -1).clone().requires_grad_()
    model.choices = []
    outputs = model(many, context=context.expand(rows, -1, -1))
    found = torch.stack([cost(each[:, None]) for each in outputs.unbind(dim=1)]).mean(dim=0)
    loss = found.sum()
    for choices in model.choices:
        loss = loss + score_term(found, torch.ones(rows), choices, found.mean(), **UNBIASED)
    (gradients,) = torch.autograd.grad(loss, many)
    x.requires_grad_()
    weights = model.attention_weights(x, context=context)[0, 0, 0]
    values = [model.output(model.value(context[:, j : j + 1])) for j in range(PLACES)]
    costs = torch.cat([cost(value) for value in values]).detach()
    (exact,) = torch.autograd.grad((weights * costs).sum() / queries, x)
    return gradients[:, 0], exact[0, 0]


def errors_of_the_mean(gradients: Tensor, exact: Tensor) -> Tensor:
    """Return the error of the mean in standard errors."""
    deviation = gradients.std(dim=0) / math.sqrt(len(gradients))
    return (gradients.mean(dim=0) - exact).abs() / deviation


def test_straight_through_is_biased_and_reinforce_is_not() -> None:
    gradients, exact = gradients_by_row(40_000, estimator="reinforce", soft_share=0.0)
    assert errors_of_the_mean(gradients, exact).max() < 4
    through, exact = gradients_by_row(40_000, estimator="straight_through")
    assert errors_of_the_mean(through, exact).max() > 10


def test_the_more_choices_share_a_cost_the_noisier_is_reinforce_alone() -> None:
    def noise(queries: int, estimator: str) -> float:
        found, _ = gradients_by_row(10_000, queries, estimator=estimator, soft_share=0.0)
        return (queries * found).var(dim=0).sum().item()

    assert noise(16, "straight_through") < 1.2 * noise(1, "straight_through")
    assert noise(16, "reinforce") > 3 * noise(1, "reinforce")


def test_a_lower_relaxation_is_noisier() -> None:
    low, high = (
        gradients_by_row(5_000, estimator="straight_through", relaxation=tau)[0] for tau in (0.2, 2)
    )
    assert low.var(dim=0).sum() > 4 * high.var(dim=0).sum()


@pytest.mark.parametrize("estimator", ["reinforce", "straight_through"])
def test_places_are_chosen_as_often_as_they_weigh(estimator: str) -> None:
    model = mixer(estimator=estimator, soft_share=0.0)
    torch.nn.init.eye_(model.value.weight)
    torch.nn.init.eye_(model.output.weight)
    rows, context = 20_000, torch.eye(DIM).double()[None, :PLACES]
    x = drawn(1, 1, DIM)
    torch.manual_seed(2)
    read = model(x.expand(rows, -1, -1), context=context.expand(rows, -1, -1))[:, 0, :PLACES]
    assert torch.equal(read.sum(dim=1), torch.ones(rows).double())
    assert set(read.unique().tolist()) == {0.0, 1.0}
    weights = model.attention_weights(x, context=context)[0, 0, 0]
    errors = (read.mean(dim=0) - weights).abs() / (weights * (1 - weights) / rows).sqrt()
    assert errors.max() < 4


@pytest.mark.parametrize("estimator", ["reinforce", "straight_through"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_what_is_hidden_is_never_chosen(force: Any, estimator: str, is_causal: bool) -> None:
    """Check with the largest noise; a query with all hidden reads zeros and gets no gradient."""
    model = mixer(estimator=estimator, soft_share=0.0, is_causal=is_causal, bias=True)
    x = drawn(2, PLACES, DIM).requires_grad_()
    mask = torch.tensor([[True, True, False], [False, False, False]])
    force((2,) * 6)
    model.choices = []
    output = model(x, mask)
    read = output - model.output.bias
    assert torch.all(read[1].abs() < 1e-12)
    assert torch.all(read[0].abs().sum(dim=-1) > 1e-3)
    (gradient,) = torch.autograd.grad(output.square().sum(), x, retain_graph=True)
    assert torch.all(gradient[0, 2] == 0)
    assert gradient.isfinite().all()
    for choices in model.choices:
        assert choices.log_probability[1] == choices.entropy[1] == 0
        assert choices.log_probability.isfinite().all()
        for each in choices:
            (gradient,) = torch.autograd.grad(each.sum(), x, retain_graph=True)
            assert gradient.isfinite().all()


def test_choices_of_padded_queries_do_not_count(force: Any) -> None:
    model, x = mixer(estimator="reinforce", soft_share=0.0, heads=2), drawn(1, 3, DIM)
    mask, found = torch.tensor([[True, True, False]]), []
    for given, real, places in ((x, mask, (0, 1, 0, 1, 0, 1)), (x[:, :2], None, (0, 1, 1, 0))):
        force(places)
        model.choices = []
        model(given, real)
        found += model.choices
    for each, other in zip(*found, strict=True):
        torch.testing.assert_close(each, other)


def test_the_entropy_is_that_of_the_weights() -> None:
    model, x = mixer(estimator="reinforce", heads=2, is_causal=True), drawn(3, 4, DIM)
    model.choices = []
    model(x)
    weights = model.attention_weights(x)
    slow = [sum(-a * math.log(a) for a in row.flatten().tolist() if a) for row in weights]
    assert model.choices[0].entropy.tolist() == pytest.approx(slow)


@pytest.mark.whole
def test_a_batch_is_soft_or_hard_as_a_whole() -> None:
    model, x = mixer(estimator="reinforce"), drawn(6, 5, DIM)
    soft, kinds = mixer(estimator="soft")(x), []
    for seed in range(200):
        torch.manual_seed(seed)
        model.choices = []
        output = model(x)
        rows = torch.isclose(output, soft).flatten(1).all(dim=1)
        assert rows.all() or not rows.any()
        assert torch.all((model.choices[0].log_probability == 0) == rows)
        kinds.append(bool(rows[0]))
    assert 70 < sum(kinds) < 130


def test_soft_is_attention_in_training_too() -> None:
    model, x = mixer(estimator="soft", heads=2), drawn(2, 5, DIM)
    attention = build_mixer("attention", dim=DIM, heads=2, max_length=16).double()
    attention.load_state_dict(model.state_dict())
    assert torch.equal(model(x), attention(x))


@pytest.mark.parametrize("reading", ["expectation", "argmax"])
def test_nothing_is_drawn_in_evaluation(reading: str) -> None:
    model, x = mixer(estimator="reinforce", reading=reading).eval(), drawn(2, 5, DIM)
    before = torch.get_rng_state()
    output = model(x)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(output, model(x))
    weights = model.attention_weights(x)
    if reading == "argmax":
        weights = torch.nn.functional.one_hot(weights.argmax(dim=-1), 5).double()
    torch.testing.assert_close(output, model.output((weights @ model.value(x)[:, None])[:, 0]))


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"soft_share": 1.5}, r"soft_share=1.5 is not between 0 and 1"),
        ({"soft_share": -0.1}, r"soft_share=-0.1 is not between 0 and 1"),
        ({"relaxation": 0.0}, r"relaxation=0.0 is not a finite number above 0"),
    ],
)
def test_what_is_no_chance_and_no_temperature_is_refused(
    knobs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        mixer(**knobs)
