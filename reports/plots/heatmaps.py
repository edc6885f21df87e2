"""Draw matrices as a grid of shaded squares, with a row for each layer and a column for each head.

Each matrix is a small picture inside the drawing, with one pixel for each value and one byte for
each pixel, so that a page with many of them stays small. A figure has a single scale of shades.
"""

from __future__ import annotations

import base64
import hashlib
import io
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from bakeoff.reports.document import Drawing
from bakeoff.reports.plots.style import (
    GREY,
    INK,
    UNKNOWN_GLYPH,
    drawing_style,
    glyphs,
    label,
    to_svg,
)
from bakeoff.reports.results.samples import Matrix

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 7.2, 0.66, 0.2, 0.3, 0.72  # inches
_GAP_ACROSS, _GAP_DOWN, _WIDEST = 0.22, 0.26, 2.2
_MONO = "DejaVu Sans Mono"
_ADVANCE = 0.602  # width of its letters, in ems
_SMALLEST_LETTER = 4.5  # points
_SEQUENTIAL = ("#ffffff", "#0072b2", "#06203a")
_DIVERGING = ("#8a3b00", "#e69f00", "#ffffff", "#0072b2", "#06203a")
_NUM_SHADES = 48
_MOST_PANELS = 4  # in a row and in a column
# The left edge, top edge, width and height, in inches from the upper left corner of a figure.
Place = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A matrix of a figure, and its title."""

    title: str
    matrix: Matrix


@dataclass(frozen=True, kw_only=True)
class Shades:
    """A mapping of values to shades.

    Attributes:
        title: The quantity, in a few words.
        power: The exponent of the mapping: the shade is proportional to the value, scaled to
            `low` and `high`, raised to this power.
        ticks: The values labelled on the scale.
        written: Formats a value for its label.
    """

    title: str
    low: float
    high: float
    ticks: tuple[float, ...]
    written: Callable[[float], str]
    power: float = 1.0
    colours: tuple[str, ...] = _SEQUENTIAL

    @property
    def norm(self) -> PowerNorm:
        """The mapping of values to 0..1."""
        return PowerNorm(self.power, self.low, self.high)

    @property
    def map(self) -> LinearSegmentedColormap:
        """The mapping of 0..1 to colours."""
        return LinearSegmentedColormap.from_list("shades", self.colours, N=_NUM_SHADES)


WEIGHT_SHADES = Shades(  # the same in all figures, so that they can be compared
    title="share of the row’s weight",
    low=0.0,
    high=1.0,
    power=0.5,
    ticks=(0.0, 0.01, 0.05, 0.2, 0.5, 1.0),
    written=lambda value: f"{100 * value:.0f} %",
)
COSINE_SHADES = Shades(
    title="cosine",
    low=-1.0,
    high=1.0,
    ticks=(-1.0, -0.5, 0.0, 0.5, 1.0),
    written=lambda value: f"{value:g}".replace("-", "−"),
    colours=_DIVERGING,
)


def bias_shades(panels: Sequence[Panel]) -> Shades:
    """Return shades from the smallest to the largest value in a figure of biases."""
    low = min(float(panel.matrix.values.min()) for panel in panels)
    high = max(float(panel.matrix.values.max()) for panel in panels)
    high = high if high > low else low + 1.0
    return Shades(
        title="added to the score",
        low=low,
        high=high,
        ticks=tuple(np.linspace(low, high, 5)),
        written=lambda value: f"{value:.2g}".replace("-", "−"),
    )


def one_row_a_layer(found: Sequence[Matrix]) -> list[list[Panel]]:
    """Return the first heads of the first few layers, with encoder layers before decoder layers."""
    ordered = sorted(found, key=lambda m: (m.side == "decoder", m.layer, m.head))
    layers = list(dict.fromkeys(matrix.layer_name for matrix in ordered))[:_MOST_PANELS]
    rows = [[matrix for matrix in ordered if matrix.layer_name == layer] for layer in layers]
    return [[Panel(title=m.name, matrix=m) for m in row[:_MOST_PANELS]] for row in rows]


def grid_figure(
    rows: Sequence[Sequence[Panel]],
    shades: Shades,
    *,
    name: str,
    title: str,
    caption: str,
    description: str,
) -> Drawing:
    """Draw the panels, row by row, and the scale of their shades.

    Args:
        rows: At least one panel; rows may differ in length.
        shades: The shades of all panels.
        name: The name of the file, distinct within a report.
        title: The title under the figure.
        caption: Further text under the figure.
        description: The figure in words, for readers who cannot see it.
    """
    num_across = max(map(len, rows))
    free = _WIDTH - _LEFT - _RIGHT - (num_across - 1) * _GAP_ACROSS
    side = min(_WIDEST, free / num_across)
    height = _TOP + len(rows) * side + (len(rows) - 1) * _GAP_DOWN + _BOTTOM
    pictures = []
    with drawing_style():
        figure = Figure(figsize=(_WIDTH, height))
        for down, row in enumerate(rows):
            top = _TOP + down * (side + _GAP_DOWN)
            for across, panel in enumerate(row):
                place = (_LEFT + across * (side + _GAP_ACROSS), top, side, side)
                framed(figure, place)
                pictures.append(picture(panel.matrix.values, shades, place))
        _write(figure.axes, rows, side)
        pictures.append(draw_scale(figure, shades))
        svg = to_svg(figure, name=id_of(name, "m"), title=title, description=description)
    return drawing_of(svg, pictures, name, title, caption)


def id_of(name: str, letter: str) -> str:
    """Return a short id for use inside a drawing, which repeats it some hundred times."""
    return f"{letter}{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def drawing_of(svg: str, parts: Sequence[str], name: str, title: str, caption: str) -> Drawing:
    """Return a figure with parts drawn over it."""
    whole = svg[: svg.rindex("</svg>")] + "".join(parts) + "</svg>\n"
    return Drawing(name=name, title=title, caption=caption, svg=whole)


def framed(figure: Figure, place: Place) -> Axes:
    """Add axes without ticks, with a thin frame drawn as one path (spines would be four)."""
    left, top, across, down = place
    width, height = figure.get_size_inches()
    bottom = height - top - down
    axes: Axes = figure.add_axes((left / width, bottom / height, across / width, down / height))
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.patch.set(edgecolor=GREY, linewidth=1.2)
    return axes


def picture(values: NDArray[np.float64], shades: Shades, place: Place) -> str:
    """Return the values as an SVG `image`, with the first row on top."""
    levels = np.rint(np.clip(shades.norm(values), 0.0, 1.0) * (_NUM_SHADES - 1)).astype(np.uint8)
    image = Image.frombytes("P", levels.shape[::-1], levels.tobytes())
    colours = 255 * shades.map(np.arange(_NUM_SHADES))[:, :3]
    image.putpalette(np.rint(colours).astype(np.uint8).tobytes())
    return embedded(image, place)


def embedded(image: Image.Image, place: Place, name: str = "") -> str:
    """Return a picture as an SVG `image` without smoothing; `name`, if given, is its id."""
    buffer = io.BytesIO()
    image.save(buffer, format="png", optimize=True)
    left, top, width, height = (f"{72 * inches:.2f}" for inches in place)
    own = f'id="{name}" ' if name else ""
    return (
        f'<image {own}x="{left}" y="{top}" width="{width}" height="{height}" '
        'preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'xlink:href="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"/>'
    )


def _write(all_axes: Sequence[Axes], rows: Sequence[Sequence[Panel]], side: float) -> None:
    """Write titles, and the tokens beside the first panel of a row and below that of the last row.

    Every letter adds to the size of the drawing, so with many rows only the first has tokens
    beside it.
    """
    axes = iter(all_axes)
    is_grid = len(rows) > 1 and len({tuple(p.matrix.head for p in row) for row in rows}) == 1
    for down, row in enumerate(rows):
        for across, panel in enumerate(row):
            here = next(axes)
            is_other = down > 0 and panel.matrix.side != rows[down - 1][0].matrix.side
            if across == 0 and (down == 0 or len(rows) <= 2 or is_other):
                _label_places(here, panel.matrix, side, "y")
            if across == 0 and down == len(rows) - 1:
                _label_places(here, panel.matrix, side, "x")
            title = f"head {panel.matrix.head}" if is_grid else panel.title
            if down == 0 or not is_grid:
                width = round(14 * side)
                here.set_title(label(title, width), fontsize=8, pad=3, color=INK)
            if is_grid and across == 0:
                here.text(
                    -0.45 / side,
                    0.5,
                    panel.matrix.layer_name,
                    transform=here.transAxes,
                    rotation=90,
                    fontsize=8,
                    color=INK,
                    ha="center",
                    va="center",
                )


def _label_places(axes: Axes, matrix: Matrix, side: float, axis: Literal["x", "y"]) -> None:
    """Write letters as wide as a column if they are known and legible, otherwise numbers from 1."""
    size = 72 * side / matrix.values.shape[1] / _ADVANCE
    if matrix.letters and size >= _SMALLEST_LETTER:
        x, y, rotation = (0.0, -0.035, 0) if axis == "x" else (-0.035, 1.0, 270)
        axes.text(
            x,
            y,
            "".join(map(_letter, matrix.letters)),
            transform=axes.transAxes,
            rotation=rotation,
            rotation_mode="anchor",
            ha="left",
            va="top",
            family=_MONO,
            fontsize=size,
            color=INK,
        )
        return
    rows, columns = matrix.values.shape
    count = columns if axis == "x" else rows
    ticks = range(0, count, max(1, 8 * round(count / 32)))
    axes.set(**{f"{axis}lim": (-0.5, count - 0.5) if axis == "x" else (count - 0.5, -0.5)})
    getattr(axes, f"{axis}axis").set_ticks(ticks, [str(tick + 1) for tick in ticks], fontsize=7)
    axes.tick_params(axis=axis, length=2)


def _letter(character: str) -> str:
    """Return a visible character: ¶ for a new line, a dot for a space, a box if it has no glyph."""
    if character in "\n ":
        return "¶" if character == "\n" else "·"
    is_plain = character.isprintable() and not unicodedata.combining(character)
    return character if is_plain and ord(character) in glyphs(_MONO) else UNKNOWN_GLYPH


def draw_scale(figure: Figure, shades: Shades, left: float = _LEFT, width: float = 2.4) -> str:
    """Draw a strip of all shades under the panels, labelled with the values of some of them."""
    place = (left, figure.get_size_inches()[1] - 0.41, width, 0.11)
    axes = framed(figure, place)
    axes.set_xlim(0.0, 1.0)
    ticks = [float(shades.norm(tick)) for tick in shades.ticks]
    axes.set_xticks(ticks, [shades.written(tick) for tick in shades.ticks], fontsize=7)
    axes.tick_params(axis="x", length=2, pad=2)
    axes.text(
        1.04,
        0.5,
        label(shades.title),
        transform=axes.transAxes,
        va="center",
        fontsize=8,
        color=INK,
    )
    even = shades.norm.inverse(np.linspace(0.0, 1.0, _NUM_SHADES))
    return picture(np.asarray(even)[None, :], shades, place)
