"""How does a matrix become a specimen? One byte a value, so that a page of them stays small."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from torch import Tensor

from suite.schema import Specimen, SpecimenKind

_LEVELS = 255


def matrix_specimen(
    kind: SpecimenKind, title: str, matrix: Tensor, *, text: str = "", low: float | None = None
) -> Specimen:
    """Values between the smallest and the largest, off by at most half a 255th of that.

    Args:
        kind: As of `Specimen`.
        title: As of `Specimen`.
        matrix: `[rows, columns]`.
        text: As of `Specimen`.
        low: What level 0 stands for; the smallest value where not given.

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
        kind=kind, title=title, text=text, num_rows=levels.shape[0], num_columns=levels.shape[1],
        levels=base64.b64encode(bytes(levels.flatten().tolist())).decode(), low=bottom, high=top,
    )  # fmt: skip


def evenly_chosen(of: Sequence[int], most: int) -> list[int]:
    """At most that many, evenly spaced: the first, the last, and some between."""
    if len(of) <= most:
        return list(of)
    return [of[round(index * (len(of) - 1) / (most - 1))] for index in range(most)]
