"""A CUDA graph's stand-in on a CPU: it repeats the operations of a step on the same tensors.

As there, Python runs once, numbers that it passes are fixed, and a number that it asks a tensor
for is refused. Unlike there, random numbers are drawn by the CPU's generator. Once a capture has
failed, it draws no more, until `repaired`: so a GPU's generator refuses for the rest of a process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from suite.errors import CaptureFailed

Operation = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]


class Tape(TorchDispatchMode):
    """Notes every operation, backward ones included."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Raises RuntimeError where the operation tells Python a number or a shape."""
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
    """In place of `suite.training.engines.recording.on_gpu`, warm-up included."""
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
    """Draws nothing, as a generator that believes that it is being captured."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Raises RuntimeError where the operation draws."""
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
    """Put what came out now where it came out then; a view lies there already."""
    for old, new in zip(tree_leaves(before), tree_leaves(now), strict=True):
        if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
            old.copy_(new)
