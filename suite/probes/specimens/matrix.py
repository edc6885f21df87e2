"""Turn a matrix into a specimen, and choose a few of many."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from suite.schema import Specimen, SpecimenKind

_LEVELS = 255


def matrix_specimen(
    kind: SpecimenKind, title: str, matrix: Tensor, *, low: float | None = None, **words: Any
) -> Specimen:
    """Values of `[rows, columns]`, off by at most half a 255th of their range.

    Level 0 is `low`, or the smallest value; `words` are further fields of `Specimen`.

    Raises:
        ValueError: a value is not finite, or below `low`.
    """
    values = matrix.detach().cpu().double()
    bottom = values.min().item() if low is None else low
    top = values.max().item()
    if not values.isfinite().all() or values.min().item() < bottom:
        raise ValueError(f"{title}: a value is not finite, or below {bottom}")
    span = top - bottom
    levels = ((values - bottom) * (_LEVELS / span if span > 0 else 0.0)).round().byte()
    return Specimen(
        kind=kind,
        title=title,
        num_rows=levels.shape[0],
        num_columns=levels.shape[1],
        levels=base64.b64encode(bytes(levels.flatten().tolist())).decode(),
        low=bottom,
        high=top,
        **words,
    )


def evenly_chosen(of: Sequence[int], most: int) -> list[int]:
    """At most that many, evenly spaced: the first, the last, and some between."""
    if len(of) <= most:
        return list(of)
    return [of[round(index * (len(of) - 1) / (most - 1))] for index in range(most)]
