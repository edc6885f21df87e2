"""Find out before a capture whether a step does something that no CUDA graph can hold.

A graph holds kernels and addresses of one device. While it is captured, nothing may wait for the
device: no number may be read from it, no shape may depend on its data, and nothing may be copied
between it and the CPU. Random numbers and decisions of the CPU would be the same in each replay.

These rules hold on any device, so that tests check them without a GPU: the device "meta" computes
nothing, and so has no numbers to read. Torch reports such errors only when the capture ends, and a
process whose capture has failed cannot draw random numbers on the GPU again.

Source: PyTorch's notes on CUDA graphs, "Constraints".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_aten: Any = torch.ops.aten
_INDEXING = {
    _aten.index,
    _aten.index_put,
    _aten.index_put_,
    _aten._index_put_impl_,
    _aten._unsafe_index,
    _aten._unsafe_index_put,
}
_COPIES = {_aten._to_copy, _aten.copy_, _aten.copy}
_FROM_PYTHON = (torch.tensor, torch.as_tensor, Tensor.new_tensor)
_READING = (Tensor.__getitem__, Tensor.__setitem__)


class NotCapturable(RuntimeError):
    """Raised if a step does something that no CUDA graph can hold."""


@contextmanager
def refusing_what_no_graph_holds(kind: str) -> Iterator[None]:
    """Reject operations in the block that a graph of the device cannot capture.

    Args:
        kind: The type of the device that computes, such as ``cuda`` or ``meta``. For ``cpu``, only
            operations that wait for numbers are rejected, since copies cannot be distinguished.

    Raises:
        NotCapturable: in the block, at the first operation that is rejected.
    """
    with _Functions(kind), _Operations(kind):
        yield


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that checks every operation, including those of the backward pass."""

    def __init__(self, kind: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kind = kind

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Reject the operation, or run it."""
        named = kwargs or {}
        if why := _why_refused(func, args, named, self._kind):
            raise NotCapturable(f"{func} {why}")
        return func(*args, **named)


def _why_refused(func: Any, args: Any, named: dict[str, Any], kind: str) -> str:
    tensors = [each for each in tree_leaves((args, named)) if isinstance(each, Tensor)]
    kinds = {each.device.type for each in tensors}
    asked = named.get("device")
    made_on = {torch.device(asked).type} if asked is not None else set()
    if kind not in kinds | made_on:
        is_drawn = torch.Tag.nondeterministic_seeded in func.tags and bool(kinds | made_on)
        return "draws on the CPU, which each replay would repeat" if is_drawn else ""
    packet = func.overloadpacket
    if torch.Tag.data_dependent_output in func.tags or packet is _aten._linalg_check_errors:
        return "waits for a number from the device"
    if packet in _INDEXING:
        indices = tree_leaves(args[1])
        if any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in indices):
            return "indexes by a mask: the result's shape depends on data"
    elif torch.Tag.dynamic_output_shape in func.tags and named.get("output_size") is None:
        return "returns a shape that depends on data"
    if packet in _COPIES and len(kinds | made_on) > 1:
        return "copies between the CPU and the device"
    is_seeded = "attention" in packet.__name__  # seeded by the CPU unless captured
    if not is_seeded and any(each.device.type != kind and each.dim() for each in tensors):
        return "reads a tensor of the CPU"
    generator = named.get("generator")
    return "draws from a generator of its own" if generator is not None else ""


class _Functions(TorchFunctionMode):
    """A mode that finds Python numbers that become tensors without an operation."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function, and reject it if it copies Python numbers to the device."""
        result = func(*args, **(kwargs or {}))
        if self._kind != "cpu" and self._is_from_python(func, args, result):
            name = getattr(func, "__name__", str(func))
            raise NotCapturable(f"{name} copies numbers of Python to the device")
        return result

    def _is_from_python(self, func: Any, args: Any, result: Any) -> bool:
        if func in _FROM_PYTHON:
            given = args[1] if func is Tensor.new_tensor else args[0] if args else None
            return result.device.type == self._kind and not isinstance(given, Tensor)
        if func not in _READING or args[0].device.type != self._kind:
            return False
        indices = args[1] if isinstance(args[1], tuple) else (args[1],)
        return any(isinstance(each, list) or _is_array(each) for each in indices)


def _is_array(index: object) -> bool:
    """Return True for an array, such as one of numpy."""
    return hasattr(index, "__array__") and not isinstance(index, Tensor)


def why_not_captured(step: Callable[[], object], kind: str) -> str:
    """Run the step once; return which operation no graph can hold, or "".

    Other errors are ignored here, because the step will raise them again when it runs normally.
    """
    try:
        with refusing_what_no_graph_holds(kind):
            step()
    except NotCapturable as error:
        return str(error)
    except Exception:  # a model may raise anything
        return ""
    return ""
