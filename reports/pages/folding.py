"""Folds what a reader need not see at once, so that a page can be read in minutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reports.document import Exhibit, Section

MOST_WORDS = 2_200  # of all sections unfolded; the rest of a page takes some hundred more


def folded(sections: Iterable[Section]) -> tuple[Section, ...]:
    """The same sections; an exhibit for which no words are left is folded."""
    found, left = [], MOST_WORDS
    for section in sections:
        exhibits = tuple(_exhibits(section, left))
        if not section.is_folded:
            left -= sum(one.num_words for one in exhibits if not one.is_folded)
        found.append(replace(section, exhibits=exhibits))
    return tuple(found)


def _exhibits(section: Section, left: int) -> Iterator[Exhibit]:
    for exhibit in section.exhibits:
        is_open = not (section.is_folded or exhibit.is_folded) and exhibit.num_words <= left
        left -= exhibit.num_words if is_open else 0
        # Of a folded section the whole is one fold, in which nothing else need be opened.
        yield replace(exhibit, is_folded=not (is_open or section.is_folded))
