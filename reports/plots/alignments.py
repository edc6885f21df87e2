"""Draw alignments: target words down the side, source words above, one square for each pair.

The squares of all variants have the same size and the same scale of shades, as in figure 3 of
Bahdanau et al. 2014 (arXiv:1409.0473).
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bakeoff.reports.document import Drawing
from bakeoff.reports.escape import one_line
from bakeoff.reports.plots.heatmaps import (
    WEIGHT_SHADES,
    Panel,
    draw_scale,
    drawing_of,
    framed,
    id_of,
    picture,
)
from bakeoff.reports.plots.style import (
    FONT,
    INK,
    UNKNOWN_GLYPH,
    drawing_style,
    glyphs,
    label,
    to_svg,
)

CONTINUES = "…"  # marks a piece that continues a word
_WIDTH, _RIGHT, _TOP, _BOTTOM = 7.2, 0.45, 0.12, 0.62  # inches
_GAP_ACROSS, _GAP_DOWN, _TITLE = 0.4, 0.2, 0.3
_LARGEST_CELL, _LARGEST_LETTER, _MOST_ACROSS = 0.19, 8.0, 2
_LETTER_SHARE = 0.82  # share of a cell that a line of letters may take
_ADVANCE = 0.58  # approximate width of a letter, in ems
_MOST_LETTERS = 12  # in one word
_ROOM = 0.08
_MOST_SPOKEN, _SPOKEN_FROM = 16, 0.5  # rows in the description, and their least weight


def alignment_figure(panels: Sequence[Panel], *, name: str, title: str, caption: str) -> Drawing:
    """Draw the panels, two in a row, with words at the left of each row and above each panel.

    Args:
        panels: At least one panel; the matrices have the same words.
        name: The name of the file, distinct within a report.
        title: The title under the figure.
        caption: Further text under the figure.
    """
    rows, columns = (readable_words(words) for words in _words(panels[0]))
    across = min(_MOST_ACROSS, len(panels))
    left = _letters_wide(rows, _LARGEST_LETTER)
    free = _WIDTH - left - _RIGHT - (across - 1) * _GAP_ACROSS
    cell = min(_LARGEST_CELL, free / across / len(columns))
    size = min(_LARGEST_LETTER, 72 * cell * _LETTER_SHARE)
    above = _letters_wide(columns, size) + _ROOM
    wide, tall = cell * len(columns), cell * len(rows)
    num_down = -(-len(panels) // across)
    each_down = _TITLE + above + tall + _GAP_DOWN
    pictures = []
    with drawing_style():
        figure = Figure(figsize=(_WIDTH, _TOP + num_down * each_down + _BOTTOM))
        for place, panel in enumerate(panels):
            down, along = divmod(place, across)
            top = _TOP + down * each_down + _TITLE + above
            here = (left + along * (wide + _GAP_ACROSS), top, wide, tall)
            axes = framed(figure, here)
            pictures.append(picture(panel.matrix.values, WEIGHT_SHADES, here))
            _write(axes, columns, rows if along == 0 else (), size)
            axes.text(
                0.0,
                1 + (above + 0.04) / tall,
                label(panel.title, round(14 * wide)),
                transform=axes.transAxes,
                fontsize=9,
                color=INK,
                va="bottom",
            )
        pictures.append(draw_scale(figure, WEIGHT_SHADES))
        said = " ".join(map(_in_words, panels))
        svg = to_svg(figure, name=id_of(name, "m"), title=title, description=said)
    return drawing_of(svg, pictures, name, title, caption)


def readable_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return words as an axis shows them; a piece that continues a word begins with an ellipsis."""
    has_pieces = any(word.startswith(" ") for word in words)
    shown = []
    for word in words:
        text = one_line(word)
        if has_pieces and not word.startswith(" ") and text[:1].isalnum():
            text = CONTINUES + text
        text = f"{text[: _MOST_LETTERS - 1]}…" if len(text) > _MOST_LETTERS else text
        shown.append("".join(c if ord(c) in glyphs(FONT) else UNKNOWN_GLYPH for c in text))
    return tuple(shown)


def _words(panel: Panel) -> tuple[Sequence[str], Sequence[str]]:
    return panel.matrix.row_words, panel.matrix.column_words


def _letters_wide(words: Sequence[str], size: float) -> float:
    """Return the approximate width of the longest word, in inches."""
    return max(map(len, words)) * _ADVANCE * size / 72 + _ROOM


def _write(axes: Axes, columns: Sequence[str], rows: Sequence[str], size: float) -> None:
    """Write the source words vertically above the panel, and the target words at the left."""
    axes.set(xlim=(-0.5, len(columns) - 0.5))
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=size, color=INK)
    axes.tick_params(length=0, pad=2)
    if rows:
        axes.set(ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), rows, fontsize=size, color=INK)


def _in_words(panel: Panel) -> str:
    """Describe which source word each target word attends to, if most of its weight is on one."""
    rows, columns = (readable_words(words) for words in _words(panel))
    values = panel.matrix.values
    tops = values.argmax(axis=1)
    sure = [place for place, top in enumerate(tops) if values[place, top] >= _SPOKEN_FROM]
    pairs = [f"{rows[place]} at {columns[tops[place]]}" for place in sure[:_MOST_SPOKEN]]
    more = f" and {len(sure) - _MOST_SPOKEN} more" if len(sure) > _MOST_SPOKEN else ""
    said = f": {', '.join(pairs)}{more}" if pairs else ""
    return (
        f"{one_line(panel.title)}: {len(sure)} of {len(rows)} target words attend mostly to one "
        f"source word{said}."
    )
