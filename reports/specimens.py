"""What do the trained models look at, and what do they write? For looking: no number is judged.

The models of the first seed, one a variant, on the first example of the validation data.
"""

from __future__ import annotations

from collections.abc import Iterator

from reports.attention_exhibit import attention_exhibit
from reports.position_exhibits import biases_exhibit, cosines_exhibit
from reports.samples_exhibit import samples_exhibit
from reports.section import Exhibit, Section
from suite.schema import About

_TITLE = "What the trained models look at"
_INTRODUCTION = (
    "The models of the first seed, on the first example of the validation data. This is for "
    "looking: another seed gives other heads, and no verdict rests on it."
)


def specimens_section(about: About) -> Section | None:
    """The pictures and texts of every task; None where there are none."""
    exhibits = tuple(_exhibits(about))
    if not exhibits:
        return None
    return Section(title=_TITLE, sentences=(_INTRODUCTION,), exhibits=exhibits)


def _exhibits(about: About) -> Iterator[Exhibit]:
    for task in about.tasks:
        if task in about.specimens:
            for made in (attention_exhibit, cosines_exhibit, biases_exhibit, samples_exhibit):
                exhibit = made(about, task)
                if exhibit:
                    yield exhibit
