"""Draw attention maps over images, grids of small pictures, and pictures beside their captions.

A map of patches is enlarged patch by patch, without smoothing, so that a figure never shows values
between two patches, which a model did not compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from bakeoff.reports.document import Drawing
from bakeoff.reports.plots.heatmaps import Place, Shades, draw_scale, drawing_of, embedded, id_of
from bakeoff.reports.plots.style import INK, drawing_style, label, to_svg
from bakeoff.reports.results.samples import Pictures

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 7.2, 1.42, 0.05, 0.3, 0.62  # inches
_GAP, _BETWEEN, _LARGEST = 0.07, 0.28, 0.95
_HUE = (255, 120, 0)  # the colour that is laid over an image
_OPAQUE = 0.85  # the opacity of the largest value
_NUM_OPACITIES = 16  # half a byte for each patch
_GREYEST, _BRIGHTEST = 40, 215  # grey levels of an image, so that black and white take colour too
_APART, _WIDEST, _LINE = 0.3, 3.3, 0.14  # inches; the space between mosaics, their width, a line
_MOST_COLOURS = 64
_FINEST = 16  # a smaller picture is enlarged to at most this many columns
_LINES_OF_SHADES, _LINES_OF_IMAGES = 185, 255  # grey levels of the lines
# For captions: picture side, gaps, line height and space for names, in inches; then letters.
_SIDE, _EDGE, _GAP_DOWN, _LINE_OF_TEXT = 1.0, 0.05, 0.18, 0.17
_OF_NAMES, _NAME, _TEXT = 2.05, 31, 62
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LooksOf:
    """The attention maps of one variant.

    Attributes:
        title: The name of the variant.
        maps: Method -> maps of shape `[images, rows, columns]`; 1 is the value of an average patch.
    """

    title: str
    maps: Mapping[str, Values]


@dataclass(frozen=True, kw_only=True)
class Mosaic:
    """Small pictures side by side, with a title.

    Attributes:
        pictures: The pictures, row by row.
        num_across: The number of pictures in a row.
        note: A second line of the title, or empty.
        is_framed: True if lines between pictures are grey, for pictures with white edges.
    """

    title: str
    note: str
    pictures: Pictures
    num_across: int
    is_framed: bool = False


def looks_figure(
    images: Pictures, looks: Sequence[LooksOf], *, name: str, title: str, caption: str, said: str
) -> Drawing:
    """Draw the images, and below them a row for each variant with its maps laid over the images.

    Args:
        images: Images with values from 0 to 1; if they have words, these are written above them.
        looks: At least one variant, with a map for each image.
        name: The name of the file, distinct within a report.
        title: The title under the figure.
        caption: Further text under the figure.
        said: The figure in words, for readers who cannot see it.
    """
    ways = list(dict.fromkeys(way for each in looks for way in each.maps))
    layout = _Layout(images=images, num_blocks=len(ways), num_rows=len(looks) + 1)
    prefix = id_of(name, "i")
    parts = [_defined(images, prefix)]
    with drawing_style():
        figure = Figure(figsize=(_WIDTH, layout.height))
        for along, way in enumerate(ways):
            shades = _shades([each.maps[way] for each in looks if way in each.maps])
            for place in range(len(images.values)):
                here = layout.place(along, 0, place)
                parts.append(_again(f"{prefix}-plain-{place}", here))
                if images.words:
                    word = label(images.words[place], round(17 * layout.side))
                    _write_at(figure, here[0], here[1] - 0.03, word, vertical="bottom", size=6.5)
                for down, each in enumerate(looks, 1):
                    if way in each.maps:
                        here = layout.place(along, down, place)
                        parts.append(_again(f"{prefix}-grey-{place}", here))
                        parts.append(embedded(_laid_over(each.maps[way][place], shades), here))
            left = layout.place(along, 0, 0)[0]
            _write_at(figure, left, _TOP - 0.07, way, vertical="bottom")
            parts.append(draw_scale(figure, shades, left=left, width=1.1))
        for down, text in enumerate(("the image", *(each.title for each in looks))):
            top, tall = layout.place(0, down, 0)[1::2]
            _write_at(figure, 0.02, top + tall / 2, label(text, 20), vertical="center")
        svg = to_svg(figure, name=prefix, title=title, description=said)
    return drawing_of(svg, parts, name, title, caption)


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """The places of the images: a block for each method, with a column for each image."""

    images: Pictures
    num_blocks: int
    num_rows: int

    @property
    def side(self) -> float:
        """The width of an image."""
        free = _WIDTH - _LEFT - _RIGHT - _BETWEEN * (self.num_blocks - 1)
        return min(_LARGEST, free / (self.num_blocks * len(self.images.values)) - _GAP)

    @property
    def tall(self) -> float:
        """The height of an image."""
        return self.side * self.images.grid[0] / self.images.grid[1]

    @property
    def top(self) -> float:
        """The space above the images, including a line for their words."""
        return _TOP + (_LINE if self.images.words else 0.0)

    @property
    def height(self) -> float:
        """The height of the figure."""
        return self.top + self.num_rows * (self.tall + _GAP) + _BOTTOM

    def place(self, block: int, row: int, column: int) -> Place:
        """Return the place of one image."""
        start = _LEFT + block * (len(self.images.values) * (self.side + _GAP) + _BETWEEN)
        left, top = start + column * (self.side + _GAP), self.top + row * (self.tall + _GAP)
        return left, top, self.side, self.tall


def mosaics_figure(
    mosaics: Sequence[Mosaic],
    *,
    shades: Shades | None,
    name: str,
    title: str,
    caption: str,
    said: str,
) -> Drawing:
    """Draw mosaics, two or three in a row, and the scale of their shades, if they have any.

    Args:
        mosaics: At least one mosaic.
        shades: The shades of all mosaics, or None to map values from -1 to 1 to black to white.
        name: The name of the file, distinct within a report.
        title: The title under the figure.
        caption: Further text under the figure.
        said: The figure in words, for readers who cannot see it.
    """
    left, prefix, parts = 0.1, id_of(name, "i"), []
    across = 3 if len(mosaics) == 3 else min(2, len(mosaics))
    wide = min(_WIDEST, (_WIDTH - 2 * left - (across - 1) * _APART) / across)
    drawn = [_mosaic(each, shades) for each in mosaics]
    texts = [_over(each, round(17 * wide)) for each in mosaics]
    above = _LINE * max(text.count("\n") + 2 for text in texts)
    tall = wide * max(image.height / image.width for image in drawn)
    each_down, bottom = tall + above, _BOTTOM if shades else 0.05
    with drawing_style():
        figure = Figure(figsize=(_WIDTH, -(-len(mosaics) // across) * each_down + bottom))
        for place, (text, image) in enumerate(zip(texts, drawn, strict=True)):
            down, along = divmod(place, across)
            here = left + along * (wide + _APART), above + down * each_down
            own = wide * image.height / image.width
            parts.append(embedded(image, (*here, wide, own)))
            _write_at(figure, here[0], here[1] - 0.06, text, vertical="bottom")
        if shades:
            parts.append(draw_scale(figure, shades, left=left))
        svg = to_svg(figure, name=prefix, title=title, description=said)
    return drawing_of(svg, parts, name, title, caption)


def captions_figure(
    images: Pictures,
    texts: Sequence[Mapping[str, str]],
    *,
    name: str,
    title: str,
    caption: str,
) -> Drawing:
    """Draw one picture in each row, and to its right one line for each text with its writer.

    Args:
        images: Images with values from 0 to 1.
        texts: For each image, writer -> text.
        name: The name of the file, distinct within a report.
        title: The title under the figure.
        caption: Further text under the figure.
    """
    rows = [max(_SIDE, _LINE_OF_TEXT * len(some)) + _GAP_DOWN for some in texts]
    parts: list[str] = []
    with drawing_style():
        figure = Figure(figsize=(_WIDTH, sum(rows)))
        top = _GAP_DOWN / 2
        for levels, some, tall in zip(images.values, texts, rows, strict=True):
            parts.append(embedded(_image_of(255 * levels), (_EDGE, top, _SIDE, _SIDE)))
            for number, (writer, text) in enumerate(some.items()):
                here = top + (number + 0.5) * _LINE_OF_TEXT
                left = _EDGE + _SIDE + _GAP_DOWN
                _write_at(figure, left, here, _cut(writer, _NAME), vertical="center")
                _write_at(figure, left + _OF_NAMES, here, _cut(text, _TEXT), vertical="center")
            top += tall
        said = " ".join(
            f"Picture {number}: {'; '.join(f'{writer}: {text}' for writer, text in some.items())}."
            for number, some in enumerate(texts, start=1)
        )
        svg = to_svg(figure, name=name, title=title, description=said)
    return drawing_of(svg, parts, name, title, caption)


def _over(mosaic: Mosaic, width: int) -> str:
    return "\n".join(label(part, width) for part in (mosaic.title, mosaic.note) if part)


def _write_at(
    figure: Figure, left: float, top: float, text: str, *, vertical: str, size: float = 8
) -> None:
    """Write text at a place in inches from the upper left corner."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - top / height, text, fontsize=size, color=INK, va=vertical)


