"""Show the editions of an ablation: their settings and their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bakeoff.reports.analysis.editions import date, in_words, own_values
from bakeoff.reports.document import Column, Entry, Exhibit, ReportTable, Row, Section, readable
from bakeoff.reports.results.series import Series
from bakeoff.reports.tables.comparison import columns, primary
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import About, Edition

_TITLES = ("edition", "first planned", "settings", "trials", "baseline", "best", "verdict")
_COLUMNS = {  # name in CSV -> title
    "first planned": "first planned",
    "what differs from this page": "difference from this page",
    "trials done": "trials done",
    "verdict": "verdict",
}
_INTRODUCTION = (
    "The table lists all editions of this ablation at this scale that have results, newest first. "
    "An edition is one version of the plan; editing the file or changing the seeds creates a new "
    "edition."
)


def editions_section(about: About) -> Section:
    """Return the section with a table of the editions that have results."""
    table = ReportTable(
        name="editions",
        title="Editions",
        task="",
        row_title="edition",
        columns=tuple(Column(key=key, title=title, entries={}) for key, title in _COLUMNS.items()),
        rows=tuple(_table_row(each, about) for each in about.editions_with_results),
    )
    return Section(
        title=table.title,
        exhibits=(Exhibit(title="", sentences=(_INTRODUCTION,), tables=(table,)),),
        is_folded=True,
    )


def _table_row(edition: Edition, about: About) -> Row:
    differs = "this page" if edition.is_shown else in_words(edition, about)
    done = f"{edition.num_done:,} of {edition.num_trials:,}"
    texts = (date(edition), differs, done, edition.verdict or "none")
    return Row(name=str(edition.number), entries=tuple(Entry(text=text) for text in texts))


def editions_in_lines(about: About, sweeps: Mapping[int, Sweep]) -> Iterator[str]:
    """Yield a line of titles, then a line for each edition with results, newest first.

    Args:
        about: The sweep of the shown edition.
        sweeps: The number of an edition -> its sweep.
    """
    tried = about.editions_with_results
    rows = [_TITLES, *(_row(each, tried, sweeps[each.number], about) for each in tried)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield f"{about.ablation}, {about.scale}: editions with results"
    for row in rows:
        padded = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _row(
    edition: Edition, tried: tuple[Edition, ...], sweep: Sweep, about: About
) -> tuple[str, ...]:
    baseline, best = _scores(sweep)
    number = f"{edition.number} (shown)" if edition.is_shown else str(edition.number)
    settings = own_values(edition, tried) if len(tried) > 1 else "only edition"
    done = f"{edition.num_done:,} of {edition.num_trials:,}"
    return number, date(edition), settings, done, baseline, best, edition.verdict or "none"


def _scores(sweep: Sweep) -> tuple[str, str]:
    """Return the scores of the baseline and of the best variant, with interval and unit."""
    about, series = sweep.about, _judged(sweep)
    if series is None:
        return "none", "none"
    column = next(columns(about, series, about.variants))
    points = {
        variant: point
        for variant in about.variants
        if (point := column.entries[variant].estimate.point) is not None
        if series.better != "none" and not series.seeds_diverged(variant)
    }
    texts = {
        variant: " ".join(filter(None, (entry.marked, column.unit, entry.interval)))
        for variant, entry in column.entries.items()
    }
    choose = max if series.better == "higher" else min
    best = choose(points, key=lambda variant: points[variant]) if points else ""
    name = readable(series.metric)
    return f"{name} {texts[about.baseline]}", f"{best}: {texts[best]}" if best else "none"


def _judged(sweep: Sweep) -> Series | None:
    """Return the series that the claim is about, or else that the first task is judged by."""
    claim = sweep.about.claim
    of_claim = [
        series
        for series in sweep.measured
        if claim and (series.task, series.metric, series.at) == (claim.task, claim.metric, claim.at)
    ]
    if of_claim:
        return max(of_claim, key=lambda series: series.num_seen)
    return primary(sweep.compared, sweep.about.tasks[0])
