"""Builds the section on what models draw from captions, beside the pictures that they belong to.

The models of the first seed, one a variant. Captions are chosen by a rule that knows nothing of
what a model draws; no number here is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from reports.document import Drawing, Exhibit, Section, readable
from reports.escape import one_line, slug
from reports.plots.images import Mosaic, mosaics_figure
from reports.results.pictures import Pictures, pictures
from reports.results.variant_labels import MAX_SHOWN, shown_name, shown_variants
from suite.schema import About, Specimen

_TITLE = "What the trained models draw"
_INTRODUCTION = (
    "The models of the first seed, on validation data that are chosen by rule. This is for "
    "looking: another seed draws other pictures, and no verdict rests on them."
)
_RULE = (
    "Four pictures of the validation split, evenly spaced from the first one on, and those of each "
    "model: given back, as its code lets them through, so that none can be drawn better; and drawn "
    "from the caption alone. "
)
_WAYS = ("given back", "drawn")


def drawings_section(about: About, opening: Drawing | None) -> Section | None:
    """The drawings of every task but the ones on the first screen; None without any."""
    tasks = (task for task in about.tasks if task in about.specimens)
    drawings = [drawing for task in tasks if (drawing := opening_drawings(about, task))]
    exhibits = tuple(
        Exhibit(title=drawing.title, drawings=(drawing,))
        for drawing in drawings
        if opening is None or drawing.name != opening.name
    )
    if not exhibits:
        return None
    return Section(title=_TITLE, sentences=(_INTRODUCTION,), exhibits=exhibits)


def opening_drawings(about: About, task: str) -> Drawing | None:
    """What was asked for, and what each of a few variants made of it; None where there is none."""
    of_task = about.specimens[task]
    asked = next(
        (each for some in of_task.values() for each in pictures(some, "asked_images").values()),
        None,
    )
    if asked is None:
        return None
    found = {variant: _alike(asked, some) for variant, some in of_task.items()}
    having = {variant for variant, some in found.items() if some}
    chosen = shown_variants(about, having, MAX_SHOWN)
    if not chosen:
        return None
    mosaics = [_mosaic("asked for", {"": asked})]
    mosaics += [_mosaic(one_line(shown_name(about, each)), found[each]) for each in chosen]
    captions = " ".join(
        f"{number}: {one_line(text)}." for number, text in enumerate(asked.words, start=1)
    )
    is_all = len(chosen) == len(having)
    of_all = "" if is_all else f"Shown are {len(chosen)} of {len(having)} variants. "
    return mosaics_figure(
        mosaics,
        shades=None,
        name=slug(f"{task}-drawings"),
        title=f"Drawings on {readable(task)}",
        caption=_RULE + of_all + captions,
        said=f"Four pictures each: {'; '.join(map(_name, mosaics))}. {captions}",
    )


def _alike(asked: Pictures, specimens: Iterable[Specimen]) -> dict[str, Pictures]:
    """What a variant made, by the way in which it did; as many pictures of the same size."""
    found = pictures(specimens, "drawn_images")
    return {
        way: found[way]
        for way in _WAYS
        if way in found and found[way].values.shape == asked.values.shape
    }


def _name(mosaic: Mosaic) -> str:
    return f"{mosaic.title}, {mosaic.note}" if mosaic.note else mosaic.title


def _mosaic(title: str, shown: Mapping[str, Pictures]) -> Mosaic:
    """A row for each way; the values of mosaics lie between -1 and 1."""
    rows = [each.values for each in shown.values()]
    values = Pictures(title="", values=2 * np.concatenate(rows) - 1)
    note = ", below ".join(shown)
    return Mosaic(title=title, note=note, pictures=values, num_across=len(rows[0]), is_framed=True)
