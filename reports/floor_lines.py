"""How do floors stand in a figure of scores? A thin dotted line each, its name above.

Floors may lie far away: chance would squeeze what is compared into a corner. So the axis grows to
three times what the variants span, at most; a floor beyond is named at that edge, with an arrow and
its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from reports.results.series import Series
from reports.stats.number_format import for_scores
from reports.svg import label

FLOORS_CAPTION = (
    "Dotted lines are floors, which need no architecture; one that lies far off is named at the "
    "edge, with its number."
)
_COLOUR = "#6b6f76"
_GROWTH = 3.0  # of the axis, at most, over what the variants span
_MARGIN = 0.05  # of the axis, on either side of what is drawn
_FONT_POINTS, _LETTER_POINTS, _LINE_POINTS = 8.0, 5.2, 11.0
_WIDTH_POINTS = 330.0  # of the axis, where names of variants are long
_GAP = 0.02  # of the axis, between two names


@dataclass(frozen=True, kw_only=True)
class _Name:
    """A name above the axis; places are shares of its width.

    Attributes:
        value: Of the floor; None where the name stands at an edge.
    """

    text: str
    value: float | None
    place: float
    side: str

    @property
    def ends(self) -> tuple[float, float]:
        """Where it begins and ends."""
        width = len(self.text) * _LETTER_POINTS / _WIDTH_POINTS
        before = {"left": 0.0, "center": width / 2, "right": width}[self.side]
        return self.place - before, self.place - before + width


def draw_floors(axes: Axes, series: Series, floors: Sequence[str]) -> None:
    """Lines and names; the limits of the axis of scores must fit the variants."""
    known = {floor: series.values(floor) for floor in floors}
    values = {floor: next(iter(found.values())) for floor, found in known.items() if found}
    if not values:
        return
    low, high = _limits(*axes.get_xlim(), list(values.values()))
    axes.set_xlim(low, high)
    nearest_first = sorted(values.items(), key=lambda each: abs(2 * each[1] - low - high))
    names = [_name(series, floor, value, low, high) for floor, value in nearest_first]
    for name, level in _stacked(names):
        if name.value is not None:
            axes.axvline(name.value, color=_COLOUR, linestyle=":", linewidth=1.1, zorder=1)
        axes.annotate(
            label(name.text), (name.place, 1.0), xycoords="axes fraction",
            xytext=(0, 2 + _LINE_POINTS * level), textcoords="offset points", ha=name.side,
            va="bottom", fontsize=_FONT_POINTS, color=_COLOUR,
        )  # fmt: skip


def _limits(low: float, high: float, values: Sequence[float]) -> tuple[float, float]:
    """Of the axis: the variants', and as many of the nearest floors as it may grow to hold."""
    most = _GROWTH * (high - low)
    for value in sorted(values, key=lambda each: max(low - each, each - high)):
        wider = min(low, value), max(high, value)
        margin = _MARGIN * (wider[1] - wider[0])
        wider = (
            wider[0] - margin if wider[0] < low else low,
            wider[1] + margin if wider[1] > high else high,
        )
        if wider[1] - wider[0] <= most:
            low, high = wider
    return low, high


def _name(series: Series, floor: str, value: float, low: float, high: float) -> _Name:
    if low <= value <= high:
        place = (value - low) / (high - low)
        side = "left" if place < 0.1 else "right" if place > 0.9 else "center"
        return _Name(text=floor, value=value, place=place, side=side)
    written = for_scores(series.unit, [], [value]).write(value)
    if value < low:
        return _Name(text=f"← {floor} {written}", value=None, place=0.0, side="left")
    return _Name(text=f"{floor} {written} →", value=None, place=1.0, side="right")


def _stacked(names: Sequence[_Name]) -> list[tuple[_Name, int]]:
    """Each with its line of text, counted from the axis: the first in which it hides no other."""
    lines: list[list[_Name]] = []
    found: list[tuple[_Name, int]] = []
    for name in names:
        free = (i for i, line in enumerate(lines) if not any(_hides(name, o) for o in line))
        level = next(free, len(lines))
        lines += [[]] if level == len(lines) else []
        lines[level].append(name)
        found.append((name, level))
    return found


def _hides(name: _Name, other: _Name) -> bool:
    (begin, end), (other_begin, other_end) = name.ends, other.ends
    return begin < other_end + _GAP and other_begin < end + _GAP
