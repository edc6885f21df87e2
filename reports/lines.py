"""How are lines told apart, and where do their names stand?

Colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which the colour-blind can
tell apart; beyond them, line styles and markers differ. The name of a line stands beside the
plot, at the height of its end, never over data and never over another name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from matplotlib.axes import Axes

from reports.svg import label
from suite.schema import About

MAX_LINES = 12
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#30343a",
)  # fmt: skip
_DASHES = ("-", (0, (4, 1.5)))
_MARKERS = ("o", "s")
_GAP = 0.068  # of the height of the plot
MAX_LETTERS = 34


@dataclass(frozen=True, kw_only=True)
class LineName:
    """A name to be put beside the plot.

    Attributes:
        height: Of the end of its line, from 0 at the bottom of the plot to 1 at the top.
        look: Of the stroke that stands before it, as matplotlib's `plot` takes it.
        mark: Stands after the text, however short that must be cut.
    """

    height: float
    text: str
    look: Mapping[str, Any]
    mark: str = ""


def look(index: int) -> dict[str, Any]:
    """Colour and dashes of the line with this number."""
    dashes = _DASHES[index // len(_COLOURS) % len(_DASHES)]
    return {"color": _COLOURS[index % len(_COLOURS)], "linestyle": dashes}


class OfVariant(Protocol):
    """Something that is drawn of one variant."""

    @property
    def variant(self) -> str:
        """Its label."""


_Drawn = TypeVar("_Drawn", bound=OfVariant)


def numbered(about: About, drawn: Iterable[_Drawn]) -> list[tuple[int, _Drawn]]:
    """Each with the place of its variant in the table: one look in all figures of a page."""
    place = {variant: index for index, variant in enumerate(about.variants)}
    return [(place[one.variant], one) for one in drawn]


def marker(index: int) -> str:
    """The shape of the points with this number; it changes where colours start again."""
    return _MARKERS[index // len(_COLOURS) % len(_MARKERS)]


def write_names(axes: Axes, names: Sequence[LineName]) -> None:
    """Put the names at the right edge, near the ends of their lines, from top to bottom."""
    ordered = sorted(names, key=lambda name: -min(max(name.height, 0.0), 1.0))
    heights = spread([min(max(name.height, 0.0), 1.0) for name in ordered])
    for height, name in zip(heights, ordered, strict=True):
        axes.plot(
            [1.02, 1.06], [height, height], transform=axes.transAxes, clip_on=False, **name.look
        )
        text = label(name.text, length=MAX_LETTERS) + name.mark
        axes.text(1.075, height, text, transform=axes.transAxes, va="center", fontsize=9)


def spread(heights: Sequence[float]) -> list[float]:
    """Descending heights, moved apart by at least the gap, as near to where they were as fits."""
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - _GAP) if placed else height)
    lowest = 0.0
    for index in reversed(range(len(placed))):
        placed[index] = max(placed[index], lowest)
        lowest = placed[index] + _GAP
    return placed
