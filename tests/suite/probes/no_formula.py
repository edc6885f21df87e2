"""A mixer that says nothing of its cost."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from torch import Tensor

from models.mixer import Mixer


class Silent(Mixer):
    """The mean of all tokens, padding included."""

    mask_mode: ClassVar[Literal["exact", "pads_as_tokens"]] = "pads_as_tokens"

    def forward(self, x: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        return x.mean(dim=1, keepdim=True).expand_as(x)


class Formless(Silent):
    """One that steps, and does not say what it keeps."""

    supports_causal: ClassVar[bool] = True
    supports_step: ClassVar[bool] = True
