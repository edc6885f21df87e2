"""Count the bytes of this process's tensors, without asking the operating system.

On a CPU the allocator keeps what was freed, so that the process's size says little. Exact are the
storages of the tensors that live, each once, and the profiler's events of allocation and release
during a step, whose running sum has a largest value.
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
    """The tensors that came into being since this was made.

    Attributes:
        bytes_on_gpu_before: Held there when this was made.
    """

    def __init__(self) -> None:
        gc.collect()  # garbage that goes later would be missed from what is on the GPU
        self._before = list(_tensors())  # held, so that their storages' addresses are not reused
        self._known = {_address(tensor) for tensor in self._before}
        is_in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self.bytes_on_gpu_before = torch.cuda.memory_allocated() if is_in_use else 0

    def bytes(self) -> int:
        """Of their storages, each counted once; those of gradients too, and of no garbage."""
        gc.collect()
        found = {_address(tensor): tensor.untyped_storage().nbytes() for tensor in _tensors()}
        return sum(size for address, size in found.items() if address not in self._known)


def peak_bytes(step: Callable[[], object], device: str, new: NewTensors) -> int:
    """The most that lives at any time of one step, new tensors from before it included.

    On a CPU the step runs twice: the profiler sees a block given back only if it saw it taken, and
    what a step gives back (old gradients) the step before has taken.
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
    """The most that one step ever takes, beyond what lived before it, of which it frees nothing."""
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
    """Without those of other classes: what torch's compiler leaves behind has no numbers."""
    for thing in gc.get_objects():
        if type(thing) in (Tensor, nn.Parameter):
            yield thing
            if thing.is_leaf and thing.grad is not None:
                yield thing.grad


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _largest_growth(seen: profile, since: str = "") -> int:
    """The largest sum of bytes taken (above 0) and given back (below 0) since that range began."""
    profiler: Any = seen.profiler
    events = profiler.kineto_results.events()
    begin = min((event.start_ns() for event in events if event.name() == since), default=0)
    memory = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    timed = sorted(memory, key=lambda change: change[0])
    return max(accumulate((int(size) for time, size in timed if time >= begin), initial=0))
