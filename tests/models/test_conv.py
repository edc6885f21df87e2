"""Laws of the convolution that the reference does not settle."""

import pytest
import torch
from torch import Tensor

from models import ModelError, build_mixer


def tokens(length: int = 12, dim: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, length, dim, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("is_causal", [False, True])
def test_shifted_input_gives_shifted_output_in_the_interior(is_causal: bool) -> None:
    mixer = build_mixer("conv", dim=8, kernel_size=5, is_causal=is_causal).double()
    x = tokens()
    torch.testing.assert_close(mixer(x)[:, 5:-3], mixer(x[:, 1:])[:, 4:-3])


@pytest.mark.parametrize(
    ("is_causal", "kernel_size", "reach"),
    [(True, 1, {0}), (True, 4, {-3, -2, -1, 0}), (False, 5, {-2, -1, 0, 1, 2}), (False, 1, {0})],
)
def test_sees_its_kernel_and_nothing_else(
    is_causal: bool, kernel_size: int, reach: set[int]
) -> None:
    mixer = build_mixer("conv", dim=8, kernel_size=kernel_size, is_causal=is_causal).double()
    x = tokens().requires_grad_()
    (gradient,) = torch.autograd.grad(mixer(x)[0, 6].sum(), x)
    seen = gradient[0].abs().amax(dim=-1).nonzero().flatten() - 6
    assert set(seen.tolist()) == reach


def test_an_even_kernel_has_no_centre() -> None:
    assert build_mixer("conv", kernel_size=4, is_causal=True).kernel_size == 4
    with pytest.raises(ModelError, match="kernel_size=4 has no centre"):
        build_mixer("conv", kernel_size=4)
    with pytest.raises(ModelError, match="kernel_size=0 is below 1"):
        build_mixer("conv", kernel_size=0)


def test_parameters_are_a_matrix_per_tap_and_a_bias() -> None:
    mixer = build_mixer("conv", dim=64, kernel_size=3)
    assert sum(p.numel() for p in mixer.parameters()) == 3 * 64 * 64 + 64
    assert build_mixer("conv", dim=64, is_causal=True).state_bytes(10_000) == 2 * 64 * 4
