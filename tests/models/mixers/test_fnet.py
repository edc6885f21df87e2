"""Check properties of FNet that the reference does not cover."""

import math

import pytest
import torch
from torch import Tensor

from bakeoff.models import build_mixer
from tests.models.small_models import tokens


def dft_matrix(n: int) -> Tensor:
    index = torch.arange(n, dtype=torch.float64)
    return torch.exp(-2j * math.pi * index[:, None] * index[None, :] / n)


def test_is_the_product_with_two_dft_matrices() -> None:
    x = tokens()
    expected = (dft_matrix(7) @ x.to(torch.complex128) @ dft_matrix(8)).real
    torch.testing.assert_close(build_mixer("fnet", dim=8)(x), expected)


def test_is_linear_and_has_no_parameters() -> None:
    mixer, x, y = build_mixer("fnet", dim=8), tokens(), tokens(seed=2)
    torch.testing.assert_close(mixer(2 * x - 3 * y), 2 * mixer(x) - 3 * mixer(y))
    assert not list(mixer.parameters())


def test_outputs_are_larger_by_sqrt_of_half_the_numbers_mixed() -> None:
    gain = build_mixer("fnet", dim=64)(tokens(128, 64)).std().item()
    assert math.isclose(gain, math.sqrt(128 * 64 / 2), rel_tol=0.05)


def test_the_orthonormal_transform_is_the_same_but_for_a_factor() -> None:
    x = tokens()
    ortho = build_mixer("fnet", dim=8, norm="ortho")(x)
    torch.testing.assert_close(ortho * math.sqrt(7 * 8), build_mixer("fnet", dim=8)(x))


def test_the_mask_is_not_read() -> None:
    mixer, x = build_mixer("fnet", dim=8), tokens()
    assert torch.equal(mixer(x, torch.zeros(2, 7, dtype=torch.bool)), mixer(x))


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 9])
def test_the_half_that_is_not_computed_is_mirrored_right(length: int, dim: int) -> None:
    x = tokens(length, dim)
    torch.testing.assert_close(build_mixer("fnet", dim=dim)(x), torch.fft.fft2(x).real)


@pytest.mark.parametrize("norm", ["none", "ortho"])
def test_the_gradient_is_the_transform_itself_and_has_one_too(norm: str) -> None:
    mixer, x = build_mixer("fnet", dim=8, norm=norm), tokens().requires_grad_()
    direction = tokens(seed=2).requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x), x, direction, create_graph=True)
    torch.testing.assert_close(gradient, mixer(direction))
    (second,) = torch.autograd.grad(gradient, direction, tokens(seed=3))
    torch.testing.assert_close(second, mixer(tokens(seed=3)))


def test_bfloat16_is_transformed_in_float32() -> None:
    mixer, x = build_mixer("fnet", dim=8), tokens().bfloat16()
    assert torch.equal(mixer(x), mixer(x.float()).bfloat16())
