"""Run a model as its spec declares: compiled by torch, or recorded as a CUDA graph.

`compiled` is `torch.compile` with fixed shapes: fused kernels, compiled at the first call of each
shape and mode, which takes from seconds to minutes and is part of `first_call_seconds`.
`cuda_graph` records the kernels that are launched at the first call of each shape and mode, and
launches them again as a whole. The results stay the same, up to rounding; parameters are those of
the model itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.models.interface import Outputs
from bakeoff.models.model_spec import Runtime
from bakeoff.suite.training.recipes import at_precision

_Signature = tuple[object, ...]


class NoRuntime(Exception):
    """Raised if this machine cannot run a model as declared."""


def prepared(
    model: nn.Module, runtime: Runtime, device: str, precision: str = "float32"
) -> nn.Module:
    """Return the model, already on the device, as a module that runs as declared.

    At ``bf16`` it runs under autocast, which is recorded with it, and returns float32. The returned
    module has the modes and parameters of the model.

    Raises:
        NoRuntime: if there is no compiler to compile with, or no GPU to record on.
    """
    if runtime == "eager":
        return at_precision(model, precision, device)
    if runtime == "compiled":
        return at_precision(_compiled(model, device), precision, device)
    if device == "cpu":
        raise NoRuntime("runtime='cuda_graph' needs a GPU, and this trial has none.")
    return _Graphed(at_precision(model, precision, device, is_cached=False))


def compiled_for_steps(model: nn.Module, device: str) -> nn.Module:
    """Return the model compiled; it draws the random numbers that it would draw eagerly.

    A compiled model shares parameters with the model, which can still be run eagerly.

    Raises:
        NoRuntime: if there is no compiler.
    """
    return _compiled(model, device, options={"fallback_random": True})


def _compiled(
    model: nn.Module,
    device: str,
    options: dict[str, str | int | bool | Callable[..., Any]] | None = None,
) -> nn.Module:
    if device == "cpu" and not _has_cpp_compiler():
        raise NoRuntime(
            "runtime='compiled' on a CPU needs a C++ compiler (g++, or the one that CXX names), "
            "and none works here."
        )
    compiled: nn.Module = torch.compile(model, dynamic=False, options=options)  # type: ignore[assignment]
    return compiled


def _has_cpp_compiler() -> bool:
    """Return True if torch finds a C++ compiler; its own error would come late and be long."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return False
    return True


class _Graphed(nn.Module):
    """A model that is recorded once for each shape and mode, and replayed.

    Its outputs and gradients are in memory that the next replay overwrites; use them before.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.train(model.training)
        self._recorded: dict[_Signature, Callable[..., Any]] = {}

    def forward(self, *unnamed: Tensor, **named: Tensor) -> Tensor | Outputs:
        """Run the model, whose arguments must all be tensors."""
        given = (*unnamed, *named.values())
        signature = (
            self.model.training,
            torch.is_grad_enabled(),
            tuple(named),
            *((each.shape, each.dtype, each.requires_grad) for each in given),
        )
        if signature not in self._recorded:
            self._recorded[signature] = _record(self.model, given, tuple(named))
        found: Tensor | Outputs = self._recorded[signature](*given)
        return found


def _record(
    model: nn.Module, given: tuple[Tensor, ...], names: tuple[str, ...]
) -> Callable[..., Any]:
    """Record warm-up, forward and backward, with separate inputs to copy into.

    Recording replaces the `forward` of the recorded module, so each recording gets its own wrapper,
    which shares the model's parameters.
    """
    shell = _Shell(model, names)
    shell.training = model.training  # only the wrapper's mode
    own = tuple(each.detach().clone().requires_grad_(each.requires_grad) for each in given)
    recorded: Any = torch.cuda.make_graphed_callables(shell, own, allow_unused_input=True)
    replay: Callable[..., Any] = recorded
    return replay


class _Shell(nn.Module):
    """A module that takes all tensors by position, as a recording does."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self._names = model, names

    def forward(self, *given: Tensor) -> Any:
        num_unnamed = len(given) - len(self._names)
        named = dict(zip(self._names, given[num_unnamed:], strict=True))
        return self.model(*given[:num_unnamed], **named)
