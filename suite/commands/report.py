"""`bakeoff report`: the pages of ablations, or two selections of rows side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from suite.errors import DONE
from suite.planning.loader import name_of
from suite.reporting.build import reports_of, sweeps_in
from suite.reporting.compare import compare
from suite.tracking.location import existing_store_of


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What was asked for.

    Attributes:
        out: The output folder; the reports go there.
        tracking_uri: Of this store; None for the file in the output folder.
        scale: None for the largest that has results.
        compare: The names of two selections; None for the plain report.
    """

    out: Path
    tracking_uri: str | None
    scale: str | None
    compare: tuple[str, str] | None = None


def report(names: Sequence[str], options: ReportOptions) -> int:
    """Write the pages and print their paths; returns the exit code.

    Raises:
        SpecError: for what is not recorded, or two names of `--compare` that cannot be compared.
        StoreUnavailable: if a store cannot be reached.
    """
    lines = _pages(names, options) if options.compare is None else _comparisons(names, options)
    for line in lines:
        print(line, flush=True)
    return DONE


def _pages(names: Sequence[str], options: ReportOptions) -> Iterator[str]:
    store = existing_store_of(options.out, options.tracking_uri)
    folder = options.out / "reports"
    yield from map(str, reports_of(map(name_of, names), sweeps_in(store), folder, options.scale))


def _comparisons(names: Sequence[str], options: ReportOptions) -> Iterator[str]:
    """The headline and the page of each comparison, ablation by ablation."""
    assert options.compare is not None, "asked before"
    for name in dict.fromkeys(map(name_of, names)):
        here = partial(existing_store_of, options.out, options.tracking_uri)
        headline, page = compare(
            options.compare, name, here, options.out / "reports", options.scale
        )
        yield headline
        yield str(page)
