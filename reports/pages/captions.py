"""Builds the section on what models write about pictures, and where their words look.

The models of the first seed, one a variant. Pictures are chosen by a rule that knows nothing of
what a model wrote; no number here is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from reports.document import Drawing, Exhibit, Section, readable
from reports.escape import one_line, slug
from reports.plots.captions import captions_figure
from reports.plots.images import LooksOf, looks_figure
from reports.results.pictures import Pictures, pictures
from reports.results.variant_labels import shown_name, shown_variants
from suite.schema import About

MOST_WRITERS, MOST_LOOKING = 7, 6  # variants of a figure
_TITLE = "What the trained models write about pictures"
_INTRODUCTION = (
    "The models of the first seed, on pictures of the validation data that are chosen by rule. "
    "This is for looking: another seed writes other captions, and no verdict rests on them."
)
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
_ASKED = "asked for"


def captions_section(about: About, opening: Drawing | None) -> Section | None:
    """Captions and looks of every task but the drawing on the first screen; None without any."""
    drawings = (
        drawing
        for task in _tasks(about)
        for drawing in (_written(about, task), *_all_looks(about, task))
    )
    exhibits = tuple(
        Exhibit(title=drawing.title, drawings=(drawing,))
        for drawing in drawings
        if drawing and (opening is None or drawing.name != opening.name)
    )
    if not exhibits:
        return None
    return Section(title=_TITLE, sentences=(_INTRODUCTION,), exhibits=exhibits)


def opening_words(about: About, task: str) -> Drawing | None:
    """Where the words of the first caption look; None where no model does."""
    return next(_all_looks(about, task), None)


def _tasks(about: About) -> list[str]:
    return [task for task in about.tasks if task in about.specimens]


def _images(about: About, task: str) -> Pictures | None:
    """With what is asked for; the same of all variants."""
    found = (pictures(some, "captioned_images") for some in about.specimens[task].values())
    return next((each for some in found for each in some.values()), None)


def _written(about: About, task: str) -> Drawing | None:
    images = _images(about, task)
    if images is None or not images.words:
        return None
    by_variant = {
        variant: {each.title: each.text for each in some if each.kind == "caption"}
        for variant, some in about.specimens[task].items()
    }
    having = {variant for variant, some in by_variant.items() if some}
    chosen = shown_variants(about, having, MOST_WRITERS)
    texts = [
        {_ASKED: one_line(asked)}
        | {
            one_line(shown_name(about, variant)): one_line(text) or "(nothing)"
            for variant in chosen
            if (text := by_variant[variant].get(f"picture {number}")) is not None
        }
        for number, asked in enumerate(images.words, start=1)
    ]
    return captions_figure(
        images,
        texts,
        name=slug(f"{task}-captions"),
        title=f"Captions on {readable(task)}",
        caption=_WRITTEN + _how_many(len(chosen), len(having)),
    )


def _how_many(num_shown: int, num_having: int) -> str:
    return f"Shown are {num_shown} of {num_having} variants." if num_shown < num_having else ""


def _all_looks(about: About, task: str) -> Iterator[Drawing]:
    """A figure for each picture of which some models have weights."""
    images = _images(about, task)
    if images is None:
        return
    found = {
        variant: pictures(some, "word_attention") for variant, some in about.specimens[task].items()
    }
    titles = dict.fromkeys(title for some in found.values() for title in some)
    for title in titles:
        number = _number(title)
        if number is not None and number <= len(images.values):
            having = {
                variant: some[title]
                for variant, some in found.items()
                if title in some and some[title].words
            }
            if having:
                yield _looks(about, task, number, images, having)


def _number(title: str) -> int | None:
    """As 3 of ``picture 3``."""
    number = title.removeprefix("picture ")
    return int(number) if number.isdecimal() and int(number) else None


def _looks(
    about: About, task: str, number: int, images: Pictures, having: Mapping[str, Pictures]
) -> Drawing:
    """The picture once for each word, and below it where each variant looks."""
    chosen = shown_variants(about, set(having), MOST_LOOKING)
    words = having[chosen[0]].words
    picture = np.repeat(images.values[number - 1 : number], len(words), axis=0)
    looks = [
        LooksOf(title=one_line(shown_name(about, variant)), maps={"": _relative(having[variant])})
        for variant in chosen
        if having[variant].words == words
    ]
    return looks_figure(
        replace(images, values=picture, words=tuple(map(one_line, words))),
        looks,
        name=slug(f"{task}-words-{number}"),
        title=f"Where each word looks on {readable(task)}",
        caption=_LOOKS.format(number) + _how_many(len(chosen), len(having)),
        said=" ".join(_in_words(each, words) for each in looks),
    )


def _relative(found: Pictures) -> np.ndarray:
    """`[words, rows, columns]`, 1 being the average place of each word."""
    values = found.values[..., 0]
    mean = values.mean(axis=(1, 2), keepdims=True)
    relative: np.ndarray = np.divide(values, mean, out=np.ones_like(values), where=mean > 0)
    return relative


def _in_words(looks: LooksOf, words: tuple[str, ...]) -> str:
    parts = []
    for word, one in zip(words, looks.maps[""], strict=True):
        row, column = np.unravel_index(int(one.argmax()), one.shape)
        parts.append(f"{word}: row {row + 1}, column {column + 1}")
    return f"{looks.title}: most at {'; '.join(parts)}."
