"""How does a drawing become an SVG that is the same tomorrow, anywhere, and can be read aloud?

Letters are drawn as paths, so that a page looks alike on every machine; ids are salted with a
constant and bear the figure's name, so that several figures can stand in one page.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import matplotlib
from matplotlib import font_manager
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from reports.escape import one_line

_UNKNOWN_GLYPH = "□"
_STYLE = {
    "font.family": ["DejaVu Sans"], "font.size": 10.0, "text.parse_math": False,
    "svg.fonttype": "path", "svg.hashsalt": "bakeoff", "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": "#9aa0a6", "axes.labelcolor": "#30343a",
    "xtick.color": "#5f6368", "ytick.color": "#30343a", "axes.axisbelow": True,
    "grid.color": "#e3e5e8", "grid.linewidth": 0.8, "axes.unicode_minus": True,
}  # fmt: skip


@contextmanager
def drawing_style() -> Iterator[None]:
    """Our settings over matplotlib's own defaults, whatever the user's matplotlibrc says."""
    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if "backend" not in k}
    with matplotlib.rc_context({**defaults, **_STYLE}):
        yield


def label(text: str, length: int = 44) -> str:
    """Text that a figure can hold: one line, not too long, only letters that the font has."""
    short = one_line(text)
    if len(short) > length:
        short = f"{short[: length - 1]}…"
    return "".join(c if ord(c) in _glyphs() else _UNKNOWN_GLYPH for c in short)


def to_svg(figure: Figure, *, name: str, title: str, description: str) -> str:
    """The drawing as SVG text, with a title and a description for those who cannot see it.

    The name stands before every id; it must be distinct within a page.
    """
    FigureCanvasSVG(figure)
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    drawn = buffer.getvalue()
    bare = re.sub(r"<!--.*?-->", "", drawn, flags=re.DOTALL)
    body = bare[bare.index("<svg") :]
    body = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\1{name}-", body)
    body = re.sub(r"\n\s*\n", "\n", body)
    return _with_words(body, name, one_line(title), one_line(description))


def _with_words(body: str, name: str, title: str, description: str) -> str:
    words = (
        f'<title id="{name}-title">{html.escape(title)}</title>'
        f'<desc id="{name}-desc">{html.escape(description)}</desc>'
    )
    start, end = body.split(">", 1)
    role = f' role="img" aria-labelledby="{name}-title {name}-desc"'
    return f"{start}{role}>\n {words}{end}"


@cache
def _glyphs() -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(font.get_charmap())