def _image_of(levels: Values) -> Image.Image:
    """Return `[rows, columns, channels]` from 0 to 255 as an image, grey or in colours."""
    bytes_ = np.rint(levels).astype(np.uint8)
    return Image.fromarray(bytes_[..., 0] if bytes_.shape[-1] == 1 else bytes_)


def _defined(images: Pictures, prefix: str) -> str:
    """Define the original and grey images, a point wide and high, for reuse by `_again`."""
    greys = images.values.mean(axis=-1, keepdims=True) * (_BRIGHTEST - _GREYEST) + _GREYEST
    unit = (0.0, 0.0, 1 / 72, 1 / 72)
    found = (
        embedded(_image_of(levels), unit, f"{prefix}-{kind}-{place}")
        for kind, all_levels in {"plain": 255 * images.values, "grey": greys}.items()
        for place, levels in enumerate(all_levels)
    )
    return f"<defs>{''.join(found)}</defs>"


def _again(name: str, place: Place) -> str:
    left, top, width, height = (f"{72 * inches:.2f}" for inches in place)
    turned = f"translate({left} {top}) scale({width} {height})"
    return f'<use xlink:href="#{name}" transform="{turned}"/>'


def _laid_over(values: Values, shades: Shades) -> Image.Image:
    """Return an image of one hue whose opacity grows with the value."""
    levels = np.rint(np.clip(shades.norm(values), 0.0, 1.0) * (_NUM_OPACITIES - 1))
    image = Image.frombytes("P", values.shape[::-1], levels.astype(np.uint8).tobytes())
    image.putpalette(bytes(_HUE) * _NUM_OPACITIES)
    opacities = np.linspace(0.0, 255 * _OPAQUE, _NUM_OPACITIES)
    image.info["transparency"] = np.rint(opacities).astype(np.uint8).tobytes()
    return image


