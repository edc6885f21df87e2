"""Build the exhibits of translations, and of the attention of their words to the source.

For each variant, the model of the first seed is shown. The examples are chosen by rules that depend
only on the data, and no verdict rests on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bakeoff.reports.document import Column, Drawing, Entry, Exhibit, ReportTable, column_rows
from bakeoff.reports.escape import one_line, slug
from bakeoff.reports.pages.pictures import how_many
from bakeoff.reports.plots.alignments import alignment_figure
from bakeoff.reports.plots.heatmaps import Panel
from bakeoff.reports.results.samples import Matrix, matrices, of_variants, texts
from bakeoff.reports.results.spoken_names import shown_name, shown_names
from bakeoff.reports.stats.intervals import Estimate
from bakeoff.suite.schema import About, Sample

MOST_VARIANTS, MOST_SQUARES, NUM_UNFOLDED = 8, 6, 3
SOURCE, REFERENCE = "source", "reference"
_TEN = (
    "The first 100 validation examples are sorted by the number of source words, and those at 5 %, "
    "15 %, ..., 95 % are shown. Each model generates its translation from the source only. chrF is "
    "computed per sentence, from 0 to 100: the overlap of sequences of one to six characters with "
    "the reference."
)
_ALIGNED = (
    "Each square is one variant. Rows are tokens of the reference, which is given to the model up "
    "to that token; columns are tokens of the source; darker means a larger weight. A subword that "
    "continues a word begins with an ellipsis. If a model has several heads and layers, the "
    "architecture combines them into one matrix. The example is the one with the median number of "
    "source tokens among those of the first 50 validation examples with 8 to 24."
)


def translations_exhibit(about: About, task: str) -> Iterator[Exhibit]:
    """Yield an exhibit with a table for each example, most of them folded."""

    def found_in(some: Sequence[Sample]) -> dict[str, Sample]:
        return {title: each for title, each in texts(some, "translation").items() if each.source}

    found, num_having = of_variants(about, task, found_in, MOST_VARIANTS)
    if not found:
        return
    tables: list[ReportTable] = []
    for title in dict.fromkeys(title for some in found.values() for title in some):
        written = {variant: some[title] for variant, some in found.items() if title in some}
        tables += _tables(about, task, title, written)
    yield Exhibit(
        title=f"Ten examples of {task}",
        sentences=(f"{_TEN} {how_many(len(found), num_having)}".rstrip(),),
        tables=tuple(tables[:NUM_UNFOLDED]),
        folded=tuple(tables[NUM_UNFOLDED:]),
    )


def _tables(
    about: About, task: str, title: str, written: Mapping[str, Sample]
) -> Iterator[ReportTable]:
    """Yield a table, or one for each source if variants differ in their data."""
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
        yield ReportTable(
            name=slug(f"{task}-example-{title.rstrip(' %')}{f'-{number + 1}' if number else ''}"),
            title=f"The example at {title}: {len(source.split())} words",
            task=task,
            row_title="written by",
            columns=columns,
            rows=column_rows(columns, texts, baseline=about.baseline, shown=shown_names(about)),
            is_stacked=True,
        )


def _score(sample: Sample) -> Entry:
    if sample.score is None:
        return Entry(text="–", tone="none")
    estimate = Estimate(n=1, point=sample.score)
    return Entry(estimate=estimate, text=f"{sample.score:.1f}")


def alignments_exhibit(about: About, task: str) -> Iterator[Exhibit]:
    """Yield an exhibit with a panel for each variant, and a figure for each example in use."""

    def found_in(some: Sequence[Sample]) -> list[Matrix]:
        found = matrices(some, "alignment")
        return [matrix for matrix in found if matrix.row_words and matrix.column_words][-1:]

    found, num_having = of_variants(about, task, found_in, MOST_SQUARES)
    by_words: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, Matrix]] = {}
    for variant, (matrix,) in found.items():
        by_words.setdefault((matrix.row_words, matrix.column_words), {})[variant] = matrix
    if found:
        yield Exhibit(
            title=f"Alignments on {task}",
            sentences=(f"{_ALIGNED} {how_many(len(found), num_having)}".rstrip(),),
            drawings=tuple(
                _drawing(about, task, number, some) for number, some in enumerate(by_words.values())
            ),
        )


def _drawing(about: About, task: str, number: int, some: Mapping[str, Matrix]) -> Drawing:
    panels: Sequence[Panel] = [
        Panel(title=one_line(shown_name(about, variant)), matrix=matrix)
        for variant, matrix in some.items()
    ]
    return alignment_figure(
        panels,
        name=slug(f"{task}-alignment{f'-{number + 1}' if number else ''}"),
        title=f"Alignment of the target words on {task}",
        caption=(
            "Rows are the target, columns the source. The darkness is proportional to the square "
            "root of the weight."
        ),
    )
