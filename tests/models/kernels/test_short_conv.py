"""Compare depthwise convolutions with torch's, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.kernels.short_conv import depthwise

BATCH, TIME, CHANNELS = 2, 7, 3


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(
    ("taps", "before"), [(1, 0), (4, 3), (4, 0), (4, 1), (5, 2), (5, 1), (9, 8)]
)
def test_depthwise_equals_conv1d_between_zeros(taps: int, before: int, has_bias: bool) -> None:
    """Check any number of taps before a token, even more than there are tokens."""
    torch.manual_seed(0)
    x, kernels = drawn(BATCH, TIME, CHANNELS), drawn(CHANNELS, 1, taps)
    bias = drawn(CHANNELS) if has_bias else None
    inputs = [x, kernels, *([] if bias is None else [bias])]
    padded = functional.pad(x.transpose(1, 2), (before, taps - 1 - before))
    expected = functional.conv1d(padded, kernels, bias, groups=CHANNELS).transpose(1, 2)
    found = depthwise(x, kernels, bias, before=before)
    slope = torch.randn_like(expected)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, slope),
        torch.autograd.grad(expected, inputs, slope),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
