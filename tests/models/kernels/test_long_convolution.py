"""Check the two forms of a long convolution: sums, gradients, leaks and costs."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import ModelError
from bakeoff.models.kernels.long_convolution import (
    SHORT,
    long_convolution,
    long_convolution_bytes,
    long_convolution_flops,
    transform_size,
)

LENGTHS = (1, 2, SHORT, SHORT + 1, 71)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def by_loops(x: Tensor, past: Tensor, future: Tensor | None) -> Tensor:
    out = torch.zeros_like(x)
    for t in range(x.shape[-1]):
        for s in range(x.shape[-1]):
            if s <= t:
                out[..., t] += past[:, t - s] * x[..., s]
            elif future is not None:
                out[..., t] += future[:, s - t - 1] * x[..., s]
    return out


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("length", LENGTHS)
def test_equals_the_double_sum(length: int, is_causal: bool) -> None:
    x, past = drawn(2, 3, length), drawn(3, length, seed=1)
    future = None if is_causal else drawn(3, length, seed=2)
    expected = by_loops(x, past, future)
    torch.testing.assert_close(long_convolution(x, past, future), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [SHORT, SHORT + 1])
def test_gradients_equal_finite_differences(length: int) -> None:
    parts = (drawn(2, 2, length), drawn(2, length, seed=1), drawn(2, length, seed=2))
    assert torch.autograd.gradcheck(long_convolution, [part.requires_grad_() for part in parts])


def test_no_bit_leaks_in_a_short_sequence_and_only_rounding_in_a_long_one() -> None:
    for length, leak in ((SHORT, 0.0), (1000, 1e-14)):
        x, past, half = drawn(2, 3, length), drawn(3, length, seed=1), length // 2
        other = torch.cat([x[..., :half], drawn(2, 3, length - half, seed=2)], dim=-1)
        found, changed = (long_convolution(each, past) for each in (x, other))
        difference = (found - changed)[..., :half].abs().max()
        assert difference <= leak * found.abs().max()


def test_a_transform_is_long_enough_and_little_longer() -> None:
    for length in range(2, 3000):
        size, odd = transform_size(length), transform_size(length)
        while odd % 2 == 0:
            odd //= 2
        assert odd in (1, 3, 5, 7)
        assert 2 * length - 1 <= size <= 1.25 * (2 * length - 1) + 1
    assert transform_size(1024) == 2048


def transforms(shape: tuple[int, ...], dims: list[int], *_: Any, **__: Any) -> float:
    return sum(5 * math.prod(shape) * math.log2(shape[dim]) for dim in dims)


def inverse(shape: Any, dims: list[int], *_: Any, out_shape: tuple[int, ...], **__: Any) -> float:
    return transforms(out_shape, dims)


@pytest.mark.parametrize("length", [1, SHORT, 71, 128])
def test_flops_equal_the_counter_transforms_back_too(length: int) -> None:
    aten = torch.ops.aten
    counter = FlopCounterMode(
        display=False, custom_mapping={aten._fft_r2c: transforms, aten._fft_c2r: inverse}
    )
    with counter:
        long_convolution(drawn(3, 4, length), drawn(4, length, seed=1))
    expected = long_convolution_flops(length, channels=4, batch=3)
    assert counter.get_total_flops() == pytest.approx(expected, rel=1e-12)


def test_bytes_of_a_short_one_are_refused() -> None:
    assert long_convolution_bytes(SHORT + 1, 4, 1) > 0
    with pytest.raises(ModelError, match="at most 40 tokens gives no formula for its bytes"):
        long_convolution_bytes(SHORT, 4, 1)


def test_an_empty_batch_stays_one() -> None:
    assert long_convolution(drawn(0, 3, 71), drawn(3, 71)).shape == (0, 3, 71)
