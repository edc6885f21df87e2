"""Check properties of all convolutions that the reference does not cover."""

from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from tests.models.small_models import tokens

names = pytest.mark.parametrize("name", ["conv", "dilated_conv", "separable_conv", "gated_conv"])


def sliding(name: str, is_causal: bool = False, **knobs: Any) -> Mixer:
    torch.manual_seed(0)
    return build_mixer(name, dim=8, is_causal=is_causal, **knobs).double()


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("is_causal", [False, True])
@names
def test_shifted_input_gives_shifted_output_in_the_interior(
    name: str, is_causal: bool, layer: int
) -> None:
    mixer, x = sliding(name, is_causal, kernel_size=3), tokens(12)
    mixer.take_place(layer, mixer)
    torch.testing.assert_close(mixer(x)[:, 5:-3], mixer(x[:, 1:])[:, 4:-3])
    first = mixer.dilation  # the last token that depends on the removed one
    assert not torch.allclose(mixer(x)[:, first], mixer(x[:, 1:])[:, first - 1])


@pytest.mark.parametrize(
    ("is_causal", "kernel_size", "reach"),
    [(True, 2, {-1, 0}), (True, 4, {-3, -2, -1, 0}), (False, 5, {-2, -1, 0, 1, 2})],
)
@names
def test_sees_its_kernel_and_nothing_else(
    name: str, is_causal: bool, kernel_size: int, reach: set[int]
) -> None:
    mixer, x = sliding(name, is_causal, kernel_size=kernel_size), tokens(12).requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x)[0, 6].sum(), x)
    seen = gradient[0].abs().amax(dim=-1).nonzero().flatten() - 6
    assert set(seen.tolist()) == reach


@names
def test_a_kernel_without_a_centre_or_without_a_neighbour_is_refused(name: str) -> None:
    assert sliding(name, is_causal=True, kernel_size=4).kernel_size == 4
    with pytest.raises(ModelError, match="kernel_size=4 has no centre"):
        build_mixer(name, kernel_size=4)
    for kernel_size in (0, 1):
        with pytest.raises(ModelError, match=f"kernel_size={kernel_size} is below 2"):
            build_mixer(name, kernel_size=kernel_size, is_causal=True)


@pytest.mark.parametrize("is_causal", [False, True])
@names
def test_taps_that_meet_no_token_cost_nothing_and_change_nothing(
    name: str, is_causal: bool
) -> None:
    """Compare a short sequence between zeros with all taps of a wide kernel."""
    mixer, x = sliding(name, is_causal, kernel_size=9), tokens(3)
    zeros = torch.zeros(2, 10, 8, dtype=torch.float64)
    whole = mixer(torch.cat([zeros, x, zeros], dim=1))[:, 10:13]
    torch.testing.assert_close(mixer(x), whole)
    assert mixer.num_taps(3) == (3 if is_causal else 5)
    assert mixer.num_taps(23) == 9
    assert mixer.flops(3) < 3 / 23 * mixer.flops(23)


@names
def test_the_state_grows_to_the_window_and_no_further(name: str) -> None:
    mixer = build_mixer(name, dim=64, is_causal=True)
    sizes = [mixer.state_bytes(length) for length in (0, 1, 2, 3, 10_000)]
    assert sizes == [size * 64 * 4 for size in (0, 1, 2, 2, 2)]
