"""Builds the section on what vision models see in an image, and the picture that a page opens with.

The models of the first seed, one a variant; no number here is judged. The captions say all that a
reader must know, since a figure may stand on the first screen, away from its section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from reports.document import Drawing, Exhibit, Section, listed, readable
from reports.escape import one_line, slug
from reports.pages.captions import opening_words
from reports.pages.drawings import opening_drawings
from reports.plots.heatmaps import COSINE_SHADES
from reports.plots.images import LooksOf, Mosaic, Values, looks_figure, mosaics_figure
from reports.results.pictures import Pictures, pictures
from reports.results.variant_labels import MAX_SHOWN, shown_name, shown_variants
from suite.schema import About, Specimen, SpecimenKind

_TITLE = "What the models see in an image"
_INTRODUCTION = (
    "The models of the first seed. This is for looking: another seed gives other pictures, and no "
    "verdict rests on them."
)
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
)
_FILTERS = {
    "principal components": "The first principal components of the filters that map a patch of "
    "pixels to a vector, by falling variance (Dosovitskiy et al. 2020, arXiv:2010.11929, figure 7, "
    "left). ",
    "kernels": "The largest kernels of the first convolution, as they are. ",
}
_OF_FILTERS = "Each is divided by its own largest value; middle grey is zero."
_ACROSS = 8  # filters in a row
_MOST_ACROSS, _MOST_OF_FINE, _FINE = 8, 4, 17  # as `suite.probes.specimens.images` has them


def pictures_section(about: About, opening: Drawing | None) -> Section | None:
    """The pictures of every task but the one that stands on the first screen; None without any."""
    drawings = (
        make(about, task)
        for task in _tasks(about)
        for name, make in _MAKERS.items()
        if name not in ("words", "drawings")  # which have sections of their own
    )
    exhibits = tuple(
        Exhibit(title=drawing.title, drawings=(drawing,))
        for drawing in drawings
        if drawing and (opening is None or drawing.name != opening.name)
    )
    if not exhibits:
        return None
    return Section(title=_TITLE, sentences=(_INTRODUCTION,), exhibits=exhibits)


def opening_picture(about: About) -> Drawing | None:
    """What `Ablation.opens_with` asks for, of the claim's task, else the first that has it."""
    make = _MAKERS.get(about.opens_with)
    if make is None:
        return None
    claimed = about.claim.task if about.claim else ""
    tasks = sorted(_tasks(about), key=lambda task: task != claimed)
    return next(filter(None, (make(about, task) for task in tasks)), None)


def _tasks(about: About) -> list[str]:
    return [task for task in about.tasks if task in about.specimens]


def _of_variants(
    about: About, task: str, kind: SpecimenKind
) -> Mapping[str, Mapping[str, Pictures]]:
    """Variant -> what it has of that kind, of a few variants; the baseline comes first."""
    of_task: Mapping[str, tuple[Specimen, ...]] = about.specimens[task]
    found = {variant: pictures(some, kind) for variant, some in of_task.items()}
    chosen = shown_variants(about, {variant for variant, some in found.items() if some})
    return {variant: found[variant] for variant in chosen}


def _attention(about: About, task: str) -> Drawing | None:
    """Where a few variants look in the images; None without images, or where no model has it."""
    found = (pictures(some, "images").values() for some in about.specimens[task].values())
    images = next((each for some in found for each in some), None)
    of_variants = _of_variants(about, task, "patch_attention")
    if images is None or not of_variants:
        return None
    number = len(images.values)
    looks = []
    for variant, some in of_variants.items():
        maps = {
            way: _relative(some[way])
            for way in _WAYS
            if way in some and len(some[way].values) == number
        }
        if maps:
            looks.append(LooksOf(title=one_line(shown_name(about, variant)), maps=maps))
    if not looks:
        return None
    ways = [way for way in _WAYS if any(way in each.maps for each in looks)]
    source = _IMAGES.format(number, _SHOWN.get(images.title, "as a model reads it"))
    return looks_figure(
        images,
        looks,
        name=slug(f"{task}-looks"),
        title=f"Where the models look on {readable(task)}",
        caption=source + " ".join((*(_WAYS[way] for way in ways), _SCALE)),
        said=" ".join(map(_looks_in_words, looks)),
    )


def _relative(found: Pictures) -> Values:
    """`[images, rows, columns]`, 1 being the average patch of each image."""
    values = found.values[..., 0]
    mean = values.mean(axis=(1, 2), keepdims=True)
    relative: Values = np.divide(values, mean, out=np.ones_like(values), where=mean > 0)
    return relative


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


