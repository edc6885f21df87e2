"""Check that a language model gives the same outputs token by token as for a whole sequence."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
from torch import Tensor

from bakeoff.models import MIXERS, POSITIONS, ModelError, ModelSpec, build_shapes, mixer_class
from tests import battery
from tests.models.small_models import BATCH, LENGTH, SYMBOLS, build, inputs, spec

STEPPERS = [name for name in MIXERS if mixer_class(name).supports_step]
SETTINGS = [
    {},
    {"norm_placement": "post"},
    {"has_residual": False, "is_tied": False},
    {"position_mode": "concatenated", "norm_placement": "post"},
]


def goes(model_spec: ModelSpec) -> bool:
    try:
        build_shapes(model_spec)
    except ModelError:
        return False
    return True


# By default each mixer, each position and each setting once; the battery combines them.
DEFAULT = [
    *((mixer, "learned", SETTINGS[0]) for mixer in STEPPERS),
    *(("attention", position, SETTINGS[0]) for position in POSITIONS),
    *(("attention", "learned", settings) for settings in SETTINGS),
]
WANTED = itertools.product(STEPPERS, POSITIONS, SETTINGS) if battery.is_wanted else DEFAULT
CASES = [
    case
    for mixer, position, settings in WANTED
    if goes(case := spec("language_model", mixer, position=position, **settings))
]


def one_by_one(model: torch.nn.Module, tokens: Tensor) -> Tensor:
    state, logits = model.initial_state(len(tokens)), []
    for t in range(tokens.shape[1]):
        of_next, state = model.step(tokens[:, t], state)
        assert state.num_tokens == t + 1
        logits.append(of_next)
    return torch.stack(logits, dim=1)


def test_cases_hold_every_mixer_that_steps_every_position_and_every_setting() -> None:
    assert {case.mixer for case in CASES} == set(STEPPERS)
    assert {case.position for case in CASES} == set(POSITIONS)
    assert {tuple(case.settings) for case in CASES} == {tuple(each) for each in SETTINGS}


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.mixer}-{case.position}-{dict(case.settings)}"
)
def test_steps_equal_the_parallel_form(case: ModelSpec) -> None:
    model = build(case).double().eval()
    tokens = inputs(case, length=5 if case.settings else LENGTH)
    with torch.no_grad():
        torch.testing.assert_close(one_by_one(model, tokens), model(tokens), rtol=1e-9, atol=1e-9)


def test_steps_can_be_trained_through() -> None:
    model = build(spec("language_model", "gru")).double()
    tokens = inputs(model.spec, length=4)
    (all_at_once,) = torch.autograd.grad(model(tokens).sum(), model.embedding.table.weight)
    (stepwise,) = torch.autograd.grad(one_by_one(model, tokens).sum(), model.embedding.table.weight)
    torch.testing.assert_close(stepwise, all_at_once, rtol=1e-9, atol=1e-9)


def test_a_state_can_be_continued_twice() -> None:
    """Check that steps change no state in place, so that one continuation cannot affect another."""
    for mixer in STEPPERS:
        model = build(spec("language_model", mixer)).double().eval()
        tokens = inputs(model.spec)
        with torch.no_grad():
            _, state = model.step(tokens[:, 0], model.initial_state(BATCH))
            first, _ = model.step(tokens[:, 1], state)
            model.step((tokens[:, 1] + 1) % SYMBOLS, state)
            again, _ = model.step(tokens[:, 1], state)
        assert torch.equal(first, again)


def test_a_model_that_cannot_step_says_why() -> None:
    masked = build(spec("masked_language_model"))
    with pytest.raises(ModelError, match="attention steps only when built with is_causal=True"):
        masked.initial_state(BATCH)
    fourier = build(spec("masked_language_model", "fnet"))
    with pytest.raises(ModelError, match="fnet has no step form"):
        fourier.initial_state(BATCH)


@pytest.mark.parametrize("mode", ["added", "concatenated"])
@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_a_place_beyond_the_position_is_refused(position: str, mode: str) -> None:
    model = build(spec("language_model", "conv", position=position, position_mode=mode)).eval()
    tokens = inputs(model.spec, length=LENGTH + 1)
    for read in (model, partial(one_by_one, model)):
        with pytest.raises(ModelError, match="has positions for 33 tokens, not 34"):
            read(tokens)
