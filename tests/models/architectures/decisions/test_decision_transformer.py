"""Check the Decision Transformer: the inputs of an action, and its independence of padding."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Architecture, Input, ModelError, ModelSpec, build_model
from bakeoff.models.interface import ACTIONS, INPUTS, RETURNS, TIMES

DIM, DEPTH, STEPS, STATE, NUM_ACTIONS, LIMIT = 16, 2, 6, 5, 3, 40
PLACE = 3  # the step of the action under test
MIXERS = ("attention", "gru", "lstm", "conv", "mamba2", "gated_delta")


def model_of(mixer: str = "attention", kind: Any = "tokens", **settings: Any) -> Architecture:
    """Build in float64 and evaluation mode, with parameters moved so that all inputs matter."""
    torch.manual_seed(0)
    others = {
        ACTIONS: Input(kind=kind, size=NUM_ACTIONS, length=STEPS),
        RETURNS: Input(kind="vectors", size=1, length=STEPS),
        TIMES: Input(kind="tokens", size=LIMIT, length=STEPS),
    }
    knobs = {"heads": 2} if mixer == "attention" else {}
    spec = ModelSpec(
        architecture="decision_transformer",
        mixer=mixer,
        knobs=knobs,
        position=settings.pop("position", "none"),
        dim=DIM,
        depth=DEPTH,
        length=STEPS,
        input_kind="vectors",
        input_size=STATE,
        output_size=NUM_ACTIONS,
        settings=settings,
        others=others,
    )
    model = build_model(spec)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model.double().eval()


def episode(kind: str = "tokens", batch: int = 2) -> dict[str, Tensor]:
    drawn = torch.Generator().manual_seed(1)
    actions = torch.randint(NUM_ACTIONS, (batch, STEPS), generator=drawn)
    if kind == "vectors":
        actions = torch.randn(batch, STEPS, NUM_ACTIONS, generator=drawn).double()
    return {
        INPUTS: torch.randn(batch, STEPS, STATE, generator=drawn).double(),
        ACTIONS: actions,
        RETURNS: torch.randn(batch, STEPS, 1, generator=drawn).double(),
        TIMES: torch.arange(STEPS).expand(batch, -1) + 4,
    }


def moved(given: dict[str, Tensor], name: str, steps: slice) -> dict[str, Tensor]:
    other = given[name].clone()
    if other.is_floating_point():
        other[:, steps] += 1.0
    else:
        other[:, steps] = (other[:, steps] + 1) % NUM_ACTIONS
    return {**given, name: other}


@pytest.mark.parametrize("kind", ["tokens", "vectors"])
@pytest.mark.parametrize("mixer", MIXERS)
def test_an_answer_sees_no_action_of_its_step_and_nothing_later(mixer: str, kind: str) -> None:
    model, given = model_of(mixer, kind), episode(kind)
    with torch.no_grad():
        found = model(**given)[:, PLACE]
        unseen = {ACTIONS: PLACE, INPUTS: PLACE + 1, RETURNS: PLACE + 1, TIMES: PLACE + 1}
        for name, first in unseen.items():
            other = model(**moved(given, name, slice(first, None)))
            assert torch.equal(other[:, PLACE], found), name
            assert first == STEPS - 1 or not torch.equal(other[:, -1], model(**given)[:, -1])


@pytest.mark.parametrize("mixer", MIXERS)
def test_an_answer_sees_its_state_and_return_and_all_that_was_before(mixer: str) -> None:
    model, given = model_of(mixer), episode()
    with torch.no_grad():
        found = model(**given)[:, PLACE]
        for name, last in {ACTIONS: PLACE - 1, INPUTS: PLACE, RETURNS: PLACE, TIMES: PLACE}.items():
            other = model(**moved(given, name, slice(last, last + 1)))[:, PLACE]
            assert ((other - found).abs().amax(dim=1) > 1e-6).all(), name


@pytest.mark.parametrize("has_returns", [True, False])
def test_only_a_clone_does_not_read_the_return(has_returns: bool) -> None:
    model, given = model_of(has_returns=has_returns), episode()
    other = moved(given, RETURNS, slice(None))
    assert torch.equal(model(**given), model(**other)) != has_returns
    assert any("asked" in name for name, _ in model.named_parameters()) == has_returns


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize("kind", ["tokens", "vectors"])
@pytest.mark.parametrize("mixer", MIXERS)
def test_what_stands_at_padding_is_never_read(mixer: str, kind: str, is_before: bool) -> None:
    model, given = model_of(mixer, kind), episode(kind)
    places = torch.arange(STEPS)
    counts = torch.tensor([[2], [STEPS - 1]])
    mask = places >= STEPS - counts if is_before else places < counts
    garbage = {
        name: each.masked_fill(
            ~mask.reshape(*mask.shape, *[1] * (each.ndim - 2)),
            math.nan if each.is_floating_point() else -7,
        )
        for name, each in given.items()
    }
    found, other = model(**given, mask=mask), model(**garbage, mask=mask)
    assert found[mask].isfinite().all()
    assert torch.equal(found[mask], other[mask])
    gradients = [
        torch.autograd.grad(each[mask].square().sum(), list(model.parameters()))
        for each in (found, other)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        assert torch.equal(ours, theirs)
        assert ours.isfinite().all()


def test_wherever_padding_stands_answers_of_attention_are_the_same() -> None:
    """Expect the outputs without padding: times are embedded, positions in the window are not."""
    model, short = model_of(), {name: each[:, :2] for name, each in episode().items()}
    alone = model(**short)
    for is_before in (True, False):
        wide = {name: _padded(each, is_before) for name, each in short.items()}
        mask = _padded(torch.ones(2, 2).bool(), is_before)
        torch.testing.assert_close(model(**wide, mask=mask)[mask], alone.flatten(0, 1))


def _padded(values: Tensor, is_before: bool) -> Tensor:
    filler = torch.zeros(len(values), STEPS - 2, *values.shape[2:], dtype=values.dtype)
    return torch.cat([filler, values] if is_before else [values, filler], dim=1)


def test_vectors_are_answered_between_minus_one_and_one_and_symbols_by_logits() -> None:
    continuous, discrete = (model_of(kind=kind) for kind in ("vectors", "tokens"))
    for model in (continuous, discrete):
        model.head.weight.data *= 100
    assert continuous(**episode("vectors")).abs().max() <= 1
    assert discrete(**episode()).abs().max() > 1


def test_returns_are_divided_by_their_scale() -> None:
    given = episode()
    scaled = {**given, RETURNS: 1_000 * given[RETURNS]}
    torch.testing.assert_close(model_of(return_scale=1_000.0)(**scaled), model_of()(**given))
    with pytest.raises(ModelError, match=r"decision_transformer: return_scale=0\.0 is not above 0"):
        model_of(return_scale=0.0)


def test_time_is_told_by_its_embedding_alone() -> None:
    given = episode()
    later = moved(given, TIMES, slice(None))
    assert not torch.equal(model_of()(**given), model_of()(**later))
    without = model_of(has_time=False)
    assert torch.equal(without(**given), without(**later))


@pytest.mark.parametrize("has_returns", [True, False])
def test_parameters_are_those_of_the_parts(has_returns: bool) -> None:
    model = model_of(has_returns=has_returns)
    embeddings = (STATE + 1) * DIM + (NUM_ACTIONS + LIMIT) * DIM + 2 * DIM * has_returns
    blocks = DEPTH * (4 * DIM * DIM + 8 * DIM * DIM + 5 * DIM + 4 * DIM)
    norms, head = 4 * DIM, (DIM + 1) * NUM_ACTIONS
    assert model.num_parameters() == embeddings + blocks + norms + head


def test_places_in_the_window_may_be_told_too() -> None:
    """Check that the table of positions has a row for each token, three for each step."""
    assert model_of(position="learned").trunk.position.table.shape == (3 * STEPS, DIM)
