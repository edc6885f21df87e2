"""Count the bytes of this process's tensors, without using the size of the process.

On a CPU the allocator keeps freed memory, so the size of the process says little. Exact values are
the storages of live tensors, each counted once, and the maximum of the running sum of the
profiler's allocation and release events during a step.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

_WATCHED = "bakeoff: the step that is watched"


class NewTensors:
    """The tensors that were created since this object was made.

    Attributes:
        bytes_on_gpu_before: The bytes that were allocated on the GPU when this was made.
    """

    def __init__(self) -> None:
        gc.collect()  # garbage that is freed later would distort the GPU's count
        self._before = list(_tensors())  # keeps their storages, so that addresses are not reused
        self._known = {_address(tensor) for tensor in self._before}
        is_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self.bytes_on_gpu_before = torch.cuda.memory_allocated() if is_in_use else 0

    def bytes(self) -> int:
        """Return the bytes of their storages, each counted once, including gradients."""
        gc.collect()
        found = {_address(tensor): tensor.untyped_storage().nbytes() for tensor in _tensors()}
        return sum(size for address, size in found.items() if address not in self._known)


def peak_bytes(step: Callable[[], object], device: str, new: NewTensors) -> int:
    """Return the peak bytes of live tensors in one step, including new tensors from before it.

    On a CPU the step runs twice: the profiler only records the release of a block if it recorded
    the allocation, and the blocks that a step releases (old gradients) are allocated by the step
    before.
    """
    if device != "cpu":
        return _peak_on_cuda(step) - new.bytes_on_gpu_before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
        before = new.bytes()
        with record_function(_WATCHED):
            step()
    return before + _largest_growth(seen, since=_WATCHED)


def growth_bytes(step: Callable[[], object], device: str) -> int:
    """Return the peak bytes of a step above those live before, none of which it may free."""
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        return _peak_on_cuda(step) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    return _largest_growth(seen)


def _peak_on_cuda(step: Callable[[], object]) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def _tensors() -> Iterator[Tensor]:
    """Yield tensors and gradients, but no subclasses; those of torch's compiler have no data."""
    for thing in gc.get_objects():
        if type(thing) in (Tensor, nn.Parameter):
            yield thing
            if thing.is_leaf and thing.grad is not None:
                yield thing.grad


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _largest_growth(seen: profile, since: str = "") -> int:
    """Return the largest running sum of allocated minus released bytes since that range began."""
    profiler: Any = seen.profiler
    events = profiler.kineto_results.events()
    begin = min((event.start_ns() for event in events if event.name() == since), default=0)
    memory = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    timed = sorted(memory, key=lambda change: change[0])
    return max(accumulate((int(size) for time, size in timed if time >= begin), initial=0))
