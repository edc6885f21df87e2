"""Attention that needs its weights, computed for a chunk of queries at a time.

No fused kernel mixes heads, samples keys or takes weights from a table, so a mixer that does writes
its weights to memory, and several more numbers for each pair of a query and a key. Here this is
done for a chunk of queries at a time, and the backward pass computes each chunk again (Rabe and
Staats 2021, arXiv:2112.05682). Memory then grows with the number of pairs in a chunk, not in the
sequence. A causal chunk omits the keys after its last query.

Chunks are used on a GPU only, and only for more than `SIZE` queries. On a CPU all pairs are
computed at once, as before there were chunks: results there do not change, and a pass is not
computed again where memory is plentiful.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bakeoff.models.kernels.softmax_attention import Visibility

SIZE = 256  # queries; in smaller chunks a GPU waits for launches, larger ones hold more memory
_asked: float | None = None  # see `chunks_of`; torch.compile cannot read a `ContextVar`

Attend = Callable[..., tuple[Tensor, ...]]


@contextmanager
def chunks_of(size: float) -> Iterator[None]:
    """Return a context in which chunks have this size on any device; `math.inf` for no chunks."""
    global _asked
    before, _asked = _asked, size
    try:
        yield
    finally:
        _asked = before


def is_in_chunks(queries: Tensor, *, size: int = SIZE) -> bool:
    """Return True if `over_queries` computes these queries, `[..., time, width]`, in chunks."""
    return queries.shape[-2] > _size_on(queries.device, size)


def over_queries(
    attend: Attend,
    of_queries: Sequence[Tensor],
    of_keys: Sequence[Tensor],
    visible: Visibility,
    *,
    size: int = SIZE,
) -> tuple[Tensor, ...]:
    """Return the results of `attend` for all queries, computed in chunks on a GPU.

    Args:
        attend: Function of all tensors of queries, all tensors of keys and a `Visibility`. Its
            results have the queries in the last dimension but one. It must draw no random numbers
            and change no state, since the backward pass calls it again.
        of_queries: Tensors with the queries in the last dimension but one.
        of_keys: Tensors with the keys in the last dimension but one.
        visible: The keys that each query may attend to.
        size: Queries per chunk on a GPU.
    """
    if not is_in_chunks(of_queries[0], size=size):
        return attend(*of_queries, *of_keys, visible)
    rows = int(_size_on(of_queries[0].device, size))
    found, start = [], 0
    for chunk in zip(*(torch.split(each, rows, dim=-2) for each in of_queries), strict=True):
        shown = visible.of_queries(start, start + chunk[0].shape[-2])
        keys = [each[..., : len(shown.keys), :] for each in of_keys]
        found.append(_recomputed(attend, *chunk, *keys, shown))
        start += rows
    return tuple(torch.cat(parts, dim=-2) for parts in zip(*found, strict=True))


def _recomputed(attend: Attend, *given: Tensor | Visibility) -> tuple[Tensor, ...]:
    """Return the results; their backward pass computes them again instead of keeping numbers."""
    if not torch.is_grad_enabled():
        return attend(*given)
    found: tuple[Tensor, ...] = checkpoint(
        attend,
        *given,
        use_reentrant=False,
        preserve_rng_state=False,  # nothing is drawn, and a CUDA graph cannot hold the state
    )
    return found


def _size_on(device: torch.device, size: int) -> float:
    if _asked is not None:
        return _asked
    return size if device.type == "cuda" else math.inf
