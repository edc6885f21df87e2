"""Check properties of the separable convolution that the reference does not cover."""

import pytest
import torch

from bakeoff.models import build_mixer


@pytest.mark.parametrize("is_causal", [False, True])
def test_equals_the_convolution_that_it_factors(is_causal: bool) -> None:
    """Check W_j = P diag(w_j)."""
    separable = build_mixer("separable_conv", dim=8, kernel_size=5, is_causal=is_causal).double()
    full = build_mixer("conv", dim=8, kernel_size=5, is_causal=is_causal).double()
    product, taps = separable.pointwise.weight, separable.depthwise.weight  # (8, 8, 1), (8, 1, 5)
    full.load_state_dict(
        {"conv.weight": product * taps[:, 0], "conv.bias": separable.pointwise.bias}
    )
    x = torch.randn(2, 12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(separable(x), full(x))


def test_outputs_start_as_large_as_those_of_the_convolution() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 256, 256)
    variances = [build_mixer(name, dim=256)(x).var() for name in ("conv", "separable_conv")]
    torch.testing.assert_close(*variances, rtol=0.05, atol=0)
