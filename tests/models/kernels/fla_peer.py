"""A stand-in for the kernels of flash-linear-attention, by the definitions of the recurrences."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.removal_state import RemovalStreams, chunked_removal
from bakeoff.models.kernels.state_chunks import chunked


def peer(*, scale: float, lower_bound: float | None = None, **given: Tensor) -> tuple[Tensor, None]:
    """Compute what a kernel computes, with time before heads, and round it like a kernel."""
    assert scale == 1.0
    turned: dict[str, Any] = {}
    for key, part in given.items():
        part = part.unsqueeze(-1) if part.dim() == 3 else part
        turned[key] = part.transpose(1, 2).float()
    if "r" in given:
        assert lower_bound is not None
        read: Any = RemovalStreams(
            queries=turned["r"],
            keys=turned["k"],
            values=turned["v"],
            log_decay=turned["w"],
            found=turned["a"],
            erased=-turned["b"],
        )
        outputs = chunked_removal(read, size=16)
    else:
        has_delta = "beta" in given
        read = Streams(
            queries=turned["q"],
            keys=turned["k"],
            values=turned["v"],
            log_decay=turned.get("g"),
            strength=turned.get("beta"),
        )
        outputs = chunked(read, has_delta=has_delta, size=16)
    return outputs.transpose(1, 2).to(given["v"].dtype), None
