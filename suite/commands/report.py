"""`bakeoff report`: the pages of ablations, or two selections of rows side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bakeoff.suite.errors import DONE
from bakeoff.suite.planning.loader import recorded_as
from bakeoff.suite.reporting.build import at_price, reports_of, sweeps_in
from bakeoff.suite.reporting.compare import compare as compare_selections
from bakeoff.suite.reporting.stored_editions import at_edition, editions_side_by_side, made_from
from bakeoff.suite.reporting.tidy import (
    as_records,
    shown_on_pages,
    trial_counts,
    verdicts_of,
    write_records,
)
from bakeoff.suite.text import command, price_in
from bakeoff.suite.tracking.location import Store

if TYPE_CHECKING:
    from bakeoff.reports.view import Sweep

_NO_COSTS = (
    "no trial used a GPU, so its page has no table of costs; `{status}` shows the cost of its "
    "CPU-hours."
)


def report(
    names: Sequence[str],
    store: Store,
    folder: Path,
    *,
    scale: str | None,
    price: str | None = None,
    records: Path | None = None,
    as_json: bool = False,
) -> int:
    """Write the pages and print their paths; return the exit code.

    The report of a file shows the edition that was made from its present content.

    Args:
        names: Names or files of ablations.
        store: The store of the output folder.
        folder: The folder of the reports.
        scale: The scale to show; by default the largest one that has results.
        price: The price of an hour of a GPU, for the table of costs.
        records: A file to write the numbers shown to, as records of PyTorch's dashboard.
        as_json: Whether to print one object instead of the paths: counts of trials, verdicts,
            paths.

    Raises:
        SpecError: If an ablation is not recorded, or the price is invalid.
        StoreUnavailable: If the store cannot be reached.
    """
    stated = price_in(price)
    known = recorded_as(names)
    held = dict(sweeps_in(store, asked=list(known)))
    for name, file in known.items():
        if file is not None and name in held:
            held[name] = at_edition(store, held[name], made_from(file))
    pages = reports_of(list(known), at_price(held, stated) if stated else held, folder, scale)
    shown = shown_on_pages(held, list(known), scale)
    if records is not None:
        write_records(shown, records)
    if as_json:
        print(json.dumps(_as_json(shown, folder.parent, pages), indent=1))
    else:
        print(*pages, sep="\n", flush=True)
    for name in known if stated else ():
        if not any(sweep.about.costs for sweep in held[name]):
            said = _NO_COSTS.format(status=command("status", "--price", str(price)))
            print(f"{name}: {said}", file=sys.stderr)
    return DONE


def _as_json(shown: Sequence[Sweep], out: Path, pages: Sequence[Path]) -> dict[str, Any]:
    """Return the content of the pages as values of JSON; `bakeoff run --json` has the same keys."""
    return {
        "counts": trial_counts(shown),
        "verdicts": as_records(verdicts_of({str(out): shown})),
        "reports": [str(page) for page in pages],
    }


def compare(
    names: Sequence[str],
    selections: tuple[str, str],
    open_store: Callable[[], Store],
    folder: Path,
    *,
    scale: str | None,
    as_json: bool = False,
) -> int:
    """Write pages that compare two selections, print what changed; return the exit code.

    Args:
        names: Names or files of ablations.
        selections: The two selections.
        open_store: Finds the store of the output folder; not called to compare two other stores.
        folder: The folder of the reports.
        scale: The scale to show; by default the largest one at which both have results.
        as_json: Whether to print one object instead of lines.

    Raises:
        SpecError: If an ablation is not recorded, or the two selections cannot be compared.
        StoreUnavailable: If a store cannot be reached.
    """
    found = []
    for name in recorded_as(names):
        headline, page = compare_selections(selections, name, open_store, folder, scale)
        found.append({"ablation": name, "headline": headline, "report": str(page)})
        if not as_json:
            print(headline, page, sep="\n", flush=True)
    if as_json:
        print(json.dumps({"comparisons": found}, indent=1))
    return DONE


def print_editions(names: Sequence[str], open_store: Callable[[], Store], scale: str | None) -> int:
    """Print the editions of each ablation side by side; return the exit code.

    Raises:
        SpecError: If an ablation is not recorded.
        StoreUnavailable: If the store cannot be reached.
    """
    for name in recorded_as(names):
        for line in editions_side_by_side(open_store(), name, scale):
            print(line, flush=True)
    return DONE
