"""The convolution of each channel with a filter as long as the sequence.

    y_t = sum_{s <= t} past_{t-s} x_s + sum_{s > t} future_{s-t-1} x_s

Long sequences use Fourier transforms over at least twice the length, so that the ends do not wrap
around; sequences of up to `SHORT` tokens use one matrix per channel, which is faster there.

Causality: in the matrix, entries above the diagonal are zero, so an output is bitwise independent
    of later tokens. A transform rounds each output relative to the largest of all, so in longer
    sequences later tokens change an output in its last digits: by about 1e-16 of the largest in
    float64, 1e-7 in float32. A model cannot learn from that, but it is not zero.
Gradients: correlations, by the same transforms. Torch's own gradient of a real transform is a
    complex one of the whole length, which makes training take twice as long.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from bakeoff.models.errors import ModelError

SHORT = 40  # tokens
_ALIGNED = 8  # the number of columns of a matrix is rounded up to a multiple of this


def long_convolution(x: Tensor, past: Tensor, future: Tensor | None = None) -> Tensor:
    """Convolve every channel with its own filter.

    Args:
        x: `[batch, channels, time]`, at least float32.
        past: `[channels, time]`, weights of a token for itself, for the next one, and so on.
        future: `[channels, time]`, weights of a token for the one before it, and so on, or None for
            a causal convolution; the last number is not used.

    Returns:
        `[batch, channels, time]`.
    """
    length = x.shape[-1]
    if x.numel() == 0:  # MKL raises for an empty transform
        return x
    if length <= SHORT:
        return _by_matrix(x, _around(past, future, 2 * length - 1))
    filters = _around(past, future, transform_size(length))
    mixed: Tensor = _ByTransform.apply(x, filters)  # type: ignore[no-untyped-call]
    return mixed


def transform_size(length: int) -> int:
    """Return the least of 4, 5, 6 or 7 times a power of two that holds a sequence and a filter."""
    least = 2 * length - 1
    step = 1 << max(least.bit_length() - 3, 0)
    return -(-least // step) * step


def long_convolution_flops(length: int, channels: int, batch: int) -> float:
    """Return the FLOPs of matrices, or of transforms: filters, and sequences in both directions."""
    if length <= SHORT:
        return 2.0 * batch * channels * length * (length + -length % _ALIGNED)
    size = transform_size(length)
    return (2 * batch + 1) * channels * 5 * size * math.log2(size)


def long_convolution_bytes(length: int, channels: int, batch: int) -> float:
    """Return the peak bytes of a forward pass: filters, three spectra, and the uncropped result.

    Raises:
        ModelError: The sequence is so short that it is convolved by matrices.
    """
    if length <= SHORT:
        raise ModelError(
            f"a long convolution of at most {SHORT} tokens gives no formula for its bytes"
        )
    size = transform_size(length)
    spectra = (2 * batch + 1) * (2 * (size // 2) + 2)
    return 4.0 * channels * (size + spectra + batch * size)


def _around(past: Tensor, future: Tensor | None, size: int) -> Tensor:
    """Return a circular filter `[channels, size]`: past from 0 upwards, future from the end."""
    length = past.shape[-1]
    if future is None:
        return functional.pad(past, (0, size - length))
    gap = past.new_zeros(past.shape[0], size - 2 * length + 1)
    return torch.cat([past, gap, future[:, : length - 1].flip(-1)], dim=-1)


def _by_matrix(x: Tensor, filters: Tensor) -> Tensor:
    """Convolve with Toeplitz matrices of `filters`, circular filters of the least size.

    This takes four operations one after the other, as the transforms do: if the number of dependent
    operations grew from one form to the other, it would be mistaken for steps from token to token.
    """
    length, num_more = x.shape[-1], -x.shape[-1] % _ALIGNED
    places = torch.arange(length + num_more, device=x.device)
    lags = (places[:length].unsqueeze(1) - places) % filters.shape[-1]
    matrices = filters.index_select(1, lags.flatten()).reshape(-1, length, length + num_more)
    columns = functional.pad(x, (0, num_more)).permute(1, 2, 0)
    mixed = torch.bmm(matrices, columns.clone(memory_format=torch.contiguous_format))
    return mixed.permute(2, 0, 1).clone(memory_format=torch.contiguous_format)


class _ByTransform(torch.autograd.Function):
    """Circular convolution of x `[batch, channels, time]` with filters `[channels, size]`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, filters: Tensor) -> Tensor:
        """Multiply the spectra, and save them."""
        size = filters.shape[-1]
        spectrum, response = torch.fft.rfft(x, n=size), torch.fft.rfft(filters)
        ctx.save_for_backward(spectrum, response)
        ctx.size, ctx.length = size, x.shape[-1]
        mixed: Tensor = torch.fft.irfft(spectrum * response, n=size)
        return mixed[..., : x.shape[-1]]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Multiply by the complex conjugate of the other spectrum."""
        spectrum, response = ctx.saved_tensors
        turned = torch.fft.rfft(gradient, n=ctx.size)
        of_x = of_filters = None
        if ctx.needs_input_grad[0]:
            of_x = torch.fft.irfft(turned * response.conj(), n=ctx.size)[..., : ctx.length]
        if ctx.needs_input_grad[1]:
            summed = (turned * spectrum.conj()).sum(dim=0)
            of_filters = torch.fft.irfft(summed, n=ctx.size)
        return of_x, of_filters
