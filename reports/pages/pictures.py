"""Build figures of small pictures: what models attend to in an image, write about it, and draw.

For each variant, the model of the first seed is shown. Images are chosen by a rule that does not
depend on the models, and no verdict rests on them. The captions are self-contained, since a page
may show a figure at its top, away from its section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from bakeoff.reports.document import Drawing, listed, readable
from bakeoff.reports.escape import one_line, slug
from bakeoff.reports.plots.heatmaps import COSINE_SHADES
from bakeoff.reports.plots.images import (
    LooksOf,
    Mosaic,
    Values,
    captions_figure,
    looks_figure,
    mosaics_figure,
)
from bakeoff.reports.results.samples import Pictures, of_variants, pictures, texts
from bakeoff.reports.results.variant_labels import MAX_SHOWN, shown_name
from bakeoff.suite.schema import About, Sample, SampleKind

MOST_WRITERS, MOST_LOOKING = 7, 6  # variants in a figure
_IMAGES = "The first validation image of each of the first {} classes, {}. "
_SHOWN = {
    "pixels": "in its own pixels",
    "own range": "each from its darkest to its brightest value",
}
_WAYS = {
    "last layer": "Last layer: what the class token, or without one the mean over the tokens, "
    "takes from each patch, the mean over heads.",
    "rollout": "Rollout: the same through all layers, each of which half attends and half passes "
    "on what it has read (Abnar and Zuidema 2020, arXiv:2005.00928).",
}
_SCALE = "Orange are patches with more weight than the average one, which is 1."
_PLACES = (
    "A small square for each patch, of a fine grid for some, where that lies in the image: the "
    "cosine between the vector of its place and that of every patch (Dosovitskiy et al. 2020, "
    "arXiv:2010.11929, figure 7, centre), without the class token. The numbers are means: with the "
    "next patch in the row, with the next in the column, with those of other rows and columns. "
    "Brown is opposed, white has nothing in common, blue is alike."
)
_FILTERS = {
    "principal components": "The first principal components of the filters that map a patch of "
    "pixels to a vector, by falling variance (Dosovitskiy et al. 2020, arXiv:2010.11929, figure 7, "
    "left). ",
    "kernels": "The largest kernels of the first convolution, as they are. ",
}
_OF_FILTERS = "Each is divided by its own largest value; middle grey is zero."
_WRITTEN = (
    "Four pictures of the validation split, evenly spaced from the first one on. Over what each "
    "model writes by itself stands the caption that is asked for. "
)
_LOOKS = (
    "A column is a word of the right caption, which the model is given up to there; it is "
    "predicted from the places that are laid over the picture. Orange are places with more weight "
    "than the average one, which is 1. Of several heads and layers it is one map, as the "
    "architecture gives it. The picture is number {} of the four above. "
)
_DRAWN = (
    "Four pictures of the validation split, evenly spaced from the first one on, and those of each "
    "model: given back, as its code lets them through, so that none can be drawn better; and drawn "
    "from the caption alone. "
)
_ASKED = "asked for"
_ACROSS = 8  # filters in a row
_MOST_ACROSS, _MOST_OF_FINE, _FINE = (
    8,
    4,
    17,
)  # must agree with `bakeoff.suite.probes.samples.vision`

Makers = Mapping[str, Callable[[About, str], Iterator[Drawing]]]


def opening_picture(about: About) -> Drawing | None:
    """Return the figure that `Ablation.opens_with` names, preferably for the claim's task."""
    make = {**SEEN, "words": words_looks, **DRAWN}.get(about.opens_with)
    if make is None:
        return None
    claimed = about.claim.task if about.claim else ""
    tasks = [task for task in about.tasks if task in about.samples]
    ordered = sorted(tasks, key=lambda task: task != claimed)
    return next((drawing for task in ordered for drawing in make(about, task)), None)


def how_many(num_shown: int, num_having: int) -> str:
    """Return a sentence on the variants that a figure leaves out; empty if it has all."""
    return f"Shown are {num_shown} of {num_having} variants." if num_shown < num_having else ""


def _first(about: About, task: str, kind: SampleKind) -> Pictures | None:
    """Return the first pictures of a kind that is the same for all variants."""
    found = (pictures(some, kind).values() for some in about.samples[task].values())
    return next((each for some in found for each in some), None)


def _name(about: About, variant: str) -> str:
    return one_line(shown_name(about, variant))


def _attention(about: About, task: str) -> Iterator[Drawing]:
    """Draw the attention maps of a few variants over the images."""
    images = _first(about, task, "images")
    variants, _ = of_variants(about, task, partial(pictures, kind="patch_attention"))
    if images is None or not variants:
        return
    number = len(images.values)
    looks = []
    for variant, some in variants.items():
        maps = {
            way: some[way].relative
            for way in _WAYS
            if way in some and len(some[way].values) == number
        }
        if maps:
            looks.append(LooksOf(title=_name(about, variant), maps=maps))
    if not looks:
        return
    ways = [way for way in _WAYS if any(way in each.maps for each in looks)]
    source = _IMAGES.format(number, _SHOWN.get(images.title, "as a model reads it"))
    yield looks_figure(
        images,
        looks,
        name=slug(f"{task}-looks"),
        title=f"Where the models look on {readable(task)}",
        caption=source + " ".join((*(_WAYS[way] for way in ways), _SCALE)),
        said=" ".join(map(_looks_in_words, looks)),
    )


