"""Run a model as its spec declares: eagerly, or compiled by torch.

`compiled` is `torch.compile` with fixed shapes: fused kernels, compiled at the first call of each
shape and mode, which takes from seconds to minutes and is part of `first_call_seconds`. The results
stay the same, up to rounding; parameters are those of the model itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bakeoff.models.model_spec import Runtime
from bakeoff.suite.training.recipes import at_precision


class NoRuntime(Exception):
    """Raised if this machine cannot run a model as declared."""


def prepared(
    model: nn.Module, runtime: Runtime, device: str, precision: str = "float32"
) -> nn.Module:
    """Return the model, already on the device, as a module that runs as declared.

    At ``bf16`` it runs under autocast and returns float32. The returned module has the modes and
    parameters of the model.

    Raises:
        NoRuntime: if there is no compiler to compile with.
    """
    run = _compiled(model, device) if runtime == "compiled" else model
    return at_precision(run, precision, device)


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