def _positions(about: About, task: str) -> Drawing | None:
    """Of absolute positions; what several variants share stands there once."""
    having = _of_variants(about, task, "grid_positions")
    shared: dict[bytes, tuple[Pictures, list[str]]] = {}
    for variant, some in having.items():
        (first, *_) = some.values()
        if _num_across(first) is not None:
            named = one_line(shown_name(about, variant))
            shared.setdefault(first.values.tobytes(), (first, []))[1].append(named)
    if not shared:
        return None
    mosaics = [
        Mosaic(
            title=listed(names),
            note=_mean_cosines(one),
            pictures=one,
            num_across=_num_across(one) or 1,
        )
        for one, names in shared.values()
    ]
    return mosaics_figure(
        mosaics,
        shades=COSINE_SHADES,
        name=slug(f"{task}-places"),
        title=f"How alike the places of patches are on {readable(task)}",
        caption=_PLACES + _without_vectors(about, task, having),
        said=" ".join(f"{each.title}: {each.note}." for each in mosaics),
    )


def _without_vectors(about: About, task: str, having: Mapping[str, object]) -> str:
    """Who is not in the figure, of few variants."""
    lacking = [
        one_line(shown_name(about, variant))
        for variant, some in about.specimens[task].items()
        if not pictures(some, "grid_positions")
    ]
    if not lacking or len(lacking) + len(having) > MAX_SHOWN:
        return "Brown is opposed, white has nothing in common, blue is alike."
    return (
        "Brown is opposed, white has nothing in common, blue is alike. "
        f"{listed(lacking)} {'has' if len(lacking) == 1 else 'have'} no such vectors."
    )


def _num_across(found: Pictures) -> int | None:
    """Of the places that are shown; None where they are not those of the rule."""
    rows, columns = (len(_chosen(side, found.grid)) for side in found.grid)
    return columns if len(found.values) == rows * columns else None


def _mean_cosines(found: Pictures) -> str:
    """As ``row 0.41, column 0.38, others 0.02``: of neighbours, and of other rows and columns."""
    down, across, values = _from_each_place(found)
    kinds = {
        "row": (down == 0) & (across == 1),
        "column": (down == 1) & (across == 0),
        "others": (down > 0) & (across > 0),
    }
    parts = [f"{kind} {values[met].mean():.2f}" for kind, met in kinds.items() if met.any()]
    return ", ".join(parts).replace("-", "−")


def _from_each_place(found: Pictures) -> tuple[Values, Values, Values]:
    """Rows and columns between two places, and their cosine, each `[places, rows, columns]`."""
    lines = [_chosen(side, found.grid) for side in found.grid]
    rows, columns = np.meshgrid(*lines, indexing="ij")
    to = np.indices(found.grid)
    down = abs(rows.reshape(-1, 1, 1) - to[0])
    across = abs(columns.reshape(-1, 1, 1) - to[1])
    return down, across, found.values[..., 0]


def _chosen(side: int, grid: tuple[int, int]) -> Values:
    """The rows or columns of the places that are shown."""
    most = min(side, _MOST_ACROSS if max(grid) < _FINE else _MOST_OF_FINE)
    return np.array([round(place * (side - 1) / max(1, most - 1)) for place in range(most)])


def _filters(about: About, task: str) -> Drawing | None:
    """What the first map of a few variants sees of the pixels."""
    found = {
        variant: one
        for variant, some in _of_variants(about, task, "filters").items()
        for one in some.values()
        if one.title in _FILTERS
    }
    if not found:
        return None
    kinds = {one.title for one in found.values()}
    mosaics = [
        Mosaic(
            title=one_line(shown_name(about, variant)),
            note=_filters_in_words(one),
            pictures=one,
            num_across=min(_ACROSS, len(one.values)),
        )
        for variant, one in found.items()
    ]
    said = "".join(words for kind, words in _FILTERS.items() if kind in kinds)
    return mosaics_figure(
        mosaics,
        shades=None,
        name=slug(f"{task}-filters"),
        title=f"First filters on {readable(task)}",
        caption=said + _OF_FILTERS,
        said=" ".join(f"{each.title}: {each.note}." for each in mosaics),
    )


def _filters_in_words(found: Pictures) -> str:
    """As ``16 of 4 x 4 pixels, the first has 42 % of the variance``."""
    share = f", the first has {found.words[0]} of the variance" if found.words else ""
    return f"{len(found.values)} of {found.grid[0]} x {found.grid[1]} pixels{share}"


_MAKERS: Mapping[str, Callable[[About, str], Drawing | None]] = {  # by `Ablation.opens_with`
    "attention": _attention,
    "positions": _positions,
    "filters": _filters,
    "words": opening_words,
    "drawings": opening_drawings,
}
