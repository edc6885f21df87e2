"""Mixers that declare no cost."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor

from bakeoff.models.mixer import Mixer


class Silent(Mixer):
    """A mixer that returns the mean of all tokens, including padding."""

    mask_mode: ClassVar[Literal["exact", "pads_as_tokens"]] = "pads_as_tokens"

    def forward(self, x: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        return x.mean(dim=1, keepdim=True).expand_as(x)


class Formless(Silent):
    """A mixer that supports single steps but does not declare its state size."""

    supports_causal: ClassVar[bool] = True
    supports_step: ClassVar[bool] = True
