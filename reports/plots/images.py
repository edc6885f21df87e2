"""Draws what vision models see: attention laid over images, and grids of small pictures.

A picture of a model is enlarged patch by patch, without smoothing: nothing is shown between two
patches that a model did not compute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from reports.document import Drawing
from reports.plots.heatmaps import Place, Shades, draw_scale, embedded
from reports.plots.style import INK, drawing_style, label, to_svg
from reports.results.pictures import Pictures

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 7.2, 1.42, 0.05, 0.3, 0.62  # inches
_GAP, _BETWEEN, _LARGEST = 0.07, 0.28, 0.95
_HUE = (255, 120, 0)  # of what is laid over an image
_OPAQUE = 0.85  # where there is most
_NUM_OPACITIES = 16  # half a byte a patch
_GREYEST, _BRIGHTEST = 40, 215  # of an image under it, so that black and white take colour too
_APART, _WIDEST, _LINE = 0.3, 3.3, 0.14  # of mosaics, and of a line of text; inches
_MOST_COLOURS = 64
_FINEST = 16  # columns of a small picture whose values are a pixel each
_LINES_OF_SHADES, _LINES_OF_IMAGES = 185, 255  # their grey
Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LooksOf:
    """Where one variant looks.

    Attributes:
        title: Its name.
        maps: `[images, rows, columns]` by the way in which they were found; 1 is an average patch.
    """

    title: str
    maps: Mapping[str, Values]


@dataclass(frozen=True, kw_only=True)
class Mosaic:
    """Small pictures side by side, and what stands over them.

    Attributes:
        pictures: Row by row.
        num_across: In a row.
        note: A second line over them, in numbers what they show; or empty.
        is_framed: Whether lines between them are grey, where their edges are white.
    """

    title: str
    note: str
    pictures: Pictures
    num_across: int
    is_framed: bool = False


def looks_figure(
    images: Pictures, looks: Sequence[LooksOf], *, name: str, title: str, caption: str, said: str
) -> Drawing:
    """The images on top, and below them a row a variant: where it looks, laid over each.

    Args:
        images: With values from 0 to 1; their words, if there are any, stand over them.
        looks: At least one, with a map of each image.
        name: Of its file, distinct within a report.
        title: As it stands under the figure.
        caption: What a reader must know besides.
        said: The same in words, for those who cannot see it.
    """
    ways = list(dict.fromkeys(way for each in looks for way in each.maps))
    layout = _Layout(images=images, num_blocks=len(ways), num_rows=len(looks) + 1)
    prefix = _prefix(name)
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
                    write_at(figure, here[0], here[1] - 0.03, word, vertical="bottom", size=6.5)
                for down, each in enumerate(looks, 1):
                    if way in each.maps:
                        here = layout.place(along, down, place)
                        parts.append(_again(f"{prefix}-grey-{place}", here))
                        parts.append(embedded(_laid_over(each.maps[way][place], shades), here))
            left = layout.place(along, 0, 0)[0]
            write_at(figure, left, _TOP - 0.07, way, vertical="bottom")
            parts.append(draw_scale(figure, shades, left=left, width=1.1))
        for down, text in enumerate(("the image", *(each.title for each in looks))):
            top, tall = layout.place(0, down, 0)[1::2]
            write_at(figure, 0.02, top + tall / 2, label(text, 20), vertical="center")
        svg = to_svg(figure, name=prefix, title=title, description=said)
    return drawing_of(svg, parts, name, title, caption)


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """Where the images stand: a block a way of looking, in it a column an image."""

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
        """What stands over the images, with a line for their words."""
        return _TOP + (_LINE if self.images.words else 0.0)

    @property
    def height(self) -> float:
        """Of the whole figure."""
        return self.top + self.num_rows * (self.tall + _GAP) + _BOTTOM

    def place(self, block: int, row: int, column: int) -> Place:
        """Of one image."""
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
    """Mosaics, two or three in a row, and the scale of their shades; without it, images.

    Args:
        mosaics: At least one.
        shades: Of all of them; None where values from -1 to 1 are from black to white.
        name: As of `looks_figure`, like the others.
        title: Likewise.
        caption: Likewise.
        said: Likewise.
    """
    left, prefix, parts = 0.1, _prefix(name), []
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
            write_at(figure, here[0], here[1] - 0.06, text, vertical="bottom")
        if shades:
            parts.append(draw_scale(figure, shades, left=left))
        svg = to_svg(figure, name=prefix, title=title, description=said)
    return drawing_of(svg, parts, name, title, caption)


def _over(mosaic: Mosaic, width: int) -> str:
    return "\n".join(label(part, width) for part in (mosaic.title, mosaic.note) if part)


def _prefix(name: str) -> str:
    """Of the ids inside a drawing, which hold it often."""
    return f"i{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def drawing_of(svg: str, parts: Sequence[str], name: str, title: str, caption: str) -> Drawing:
    """A figure with parts drawn over it."""
    whole = svg[: svg.rindex("</svg>")] + "".join(parts) + "</svg>\n"
    return Drawing(name=name, title=title, caption=caption, svg=whole)


def write_at(
    figure: Figure, left: float, top: float, text: str, *, vertical: str, size: float = 8
) -> None:
    """Text at a place in inches from the upper left corner."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - top / height, text, fontsize=size, color=INK, va=vertical)


def image_of(levels: Values) -> Image.Image:
    """Of `[rows, columns, channels]` from 0 to 255: one channel is grey, three are colours."""
    bytes_ = np.rint(levels).astype(np.uint8)
    return Image.fromarray(bytes_[..., 0] if bytes_.shape[-1] == 1 else bytes_)


def _defined(images: Pictures, prefix: str) -> str:
    """The images as they are and in grey, a point wide and high, to be drawn as often as needed."""
    greys = images.values.mean(axis=-1, keepdims=True) * (_BRIGHTEST - _GREYEST) + _GREYEST
    unit = (0.0, 0.0, 1 / 72, 1 / 72)
    found = (
        embedded(image_of(levels), unit, f"{prefix}-{kind}-{place}")
        for kind, all_levels in {"plain": 255 * images.values, "grey": greys}.items()
        for place, levels in enumerate(all_levels)
    )
    return f"<defs>{''.join(found)}</defs>"


def _again(name: str, place: Place) -> str:
    left, top, width, height = (f"{72 * inches:.2f}" for inches in place)
    turned = f"translate({left} {top}) scale({width} {height})"
    return f'<use xlink:href="#{name}" transform="{turned}"/>'


def _laid_over(values: Values, shades: Shades) -> Image.Image:
    """One hue, the more opaque the larger the value."""
    levels = np.rint(np.clip(shades.norm(values), 0.0, 1.0) * (_NUM_OPACITIES - 1))
    image = Image.frombytes("P", values.shape[::-1], levels.astype(np.uint8).tobytes())
    image.putpalette(bytes(_HUE) * _NUM_OPACITIES)
    opacities = np.linspace(0.0, 255 * _OPAQUE, _NUM_OPACITIES)
    image.info["transparency"] = np.rint(opacities).astype(np.uint8).tobytes()
    return image


def _shades(maps: Sequence[Values]) -> Shades:
    """From the average to the largest value; over the middle grey of an image."""
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
    """All pictures with thin lines between them."""
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
        return image_of(127.5 * (values + 1))
    colours = shades.map(np.clip(shades.norm(values[..., 0]), 0.0, 1.0))[..., :3]
    return image_of(255 * colours)
