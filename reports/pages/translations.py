"""Builds the section on what models write about a source, and where they look meanwhile.

The models of the first seed, one a variant. The examples are chosen by rules that know the data
only: no number here is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reports.document import Column, Drawing, Entry, Exhibit, Section, Table, column_rows
from reports.escape import one_line, slug
from reports.plots.alignments import alignment_figure
from reports.plots.heatmaps import Panel
from reports.results.matrices import Matrix, matrices
from reports.results.variant_labels import shown_name, shown_variants, what_baseline_is
from reports.stats.intervals import Estimate
from suite.schema import About, Specimen

MOST_VARIANTS, MOST_SQUARES, NUM_UNFOLDED = 8, 6, 3
SOURCE, REFERENCE = "source", "reference"
_TITLE = "What the trained models write"
_INTRODUCTION = (
    "The models of the first seed on examples of the validation data, which are chosen by rule and "
    "not by what a model wrote. This is for looking: no verdict rests on it."
)
_TEN = (
    "The first 100 validation examples, in the order of the number of words of the source; shown "
    "are those at 5 %, 15 %, ..., 95 %. Each model writes by itself. chrF is of one "
    "sentence, from 0 to 100: how much of its sequences of one to six characters is right."
)
_ALIGNED = (
    "One square a variant. A row is a token of the reference, which the model is given up to "
    "there; a column is a token of the source; the darker, the more of the row’s weight lies "
    "there. A piece that continues a word begins with an ellipsis. Of several heads and layers it "
    "is one matrix, as the architecture gives it. The example is the one whose source has the "
    "median number of tokens, of those of the first 50 validation examples with 8 to 24."
)


def translations_section(about: About) -> Section | None:
    """Texts and alignments of every task; None where there are none."""
    exhibits = tuple(_exhibits(about))
    if not exhibits:
        return None
    return Section(title=_TITLE, sentences=(_INTRODUCTION,), exhibits=exhibits)


def _exhibits(about: About) -> Iterator[Exhibit]:
    for task in (task for task in about.tasks if task in about.specimens):
        made = translations_exhibit(about, task), alignments_exhibit(about, task)
        yield from filter(None, made)


def _how_many(num_shown: int, num_having: int) -> str:
    return f" Shown are {num_shown} of {num_having} variants." if num_shown < num_having else ""


def translations_exhibit(about: About, task: str) -> Exhibit | None:
    """A table an example: source, reference and a row a variant; all but a few are folded."""
    found = {
        variant: {each.title: each for each in some if each.kind == "translation" and each.source}
        for variant, some in about.specimens[task].items()
    }
    having = {variant for variant, some in found.items() if some}
    chosen = shown_variants(about, having, MOST_VARIANTS)
    if not chosen:
        return None
    titles = list(dict.fromkeys(title for variant in chosen for title in found[variant]))
    tables: list[Table] = []
    for title in titles:
        written = {v: found[v][title] for v in chosen if title in found[v]}
        tables += _tables(about, task, title, written)
    return Exhibit(
        title=f"Ten examples of {task}",
        sentences=(_TEN + _how_many(len(chosen), len(having)),),
        tables=tuple(tables[:NUM_UNFOLDED]),
        folded=tuple(tables[NUM_UNFOLDED:]),
    )


def _tables(
    about: About, task: str, title: str, written: Mapping[str, Specimen]
) -> Iterator[Table]:
    """One; as many as there are sources, where variants differ in their data."""
    pairs = dict.fromkeys((each.source, each.reference) for each in written.values())
    for number, (source, reference) in enumerate(pairs):
        some = {v: s for v, s in written.items() if (s.source, s.reference) == (source, reference)}
        texts = {
            SOURCE: Entry(text=one_line(source)),
            REFERENCE: Entry(text=one_line(reference)),
            **{v: Entry(text=one_line(s.text) or "(nothing)") for v, s in some.items()},
        }
        empty = Entry(text="", tone="none")
        scores = {v: _score(s) for v, s in some.items()}
        columns = (
            Column(key="text", title="text", entries=texts),
            Column(
                key="chrf",
                title="chrF",
                measured_unit="chrF",
                arrow="↑",
                entries={SOURCE: empty, REFERENCE: empty, **scores},
            ),
        )
        yield Table(
            name=slug(f"{task}-example-{title.rstrip(' %')}{f'-{number + 1}' if number else ''}"),
            title=f"The example at {title}: {len(source.split())} words",
            task=task,
            row_title="written by",
            columns=columns,
            rows=column_rows(
                columns, texts, {about.baseline: what_baseline_is(about)}, about.baseline
            ),
            is_stacked=True,
        )


def _score(specimen: Specimen) -> Entry:
    if specimen.score is None:
        return Entry(text="–", tone="none")
    estimate = Estimate(n=1, point=specimen.score)
    return Entry(estimate=estimate, text=f"{specimen.score:.1f}")


def alignments_exhibit(about: About, task: str) -> Exhibit | None:
    """A square for each of a few variants; a figure for each example, where they differ."""
    found = {
        variant: matrix
        for variant, some in about.specimens[task].items()
        for matrix in matrices(some, "alignment")
        if matrix.row_words and matrix.column_words
    }
    chosen = shown_variants(about, found, MOST_SQUARES)
    if not chosen:
        return None
    by_words: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, Matrix]] = {}
    for variant in chosen:
        matrix = found[variant]
        by_words.setdefault((matrix.row_words, matrix.column_words), {})[variant] = matrix
    drawings = tuple(
        _drawing(about, task, number, some) for number, some in enumerate(by_words.values())
    )
    return Exhibit(
        title=f"Alignments on {task}",
        sentences=(_ALIGNED + _how_many(len(chosen), len(found)),),
        drawings=drawings,
    )


def _drawing(about: About, task: str, number: int, some: Mapping[str, Matrix]) -> Drawing:
    panels: Sequence[Panel] = [
        Panel(title=one_line(shown_name(about, variant)), matrix=matrix)
        for variant, matrix in some.items()
    ]
    return alignment_figure(
        panels,
        name=slug(f"{task}-alignment{f'-{number + 1}' if number else ''}"),
        title=f"Where each word of the target looks on {task}",
        caption="Rows are the target, columns the source. Shades grow with the square root of the "
        "weight.",
    )
