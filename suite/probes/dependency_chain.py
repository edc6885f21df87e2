"""Count the longest chain of dependent operations of a computation.

Table 1 of "Attention Is All You Need" calls it sequential operations. Every operation that torch
dispatches and that writes numbers is one step, copies too; views and metadata are none. The depth
inside one operation does not count, as `models.mixer.Cost` says: a sum, a matrix product, a
softmax, a fused attention, a Fourier transform (whose log n rounds stay inside) are one step each.
So the number holds a constant that means little; how it grows with the length is what is asked.

Kernels that hide a loop over tokens are taken apart: with oneDNN off a recurrence of torch's runs
as single steps. What runs outside torch (a kernel of a user's own, numbers taken out to Python) is
not seen. An operation is taken to need all of what it reads; a slice of a buffer needs only what
was written there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# What they write over is not read.
_OVERWRITING = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})


def longest_chain(function: Callable[[], Tensor]) -> int:
    """Operations on the longest chain that leads to what the function returns; no gradients."""
    counter = _Counter()
    # oneDNN's kernels for recurrences are a loop over tokens in one operation.
    with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), counter:
        result = function()
    return counter.depths.of(result)


class _Depths:
    """For every number in memory, how many operations one after the other led to it.

    Kept by storage, since views share theirs; number by number where only a part was written.
    """

    def __init__(self) -> None:
        self._whole: dict[int, int] = {}
        self._parts: dict[int, Tensor] = {}
        self._held: list[object] = []  # so that no address is used twice

    def of(self, tensor: Tensor) -> int:
        """The deepest of the tensor's numbers; 0 for what was there before."""
        address = _address(tensor)
        if address in self._parts:
            return int(self._region(tensor).max()) if tensor.numel() else 0
        return self._whole.get(address, 0)

    def write(self, tensor: Tensor, depth: int) -> None:
        """Say so of all numbers of the tensor."""
        address = _address(tensor)
        is_part = tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()
        if is_part and address not in self._parts:
            self._parts[address] = torch.full(
                (_num_cells(tensor),), self._whole.get(address, 0), dtype=torch.int32
            )
        if address in self._parts:
            self._region(tensor).fill_(depth)
            return
        self._held.append(tensor.untyped_storage())
        self._whole[address] = depth

    def _region(self, tensor: Tensor) -> Tensor:
        """The tensor's part of the depths of its storage; all of them where sizes differ."""
        depths = self._parts[_address(tensor)]
        if len(depths) != _num_cells(tensor):  # complex numbers seen as real ones
            return depths
        return depths.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows every operation that runs inside it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.depths = _Depths()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it; what it writes is one step deeper than what it reads."""
        kwargs = kwargs or {}
        given, written = _tensors((args, kwargs)), _written(func, args, kwargs)
        overwrites = func._schema.name in _OVERWRITING or "out" in kwargs
        read = [t for t in given if not (overwrites and any(t is each for each in written))]
        depth = 1 + max(map(self.depths.of, read), default=0)
        result = func(*args, **kwargs)
        there = {_address(tensor) for tensor in given}
        made = [t for t in _tensors(result) if _address(t) not in there]
        for tensor in (*written, *made):
            self.depths.write(tensor, depth)
        return result


def _tensors(given: object) -> list[Tensor]:
    """Those in arguments or results, lists of them included."""
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, tuple | list):
        return [tensor for each in given for tensor in _tensors(each)]
    return _tensors(list(given.values())) if isinstance(given, dict) else []


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The arguments that the operation changes in place."""
    changed = [
        args[place] if place < len(args) else kwargs.get(argument.name)
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return _tensors(changed)


def _address(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _num_cells(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.element_size()
