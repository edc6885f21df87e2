"""Holds the style of all figures, and turns a figure into SVG with the same bytes everywhere.

Colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which the colour-blind can
tell apart; beyond them, line styles and markers differ. Letters are drawn as paths, so that a page
looks alike everywhere. Ids are salted with a constant and start with the figure's name, so that
several figures can stand in one page. Where the reader's system is dark, a style sheet inside the
SVG replaces the colours of ink, grid and paper; a viewer that knows none shows the light figure.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from reports.document import readable
from reports.escape import one_line
from reports.stats.intervals import for_quantities

MAX_LINES = 12  # in one chart
_MOST_LINES = 4  # of a label
INK, GREY, BLUE = "#30343a", "#9aa0a6", "#0072B2"
FONT = "DejaVu Sans"
UNKNOWN_GLYPH = "□"
_DARK = {
    "#ffffff": "#14171c",
    INK: "#e6e9ed",
    "#5f6368": "#a3acb8",
    "#6b6f76": "#a3acb8",
    GREY: "#6b7480",
    "#e3e5e8": "#2b313a",
    "#8a4b00": "#e5c06a",
    "#0072b2": "#4aa3df",
}
_DARK_RULES = "".join(
    f'[style*="{of}: {light}"]{{{of}:{dark}!important}}'
    for light, dark in _DARK.items()
    for of in ("fill", "stroke")
)
_DARK_STYLE = f"<style>@media screen and (prefers-color-scheme: dark){{{_DARK_RULES}}}</style>"
_COLOURS = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
_DASHES = ("-", (0, (4, 1.5)))
_MARKERS = ("o", "s")
_STYLE = {
    "font.family": [FONT],
    "font.size": 10.0,
    "text.parse_math": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "bakeoff",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": "#5f6368",
    "ytick.color": INK,
    "axes.axisbelow": True,
    "grid.color": "#e3e5e8",
    "grid.linewidth": 0.8,
    "axes.unicode_minus": True,
}


@contextmanager
def drawing_style() -> Iterator[None]:
    """Our settings over matplotlib's own defaults, whatever the user's matplotlibrc says."""
    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if "backend" not in k}
    with matplotlib.rc_context({**defaults, **_STYLE}):
        yield


def line_look(index: int) -> dict[str, Any]:
    """Colour and dashes of the line with this number, as matplotlib's `plot` takes them."""
    dashes = _DASHES[index // len(_COLOURS) % len(_DASHES)]
    return {"color": _COLOURS[index % len(_COLOURS)], "linestyle": dashes}


def marker(index: int) -> str:
    """The shape of the points with this number; it changes where colours start again."""
    return _MARKERS[index // len(_COLOURS) % len(_MARKERS)]


def label(text: str, width: int = 44) -> str:
    """Text that a figure can hold, on several lines where it is long.

    Letters that the font lacks become boxes; what is longer than four lines is no name, and cut.
    """
    lines = textwrap.wrap(
        one_line(text), width, break_on_hyphens=False, max_lines=_MOST_LINES, placeholder="…"
    )
    return "\n".join(
        "".join(c if ord(c) in glyphs(FONT) else UNKNOWN_GLYPH for c in line) for line in lines
    )


@cache
def glyphs(family: str) -> frozenset[int]:
    """The code points that a font can draw."""
    font = font_manager.get_font(font_manager.findfont(family))
    return frozenset(font.get_charmap())


def axis_title(metric: str, unit: str, better: str) -> str:
    """Name, unit and direction of a metric, as on an axis."""
    shown = "" if unit == "1" else f" ({unit})"
    side = "" if better == "none" else f", {better} is better"
    return f"{readable(metric)}{shown}{side}"


def with_unit(unit: str, value: float) -> str:
    """Three digits with a prefix of its own: over six decades one for all would not do."""
    notation = for_quantities(unit, [value * (1 + 1e-9)])
    return notation.with_unit(f"{value / notation.factor:.3g}")


def caption(sentences: Mapping[str, bool]) -> str:
    """The sentences that hold, in one line."""
    return " ".join(sentence for sentence, holds in sentences.items() if holds)


def to_svg(figure: Figure, *, name: str, title: str, description: str) -> str:
    """The figure as SVG text, with a title and a description for those who cannot see it.

    The name stands before every id; it must be distinct within a page.
    """
    FigureCanvasSVG(figure)
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
    )
    body = re.sub(r"<!--.*?-->", "", buffer.getvalue(), flags=re.DOTALL)
    body = body[body.index("<svg") :]
    start, end = _compact(body, f"f{hashlib.sha256(name.encode()).hexdigest()[:6]}").split(">", 1)
    return (
        f'{start} role="img" aria-labelledby="{name}-title {name}-desc">\n '
        f'<title id="{name}-title">{html.escape(one_line(title))}</title>'
        f'<desc id="{name}-desc">{html.escape(one_line(description))}</desc>{_DARK_STYLE}{end}'
    )


def _compact(body: str, prefix: str) -> str:
    """The same drawing in less than two thirds of the bytes: a page holds dozens of them.

    Ids that nothing refers to go, the others become prefix and number; lengths are cut to
    hundredths of a point.
    """
    used = dict.fromkeys(re.findall(r'(?:xlink:href="|url\()#([^")]+)', body))
    short = {name: f"{prefix}-{number}" for number, name in enumerate(used)}
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{short[m[1]]}"' if m[1] in short else "", body)
    body = re.sub(r'(xlink:href="#|url\(#)([^")]+)', lambda m: m[1] + short[m[2]], body)
    body = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", body)
    return re.sub(r"\n\s+", "\n", body)
