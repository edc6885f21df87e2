"""Laws of FNet that the reference does not settle."""

import math

import torch
from torch import Tensor

from models import build_mixer


def tokens(length: int = 7, dim: int = 8, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, length, dim, generator=generator, dtype=torch.float64)


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
