"""Check properties of the convolution that the reference does not cover."""

import pytest
import torch
from torch import nn

from bakeoff.models import build_mixer


@pytest.mark.parametrize("is_causal", [False, True])
def test_is_torchs_convolution(is_causal: bool) -> None:
    torch.manual_seed(0)
    theirs = nn.Conv1d(16, 16, 5, padding=4 if is_causal else 2)
    torch.manual_seed(0)
    ours = build_mixer("conv", dim=16, kernel_size=5, is_causal=is_causal)
    x = torch.randn(2, 33, 16).double()
    found = theirs.double()(x.transpose(1, 2)).transpose(1, 2)[:, :33]
    torch.testing.assert_close(ours.double()(x), found, rtol=1e-14, atol=1e-14)
