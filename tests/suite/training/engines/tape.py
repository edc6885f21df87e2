"""A stand-in for a CUDA graph on a CPU: repeat the operations of a step on the same tensors.

In both, Python runs once, the numbers that it passes are fixed, and reading a number from a tensor
is an error. Here, random numbers come from the CPU's generator. After a failed capture it raises
until `repaired` is called, as a GPU's generator does until the process ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bakeoff.suite.errors import CaptureFailed

Operation = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]


class Tape(TorchDispatchMode):
    """A mode that records every operation, including those of the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Record an operation.

        Raises:
            RuntimeError: The operation returns a number or a data-dependent shape to Python.
        """
        kwargs = kwargs or {}
        if (
            torch.Tag.data_dependent_output in func.tags
            or torch.Tag.dynamic_output_shape in func.tags
        ):
            raise RuntimeError("operation not permitted when stream is capturing")
        result = func(*args, **kwargs)
        self.operations.append((func, args, kwargs, result))
        return result


def recorded(work: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Record a step after its warm-up; replaces `engines.recording.on_gpu`."""
    for _ in range(3):
        work()
    try:
        with Tape() as tape:
            result = work()
    except Exception as error:
        _broken.append(_Broken())
        _broken[-1].__enter__()
        raise CaptureFailed(str(error)) from error

    def replay() -> Tensor:
        with torch.no_grad():
            for func, args, kwargs, before in tape.operations:
                _overwrite(before, func(*args, **kwargs))
        return result

    return replay


class _Broken(TorchDispatchMode):
    """A mode that fails on random operations, as a generator does after a failed capture."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation; raise RuntimeError if it draws random numbers."""
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
        return func(*args, **(kwargs or {}))


_broken: list[_Broken] = []


def repaired() -> bool:
    """Let the generator draw again; return whether a capture had failed."""
    is_broken = bool(_broken)
    while _broken:
        _broken.pop().__exit__(None, None, None)
    return is_broken


def _overwrite(before: Any, now: Any) -> None:
    """Copy new results into the recorded tensors; a view already shares their memory."""
    for old, new in zip(tree_leaves(before), tree_leaves(now), strict=True):
        if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
            old.copy_(new)
