"""Count the longest chain of dependent operations of a computation.

Table 1 of "Attention Is All You Need" calls this sequential operations. Every operation that torch
dispatches and that writes numbers is one step, including copies; views and metadata do not count.
The depth inside one operation does not count, as in `bakeoff.models.mixer.Cost`: a sum, a matrix
product, a softmax, a fused attention, a Fourier transform (with its log n rounds) are one step
each. So the number contains a constant of little meaning; the result is how it grows with the
length.

Kernels that hide a loop over tokens are decomposed: with oneDNN off, a recurrence of torch runs as
single steps. Computations outside torch (a user's own kernel, numbers converted to Python) are not
observed. An operation is assumed to need all of its inputs; a slice of a buffer needs only what was
written there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# The operations that overwrite their target without reading it.
_OVERWRITING = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})


def longest_chain(function: Callable[[], Tensor]) -> int:
    """Return the number of operations on the longest chain that leads to the function's result.

    Gradients are disabled.
    """
    counter = _Counter()
    # oneDNN's kernels for recurrences are a loop over tokens in one operation. Its context manager
    # `flags` warns about other settings, so the switch is set here.
    onednn: Any = torch.backends.mkldnn
    was_enabled, onednn.enabled = onednn.enabled, False
    try:
        with torch.no_grad(), counter:
            result = function()
    finally:
        onednn.enabled = was_enabled
    return counter.depths.of(result)


class _Depths:
    """The depth of every element in memory: the length of the chain of operations that led to it.

    It is kept per storage, because views share storage, and per element if only a part was written.
    """

    def __init__(self) -> None:
        self._whole: dict[int, int] = {}
        self._parts: dict[int, Tensor] = {}
        self._held: list[object] = []  # keeps storages alive, so that no address is used twice

    def of(self, tensor: Tensor) -> int:
        """Return the largest depth of the tensor's elements; 0 for tensors from outside."""
        address = _address(tensor)
        if address in self._parts:
            return int(self._region(tensor).max()) if tensor.numel() else 0
        return self._whole.get(address, 0)

    def write(self, tensor: Tensor, depth: int) -> None:
        """Record `depth` for every element of the tensor."""
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
        """Return the depths of the tensor's elements, or of its storage if element sizes differ."""
        depths = self._parts[_address(tensor)]
        if len(depths) != _num_cells(tensor):  # complex numbers viewed as real ones
            return depths
        return depths.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that tracks every operation that runs inside it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.depths = _Depths()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation; its outputs are one step deeper than its inputs."""
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
    """Return the tensors in arguments or results, including nested ones."""
    if isinstance(given, Tensor):
        return [given]
    if isinstance(given, tuple | list):
        return [tensor for each in given for tensor in _tensors(each)]
    return _tensors(list(given.values())) if isinstance(given, dict) else []


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the arguments that the operation changes in place."""
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
