"""Turns a matplotlib figure into an SVG drawing that has the same bytes on every machine.

Letters are drawn as paths, so that a page looks alike everywhere. Ids are salted with a constant
and start with the figure's name, so that several figures can stand in one page.
"""

from __future__ import annotations

import html
import io
import re

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from reports.escape import one_line


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
    body = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\1{name}-", body)
    start, end = re.sub(r"\n\s*\n", "\n", body).split(">", 1)
    return (
        f'{start} role="img" aria-labelledby="{name}-title {name}-desc">\n '
        f'<title id="{name}-title">{html.escape(one_line(title))}</title>'
        f'<desc id="{name}-desc">{html.escape(one_line(description))}</desc>{end}'
    )
