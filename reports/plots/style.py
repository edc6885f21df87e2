"""Define the style of all figures, and convert a figure to SVG that is identical on all machines.

The colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which colour-blind
readers can tell apart; when they are used up, line styles and markers change. Letters are drawn as
paths, so that a page looks the same everywhere. Ids are salted with a constant and start with the
figure's name, so that one page can hold several figures. On systems with a dark theme, a style
sheet inside the SVG replaces the colours of ink, grid and paper; a viewer that does not support
style sheets shows the light figure.
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

from bakeoff.reports.document import readable
from bakeoff.reports.escape import one_line
from bakeoff.reports.stats.intervals import for_quantities

MAX_LINES = 12  # in one chart
_MOST_LINES = 4  # in a label
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
    """Apply this module's settings over matplotlib's defaults, whatever the user's matplotlibrc."""
    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if "backend" not in k}
    with matplotlib.rc_context({**defaults, **_STYLE}):
        yield


def line_look(index: int) -> dict[str, Any]:
    """Return colour and dashes of the line with this number, as arguments of `plot`."""
    dashes = _DASHES[index // len(_COLOURS) % len(_DASHES)]
    return {"color": _COLOURS[index % len(_COLOURS)], "linestyle": dashes}


def marker(index: int) -> str:
    """Return the marker of the line with this number; it changes when the colours repeat."""
    return _MARKERS[index // len(_COLOURS) % len(_MARKERS)]


def label(text: str, width: int = 44) -> str:
    """Return a text that a figure can show, wrapped into several lines if it is long.

    Letters that the font lacks become boxes; text after the fourth line is cut.
    """
    lines = textwrap.wrap(
        one_line(text), width, break_on_hyphens=False, max_lines=_MOST_LINES, placeholder="…"
    )
    return "\n".join(
        "".join(c if ord(c) in glyphs(FONT) else UNKNOWN_GLYPH for c in line) for line in lines
    )


@cache
def glyphs(family: str) -> frozenset[int]:
    """Return the code points that a font can draw."""
    font = font_manager.get_font(font_manager.findfont(family))
    return frozenset(font.get_charmap())


def axis_title(metric: str, unit: str, better: str) -> str:
    """Return the title of an axis: name, unit unless the name has it, and direction of a metric."""
    words = {word.lower().removesuffix("s") for word in readable(metric).split()}
    shown = "" if unit == "1" or unit.lower() in words else f" ({unit})"
    side = "" if better == "none" else f", {better} is better"
    return f"{readable(metric)}{shown}{side}"


def with_unit(unit: str, value: float) -> str:
    """Write a value with three digits and a prefix of its own, since values span six decades."""
    notation = for_quantities(unit, [value * (1 + 1e-9)])
    return notation.with_unit(f"{value / notation.factor:.3g}")


def caption(sentences: Mapping[str, bool]) -> str:
    """Join the sentences whose condition holds."""
    return " ".join(sentence for sentence, holds in sentences.items() if holds)


def to_svg(figure: Figure, *, name: str, title: str, description: str) -> str:
    """Return the figure as SVG text, with a title and a description for screen readers.

    The name is the prefix of every id, so it must be distinct within a page.
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
    """Reduce the SVG to less than two thirds of its bytes, since a page holds dozens of figures.

    Ids without references are removed, the others become the prefix and a number, and lengths are
    cut to hundredths of a point.
    """
    used = dict.fromkeys(re.findall(r'(?:xlink:href="|url\()#([^")]+)', body))
    short = {name: f"{prefix}-{number}" for number, name in enumerate(used)}
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{short[m[1]]}"' if m[1] in short else "", body)
    body = re.sub(r'(xlink:href="#|url\(#)([^")]+)', lambda m: m[1] + short[m[2]], body)
    body = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d+", r"\1", body)
    return re.sub(r"\n\s+", "\n", body)