def _looks_in_words(looks: LooksOf) -> str:
    parts = []
    for way, maps in looks.maps.items():
        tops = [np.unravel_index(int(one.argmax()), one.shape) for one in maps]
        places = [
            f"{one[top]:.1f} at row {top[0] + 1}, column {top[1] + 1}"
            for one, top in zip(maps, tops, strict=True)
        ]
        parts.append(f"{way}: at most {listed(places)}")
    return f"{looks.title}: {'; '.join(parts)}."


def _positions(about: About, task: str) -> Iterator[Drawing]:
    """Draw the cosines between position vectors; mosaics that variants share are drawn once."""
    having, _ = of_variants(about, task, partial(pictures, kind="grid_positions"))
    shared: dict[bytes, tuple[Pictures, list[str]]] = {}
    for variant, some in having.items():
        (first, *_) = some.values()
        if _num_across(first) is not None:
            key = first.values.tobytes()
            shared.setdefault(key, (first, []))[1].append(_name(about, variant))
    if not shared:
        return
    mosaics = [
        Mosaic(
            title=listed(names),
            note=_mean_cosines(one),
            pictures=one,
            num_across=_num_across(one) or 1,
        )
        for one, names in shared.values()
    ]
    yield mosaics_figure(
        mosaics,
        shades=COSINE_SHADES,
        name=slug(f"{task}-places"),
        title=f"How alike the places of patches are on {readable(task)}",
        caption=_PLACES + _without_vectors(about, task, len(having)),
        said=" ".join(f"{each.title}: {each.note}." for each in mosaics),
    )


def _without_vectors(about: About, task: str, num_having: int) -> str:
    """Return a sentence on the variants that the figure lacks, if there are few."""
    lacking = [
        _name(about, variant)
        for variant, some in about.samples[task].items()
        if not pictures(some, "grid_positions")
    ]
    if not lacking or len(lacking) + num_having > MAX_SHOWN:
        return ""
    return f" {listed(lacking)} {'has' if len(lacking) == 1 else 'have'} no such vectors."


def _num_across(found: Pictures) -> int | None:
    """Return the number of positions in a row, or None if they do not follow the rule."""
    rows, columns = (len(_chosen(side, found.grid)) for side in found.grid)
    return columns if len(found.values) == rows * columns else None


def _mean_cosines(found: Pictures) -> str:
    """Return mean cosines of neighbours and others, such as ``row 0.4, column 0.3, others 0.0``."""
    lines = [_chosen(side, found.grid) for side in found.grid]
    rows, columns = np.meshgrid(*lines, indexing="ij")
    to = np.indices(found.grid)
    down = abs(rows.reshape(-1, 1, 1) - to[0])
    across = abs(columns.reshape(-1, 1, 1) - to[1])
    kinds = {
        "row": (down == 0) & (across == 1),
        "column": (down == 1) & (across == 0),
        "others": (down > 0) & (across > 0),
    }
    values = found.values[..., 0]
    parts = [f"{kind} {values[met].mean():.2f}" for kind, met in kinds.items() if met.any()]
    return ", ".join(parts).replace("-", "−")


def _chosen(side: int, grid: tuple[int, int]) -> Values:
    """Return the rows or columns of the positions that are shown."""
    most = min(side, _MOST_ACROSS if max(grid) < _FINE else _MOST_OF_FINE)
    return np.array([round(place * (side - 1) / max(1, most - 1)) for place in range(most)])


def _filters(about: About, task: str) -> Iterator[Drawing]:
    """Draw the filters of the first layer of a few variants."""
    variants, _ = of_variants(about, task, partial(pictures, kind="filters"))
    found = {
        variant: one
        for variant, some in variants.items()
        for one in some.values()
        if one.title in _FILTERS
    }
    if not found:
        return
    kinds = {one.title for one in found.values()}
    mosaics = [
        Mosaic(
            title=_name(about, variant),
            note=_filters_in_words(one),
            pictures=one,
            num_across=min(_ACROSS, len(one.values)),
        )
        for variant, one in found.items()
    ]
    source = "".join(words for kind, words in _FILTERS.items() if kind in kinds)
    yield mosaics_figure(
        mosaics,
        shades=None,
        name=slug(f"{task}-filters"),
        title=f"First filters on {readable(task)}",
        caption=source + _OF_FILTERS,
        said=" ".join(f"{each.title}: {each.note}." for each in mosaics),
    )


def _filters_in_words(found: Pictures) -> str:
    """Return text such as ``16 of 4 x 4 pixels, the first has 42 % of the variance``."""
    share = f", the first has {found.words[0]} of the variance" if found.words else ""
    return f"{len(found.values)} of {found.grid[0]} x {found.grid[1]} pixels{share}"


