"""Record which kernels compute a model's attention, if torch can choose between several.

`scaled_dot_product_attention` uses the first of its kernels that supports the GPU, the head
dimensions, the dtype and the mask; its result does not show which. The same private function that
torch uses for its choice is called here; if that fails, no kernel is reported.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend
from torch.overrides import TorchFunctionMode


class AttentionChoice(TorchFunctionMode):
    """A context that records the kernel that torch chooses for each attention.

    Attributes:
        kernels: The names of the kernels, as in `bakeoff.models.kernels.attention_kernels`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernels: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Record the choice, then run; during a capture only run, to keep the query out of it."""
        given = kwargs or {}
        if func is functional.scaled_dot_product_attention and not _is_recorded(args[0]):
            with suppress(Exception):
                asked = {name: _under_autocast(value) for name, value in given.items()}
                self.kernels.add(_chosen(*map(_under_autocast, args), **asked))
        return func(*args, **given)

    @property
    def said(self) -> str:
        """The names of all kernels, such as ``flash, math``."""
        return ", ".join(sorted(self.kernels))


def _is_recorded(queries: Tensor) -> bool:
    return queries.is_cuda and torch.cuda.is_current_stream_capturing()


def _chosen(*args: Any, **how: Any) -> str:
    number = torch._fused_sdp_choice(*args, **how)
    return SDPBackend(number).name.removesuffix("_ATTENTION").lower()


def _under_autocast(given: Any) -> Any:
    """Cast a tensor as the function itself does under autocast."""
    if not isinstance(given, Tensor):
        return given
    kind = given.device.type
    is_turned = torch.is_autocast_enabled(kind) and given.dtype is torch.float32
    return given.to(torch.get_autocast_dtype(kind)) if is_turned else given
