"""Tests of the processor for kernels of torch that need more than AVX2."""

from __future__ import annotations

from functools import cache

import pytest
import torch


@cache
def has_bf16_lstm() -> bool:
    """Return True if oneDNN has a bfloat16 recurrent kernel here, which needs AVX-512."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(8, 8)(torch.zeros(2, 2, 8))
    except RuntimeError:
        return False
    return True


needs_bf16_lstm = pytest.mark.skipif(
    not has_bf16_lstm(), reason="this processor has no LSTM in bfloat16"
)
