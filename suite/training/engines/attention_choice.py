"""Finds out which kernels compute a model's attention, where torch has the choice.

`scaled_dot_product_attention` takes the first of its kernels that knows the GPU, the widths of the
heads, the numbers and the mask; nothing in its result says which. Torch is asked the question that
it asks itself, by a private function: where that fails, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend
from torch.overrides import TorchFunctionMode

from suite.events import Condition


class AttentionChoice(TorchFunctionMode):
    """A block in which the kernel that torch takes for each attention is recorded.

    Attributes:
        kernels: Their names, as `models.kernels.attention_kernels` has them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kernels: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Ask, then do as asked for; not while a GPU records, where the question would be work."""
        given = kwargs or {}
        if func is functional.scaled_dot_product_attention and not _is_recorded(args[0]):
            with suppress(Exception):
                asked = {name: _under_autocast(value) for name, value in given.items()}
                self.kernels.add(_chosen(*map(_under_autocast, args), **asked))
        return func(*args, **given)

    @property
    def said(self) -> str:
        """Return the names of all kernels, as ``flash, math``."""
        return ", ".join(sorted(self.kernels))

    def conditions(self) -> Iterator[Condition]:
        """Return the condition to record in a result, if there was any attention."""
        if self.said:
            yield Condition("attention kernel", self.said)


def _is_recorded(queries: Tensor) -> bool:
    return queries.is_cuda and torch.cuda.is_current_stream_capturing()


def _chosen(*args: Any, **how: Any) -> str:
    number = torch._fused_sdp_choice(*args, **how)
    return SDPBackend(number).name.removesuffix("_ATTENTION").lower()


def _under_autocast(given: Any) -> Any:
    """Convert the tensors as the function itself does under autocast."""
    if not isinstance(given, Tensor):
        return given
    kind = given.device.type
    is_turned = torch.is_autocast_enabled(kind) and given.dtype is torch.float32
    return given.to(torch.get_autocast_dtype(kind)) if is_turned else given
