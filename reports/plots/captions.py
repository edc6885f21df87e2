"""Draws pictures, each beside the captions that models wrote about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from reports.document import Drawing
from reports.plots.heatmaps import embedded
from reports.plots.images import drawing_of, image_of, write_at
from reports.plots.style import drawing_style, to_svg
from reports.results.pictures import Pictures

_WIDTH, _SIDE, _LEFT, _GAP, _LINE = 7.2, 1.0, 0.05, 0.18, 0.17  # inches
_OF_NAMES, _NAME, _TEXT = 2.05, 31, 62  # inches, and letters


def captions_figure(
    images: Pictures,
    texts: Sequence[Mapping[str, str]],
    *,
    name: str,
    title: str,
    caption: str,
) -> Drawing:
    """A picture a row, and to its right a line for each of its texts, under the name of its writer.

    Args:
        images: With values from 0 to 1.
        texts: Of each image, by writer.
        name: Of its file, distinct within a report.
        title: As it stands under the figure.
        caption: What a reader must know besides.
    """
    rows = [max(_SIDE, _LINE * len(some)) + _GAP for some in texts]
    parts: list[str] = []
    with drawing_style():
        figure = Figure(figsize=(_WIDTH, sum(rows)))
        top = _GAP / 2
        for levels, some, tall in zip(images.values, texts, rows, strict=True):
            parts.append(embedded(image_of(255 * levels), (_LEFT, top, _SIDE, _SIDE)))
            for number, (writer, text) in enumerate(some.items()):
                here = top + (number + 0.5) * _LINE
                left = _LEFT + _SIDE + _GAP
                write_at(figure, left, here, _cut(writer, _NAME), vertical="center")
                write_at(figure, left + _OF_NAMES, here, _cut(text, _TEXT), vertical="center")
            top += tall
        said = " ".join(
            f"Picture {number}: {'; '.join(f'{writer}: {text}' for writer, text in some.items())}."
            for number, some in enumerate(texts, start=1)
        )
        svg = to_svg(figure, name=name, title=title, description=said)
    return drawing_of(svg, parts, name, title, caption)


def _cut(text: str, most: int) -> str:
    """On one line; the description of the figure has all of it."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
