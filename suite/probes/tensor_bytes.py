"""How many bytes do this process's tensors take? Counted, not guessed from what the system says.

On a CPU the allocator keeps what was freed, so that the process's size says little. Exact are the
storages of the tensors that live, each once, and the profiler's events of allocation and release
during a step, whose running sum has a largest value.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile


class NewTensors:
    """The tensors that came into being since this was made."""

    def __init__(self) -> None:
        self._before = list(_tensors())  # held, so that their storages' addresses are not reused
        self._known = {_address(tensor) for tensor in self._before}

    def bytes(self) -> int:
        """Of their storages, each counted once; those of gradients too, and of no garbage."""
        gc.collect()
        found = {_address(tensor): tensor.untyped_storage().nbytes() for tensor in _tensors()}
        return sum(size for address, size in found.items() if address not in self._known)


def peak_bytes(step: Callable[[], object], device: str, new: NewTensors) -> int:
    """The most that lives at any time of one step, what lived before it included."""
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    before = new.bytes()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    return before + _largest_sum(_allocations(seen))


def _tensors() -> Iterator[Tensor]:
    for thing in gc.get_objects():
        if issubclass(type(thing), Tensor):
            yield thing
            if thing.is_leaf and thing.grad is not None:
                yield thing.grad


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _allocations(seen: profile) -> list[int]:
    """Bytes taken (above 0) and given back (below 0), in the order of time."""
    profiler: Any = seen.profiler
    events = profiler.kineto_results.events()
    memory = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    return [size for _, size in sorted(memory, key=lambda timed: timed[0])]


def _largest_sum(changes: list[int]) -> int:
    total = largest = 0
    for change in changes:
        total += change
        largest = max(largest, total)
    return largest
