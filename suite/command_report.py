"""`bakeoff report`: the pages of ablations, or two selections of rows side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from reports.compare.page import render_comparison
from reports.results.frame import Sweep
from suite.catalogue import name_of
from suite.commands.compare_selection import select_for_comparison
from suite.errors import DONE
from suite.reporting.build import reports_from_store, sweeps_in
from suite.spec import SpecError
from suite.tracking.location import existing_store_of


@dataclass(frozen=True, kw_only=True)
class Wishes:
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


def report(names: Sequence[str], wishes: Wishes) -> int:
    """Write the pages and print their paths; returns the exit code.

    Raises:
        SpecError: for what is not recorded, or two names of `--compare` that cannot be compared.
        StoreUnavailable: if a store cannot be reached.
    """
    lines = _pages(names, wishes) if wishes.compare is None else _comparisons(names, wishes)
    for line in lines:
        print(line, flush=True)
    return DONE


def _pages(names: Sequence[str], wishes: Wishes) -> Iterator[str]:
    store = existing_store_of(wishes.out, wishes.tracking_uri)
    folder = wishes.out / "reports"
    yield from map(str, reports_from_store(map(name_of, names), store, folder, wishes.scale))


def _comparisons(names: Sequence[str], wishes: Wishes) -> Iterator[str]:
    """The headline and the page of each comparison, ablation by ablation."""
    assert wishes.compare is not None, "asked before"
    for name in dict.fromkeys(map(name_of, names)):
        own = cache(partial(_own, name, wishes))  # asked once, though both may need it
        a, b = select_for_comparison(wishes.compare, name, own, wishes.scale)
        headline, page = render_comparison(a, b, wishes.out / "reports")
        yield headline
        yield str(page)


def _own(name: str, wishes: Wishes) -> Sequence[Sweep]:
    """What this store holds of the ablation."""
    store = existing_store_of(wishes.out, wishes.tracking_uri)
    sweeps = sweeps_in(store, name)
    if not sweeps:
        raise SpecError(f"nothing is recorded of {name!r} yet; `bakeoff run {name}` does that.")
    return sweeps