def _shades(maps: Sequence[Values]) -> Shades:
    """Return shades from the average to the largest value, over the middle grey of an image."""
    high = max(float(each.max()) for each in maps)
    high = high if high > 1 else 2.0
    grey = (_GREYEST + _BRIGHTEST) / 2
    full = [round(grey + _OPAQUE * (part - grey)) for part in _HUE]
    return Shades(
        title="times the average patch",
        low=1.0,
        high=high,
        power=0.5,
        ticks=(1.0, 1 + (high - 1) / 4, high),
        written=lambda value: f"{value:.2g}",
        colours=("#{0:02x}{0:02x}{0:02x}".format(round(grey)), "#{:02x}{:02x}{:02x}".format(*full)),
    )


def _mosaic(mosaic: Mosaic, shades: Shades | None) -> Image.Image:
    """Join all pictures into one, with thin lines between them."""
    rows, columns = mosaic.pictures.grid
    by, across = max(1, _FINEST // columns), mosaic.num_across
    line = max(1, by // 2)
    shown = [_shaded(values, shades) for values in mosaic.pictures.values]
    down, wide, tall = -(-len(shown) // across), by * columns + line, by * rows + line
    grey = _LINES_OF_SHADES if shades or mosaic.is_framed else _LINES_OF_IMAGES
    whole = Image.new("RGB", (across * wide + line, down * tall + line), (grey, grey, grey))
    for place, picture in enumerate(shown):
        row, column = divmod(place, across)
        larger = picture.resize((wide - line, tall - line), Image.Resampling.NEAREST)
        whole.paste(larger, (column * wide + line, row * tall + line))
    return whole.quantize(_MOST_COLOURS) if shades else whole


def _shaded(values: Values, shades: Shades | None) -> Image.Image:
    if shades is None:
        return _image_of(127.5 * (values + 1))
    colours = shades.map(np.clip(shades.norm(values[..., 0]), 0.0, 1.0))[..., :3]
    return _image_of(255 * colours)


def _cut(text: str, most: int) -> str:
    """Cut a text to one line; the description of the figure holds the full text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
