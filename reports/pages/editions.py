"""Builds the section on the editions of an ablation: what was tried, and how it came out."""

from __future__ import annotations

from reports.analysis.editions import date, editions_with_results, in_words
from reports.document import Column, Entry, Exhibit, Row, Section, Table
from suite.schema import About, Edition

_TITLES = ("first planned", "what differs from this page", "trials done", "verdict")
_INTRODUCTION = (
    "Every edition of this ablation at this scale that has results, newest first. An edition is "
    "one version of its plan: a file that was edited, or other seeds."
)


def editions_section(about: About) -> Section | None:
    """None where there is but one edition with results."""
    tried = editions_with_results(about)
    if len(tried) < 2:
        return None
    table = Table(
        name="editions", title="Editions", task="",
        row_title="edition", columns=tuple(Column(key=t, title=t, entries={}) for t in _TITLES),
        rows=tuple(_row(each, about) for each in tried),
    )  # fmt: skip
    return Section(
        title=table.title,
        exhibits=(Exhibit(title="", sentences=(_INTRODUCTION,), tables=(table,)),),
    )


def _row(edition: Edition, about: About) -> Row:
    differs = "this page" if edition.is_shown else in_words(edition, about)
    done = f"{edition.num_done:,} of {edition.num_trials:,}"
    texts = (date(edition), differs, done, edition.verdict or "none")
    return Row(name=str(edition.number), entries=tuple(Entry(text=text) for text in texts))
