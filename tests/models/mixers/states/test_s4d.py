"""Check properties of S4D that the reference does not cover: its state space and initial values."""

import math

import pytest
import torch
from torch import Tensor

from bakeoff.models import Mixer, ModelError, build_mixer
from bakeoff.models.initialisation import declared

LENGTH = 71  # long enough for the transforms


def mixer(is_causal: bool = True, dim: int = 4, **knobs: object) -> Mixer:
    torch.manual_seed(0)
    built = build_mixer("s4d", dim=dim, is_causal=is_causal, **{"state": 8, **knobs})
    return built.double().eval()


def eigenvalues(s4d: Mixer) -> Tensor:
    return torch.complex(-s4d.log_decay.exp(), s4d.frequency).detach()


def test_the_kernel_is_the_state_space_held_constant_over_each_step() -> None:
    """Check exp([[A, B], [0, 0]] dt) = [[A', B'], [0, 1]], and K_l = 2 Re(C A'^l B')."""
    s4d = mixer()
    (found,) = s4d.kernels(LENGTH, torch.float64)
    for channel, (a, log_step) in enumerate(zip(eigenvalues(s4d), s4d.log_step, strict=True)):
        joined = torch.zeros(5, 5, dtype=torch.complex128)
        joined[:4, :4], joined[:4, 4] = torch.diag(a), 1.0
        held = torch.matrix_exp(joined * log_step.exp())
        state, c = held[:4, 4], torch.view_as_complex(s4d.reading[0, channel])
        for place in range(LENGTH):
            torch.testing.assert_close(found[channel, place], 2 * (c @ state).real)
            state = held[:4, :4] @ state


@pytest.mark.parametrize("state", [2, 8])
def test_the_recurrence_equals_the_convolution_over_many_tokens(state: int) -> None:
    s4d, x = mixer(state=state), torch.randn(2, 200, 4, dtype=torch.float64)
    held, outputs = s4d.initial_state(2), []
    for x_t in x.unbind(dim=1):
        output, held = s4d.step(x_t, held)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs, dim=1), s4d(x), rtol=0, atol=1e-11)


def test_short_steps_lose_no_digits_of_float32() -> None:
    s4d = mixer()
    s4d.log_step.data.fill_(math.log(1e-6))
    single, double = (
        s4d.kernels(50, dtype)[0].detach().double() for dtype in (torch.float32, torch.double)
    )
    torch.testing.assert_close(single, double, rtol=1e-5, atol=1e-6 * float(double.abs().max()))


def test_whatever_is_learnt_a_state_decays() -> None:
    s4d = mixer()
    s4d.log_decay.data.normal_(std=3.0)
    s4d.log_step.data.normal_(std=3.0)
    assert eigenvalues(s4d).real.max() < 0
    state = (torch.ones(1, 4, 4, 2, dtype=torch.float64),)
    norm = state[0].square().sum(dim=-1)
    for _ in range(3):
        _, state = s4d.step(torch.zeros(1, 4, dtype=torch.float64), state)
        last, norm = norm, state[0].square().sum(dim=-1)
        assert torch.all((norm < last) | (last == 0))


def test_steps_start_between_a_thousandth_and_a_tenth() -> None:
    steps = mixer(dim=1000).log_step.exp()
    assert 1e-3 <= steps.min() < 1.1e-3
    assert 0.09 < steps.max() <= 0.1
    assert steps.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.2)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("lin", [complex(-0.5, math.pi * n) for n in range(4)]),
        ("inv", [complex(-0.5, 8 / math.pi * (8 / (2 * n + 1) - 1)) for n in range(4)]),
        ("real", [complex(-1 - n, 0) for n in range(4)]),
    ],
)
def test_eigenvalues_start_as_the_paper_says(named: str, expected: list[complex]) -> None:
    found = eigenvalues(mixer(eigenvalues=named))
    torch.testing.assert_close(found, torch.tensor([expected] * 4, dtype=torch.complex128))


def test_readings_start_as_complex_numbers_of_variance_one() -> None:
    reading = torch.view_as_complex(mixer(dim=500, state=64).reading)
    assert reading.abs().square().mean().item() == pytest.approx(1, abs=0.03)


def test_without_the_second_kernel_both_directions_are_one() -> None:
    both, one = mixer(is_causal=False), mixer()
    x = torch.randn(2, LENGTH, 4, dtype=torch.float64)
    state = both.state_dict() | {"reading": both.reading[:1]}
    one.load_state_dict(state)
    assert not torch.allclose(both(x), one(x))
    both.reading.data[1] = 0
    torch.testing.assert_close(both(x), one(x))


def test_the_recurrence_keeps_its_draw_and_does_not_decay() -> None:
    s4d = mixer()
    still = {s4d.log_step, s4d.log_decay, s4d.frequency}
    assert declared(s4d, "no_weight_decay") == still
    assert declared(s4d, "keeps_own_draw") == still | {s4d.reading, s4d.skip}


@pytest.mark.parametrize("state", [0, 1, 3])
def test_a_state_that_is_not_made_of_pairs_is_refused(state: int) -> None:
    with pytest.raises(ModelError, match=f"s4d: state={state} is not an even number of at least 2"):
        build_mixer("s4d", dim=8, state=state)


def test_autocast_leaves_the_convolution_in_float32() -> None:
    s4d, x = mixer().float(), torch.randn(2, LENGTH, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = s4d(x)
    error = (low - s4d(x)).square().mean().sqrt() / s4d(x).square().mean().sqrt()
    assert error < 0.01
