"""What goes into each softmax of a model's mixers, and what comes out? Fused kernels written out.

A fused kernel never writes scores and weights to memory. Here each call of torch's
`scaled_dot_product_attention` is replaced by its definition, for as long as somebody looks, so that
models need no seam for it and pay nothing for it otherwise. Softmaxes that mixers take by
themselves are noted as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_SOFTMAXES = (torch.softmax, Tensor.softmax, functional.softmax)


@dataclass(frozen=True, kw_only=True)
class Written:
    """One softmax over keys.

    Attributes:
        scores: `[..., queries, keys]`, what went in, scaled and biased; -inf, or the lowest number
            of its kind, where a key is hidden.
        weights: The same shape, what came out.
    """

    scores: Tensor
    weights: Tensor

    def visible(self) -> Tensor:
        """True where a key may be seen; the same shape."""
        return self.scores > torch.finfo(self.scores.dtype).min


@contextmanager
def softmaxes_written(mixers: Iterable[nn.Module]) -> Iterator[list[Written]]:
    """Those that the mixers take inside the block, in the order of the calls."""
    looking = _Looking()
    hooks = []
    for mixer in mixers:
        hooks.append(mixer.register_forward_pre_hook(looking.begin))
        hooks.append(mixer.register_forward_hook(looking.end))
    try:
        with looking:
            yield looking.found
    finally:
        for hook in hooks:
            hook.remove()


class _Looking(TorchFunctionMode):
    """Sees every call of torch; notes those that are made inside a mixer."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Written] = []
        self._is_inside = False

    def begin(self, *_: object) -> None:
        """A mixer is called."""
        self._is_inside = True

    def end(self, *_: object) -> None:
        """It has returned."""
        self._is_inside = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """See `TorchFunctionMode`."""
        named = dict(kwargs or {})
        if self._is_inside and func is functional.scaled_dot_product_attention:
            return self._attention(*args, **named)
        returned = func(*args, **named)
        if self._is_inside and func in _SOFTMAXES:
            scores = args[0] if args else named["input"]
            self.found.append(Written(scores=scores, weights=returned))
        return returned

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        """`scaled_dot_product_attention` by its documentation, without dropout."""
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query @ key.transpose(-1, -2) * factor
        if is_causal:
            attn_mask = torch.ones_like(scores, dtype=torch.bool).tril()
        if attn_mask is not None and attn_mask.dtype is torch.bool:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        weights = scores.softmax(dim=-1)
        self.found.append(Written(scores=scores, weights=weights))
        return weights @ value
