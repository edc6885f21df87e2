"""What does a page show of a metric along a number? A picture, and the numbers folded below it.

What was measured before and after training are two views of one thing, and so are a score and
those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.along import Along, Line, along_coordinates, along_labels
from reports.along_figure import along_figure, axis_in_words, figure_name, metric_in_words
from reports.along_table import along_table
from reports.document import Drawing, Exhibit, View
from reports.figures import sentence
from reports.lines import MAX_LINES
from reports.results.numeric_axes import label_axis, number, value_of_baseline
from reports.results.series import Series
from suite.schema import About

_STAGES = {"initial_": "before training", "trained_": "after training"}
_WHOLE = "all together"
_EXPLORATORY = "This is exploratory: the verdict rests on the one claim alone."


def along_exhibits(about: About, measured: Sequence[Series], task: str) -> Iterator[Exhibit]:
    """One for each metric of a task and each number that it runs along.

    Args:
        about: Gives names, order and the baseline.
        measured: All of the sweep.
        task: Its name.
    """
    every = [*along_labels(about, measured, task), *along_coordinates(about, measured, task)]
    together: dict[tuple[str, ...], list[Along]] = {}
    for along in {figure_name(along): along for along in every}.values():
        key = (along.probe, _stem(along.metric), along.axis, along.row_title)
        together.setdefault(key, []).append(along)
    for some in together.values():
        yield _exhibit(about, some)


def _exhibit(about: About, some: Sequence[Along]) -> Exhibit:
    first = some[0]
    stem, each = metric_in_words(_stem(first.metric)), ""
    if first.is_of_groups:
        *names, last = first.row_title.replace("_", " ").split(", ")
        each = f", for each {' and '.join(filter(None, [', '.join(names), last]))}"
    axis = axis_in_words(first).partition(" (")[0]
    drawn = [(along, drawing) for along in some if (drawing := _drawn(about, along))]
    return Exhibit(
        title=sentence(f"{stem} by {axis}{each}"),
        sentences=(_EXPLORATORY,),
        drawings=tuple(drawing for _, drawing in drawn) if len(drawn) == 1 else (),
        views=_views(drawn) if len(drawn) > 1 else (),
        folded=tuple(along_table(along) for along in some),
    )


def _views(drawn: Sequence[tuple[Along, Drawing]]) -> tuple[View, ...]:
    return tuple(View(title=_view(along), drawings=(one,)) for along, one in drawn)


def _drawn(about: About, along: Along) -> Drawing | None:
    return along_figure(along, figure_name(along), _told_apart(about, along))


def _told_apart(about: About, along: Along) -> Sequence[Line]:
    """All lines; of too many those that share the baseline's number, where labels name one."""
    axis = label_axis(about, along.task)
    if len(along.lines) <= MAX_LINES or along.is_of_groups or axis is None:
        return along.lines
    wanted = number(value_of_baseline(about, axis.name))
    alike = {group.variants.get(wanted, "") for group in axis.groups} if wanted is not None else ()
    return [line for line in along.lines if line.variants[0] in alike] or along.lines


def _stem(metric: str) -> str:
    """Without the word for when it was measured."""
    stage = next((word for word in _STAGES if metric.startswith(word)), "")
    return metric.removeprefix(stage)


def _view(along: Along) -> str:
    """As on its button."""
    stage = next((said for word, said in _STAGES.items() if along.metric.startswith(word)), "")
    part = along.of.replace("=", " ").replace("_", " ") or ("" if stage else _WHOLE)
    return ", ".join(filter(None, [stage, part]))