def _captions(about: About, task: str) -> Iterator[Drawing]:
    """Draw the pictures, each beside the captions that models wrote about it."""
    images = _first(about, task, "captioned_images")
    if images is None or not images.words:
        return
    variants, num_having = of_variants(about, task, partial(texts, kind="caption"), MOST_WRITERS)
    by_picture = [
        {_ASKED: one_line(asked)}
        | {
            _name(about, variant): one_line(written.text) or "(nothing)"
            for variant, some in variants.items()
            if (written := some.get(f"picture {number}")) is not None
        }
        for number, asked in enumerate(images.words, start=1)
    ]
    yield captions_figure(
        images,
        by_picture,
        name=slug(f"{task}-captions"),
        title=f"Captions on {readable(task)}",
        caption=_WRITTEN + how_many(len(variants), num_having),
    )


def words_looks(about: About, task: str) -> Iterator[Drawing]:
    """Draw the attention of each word, in one figure for each picture that has weights."""
    images = _first(about, task, "captioned_images")
    if images is None:
        return
    found = (pictures(some, "word_attention") for some in about.samples[task].values())
    for title in dict.fromkeys(title for some in found for title in some):
        number = title.removeprefix("picture ")
        if number.isdecimal() and 1 <= int(number) <= len(images.values):
            yield from _looks_of_words(about, task, int(number), title, images)


def _looks_of_words(
    about: About, task: str, number: int, title: str, images: Pictures
) -> Iterator[Drawing]:
    """Draw the picture once for each word, and below it the attention maps of each variant."""

    def with_words(some: Sequence[Sample]) -> list[Pictures]:
        found = pictures(some, "word_attention").get(title)
        return [found] if found and found.words else []

    variants, num_having = of_variants(about, task, with_words, MOST_LOOKING)
    if not variants:
        return
    words = next(iter(variants.values()))[0].words
    picture = np.repeat(images.values[number - 1 : number], len(words), axis=0)
    looks = [
        LooksOf(title=_name(about, variant), maps={"": found.relative})
        for variant, (found,) in variants.items()
        if found.words == words
    ]
    yield looks_figure(
        replace(images, values=picture, words=tuple(map(one_line, words))),
        looks,
        name=slug(f"{task}-words-{number}"),
        title=f"Where each word looks on {readable(task)}",
        caption=_LOOKS.format(number) + how_many(len(variants), num_having),
        said=" ".join(_words_in_words(each, words) for each in looks),
    )


def _words_in_words(looks: LooksOf, words: tuple[str, ...]) -> str:
    parts = []
    for word, one in zip(words, looks.maps[""], strict=True):
        row, column = np.unravel_index(int(one.argmax()), one.shape)
        parts.append(f"{word}: row {row + 1}, column {column + 1}")
    return f"{looks.title}: most at {'; '.join(parts)}."


def _drawings(about: About, task: str) -> Iterator[Drawing]:
    """Draw the reference pictures, and the pictures that a few variants made from them."""
    asked = _first(about, task, "asked_images")
    if asked is None:
        return
    shape = asked.values.shape

    def made(some: Sequence[Sample]) -> dict[str, Pictures]:
        found = pictures(some, "drawn_images")
        ways = ("given back", "drawn")
        return {
            way: found[way] for way in ways if way in found and found[way].values.shape == shape
        }

    variants, num_having = of_variants(about, task, made)
    if not variants:
        return
    mosaics = [_mosaic(_ASKED, {"": asked})]
    mosaics += [_mosaic(_name(about, variant), found) for variant, found in variants.items()]
    captions = " ".join(
        f"{number}: {one_line(text)}." for number, text in enumerate(asked.words, start=1)
    )
    names = (f"{each.title}, {each.note}" if each.note else each.title for each in mosaics)
    shown = how_many(len(variants), num_having)
    yield mosaics_figure(
        mosaics,
        shades=None,
        name=slug(f"{task}-drawings"),
        title=f"Drawings on {readable(task)}",
        caption=_DRAWN + (f"{shown} " if shown else "") + captions,
        said=f"Four pictures each: {'; '.join(names)}. {captions}",
    )


def _mosaic(title: str, shown: Mapping[str, Pictures]) -> Mosaic:
    """Return a mosaic with a row for each method, with values scaled from 0..1 to -1..1."""
    rows = [each.values for each in shown.values()]
    values = Pictures(title="", values=2 * np.concatenate(rows) - 1)
    note = ", below ".join(shown)
    return Mosaic(title=title, note=note, pictures=values, num_across=len(rows[0]), is_framed=True)


# The makers of the drawings of each section, by their names in `Ablation.opens_with`.
SEEN: Makers = {"attention": _attention, "positions": _positions, "filters": _filters}
WRITTEN: Makers = {"captions": _captions, "words": words_looks}
DRAWN: Makers = {"drawings": _drawings}
