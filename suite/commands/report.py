"""`bakeoff report`: the pages of ablations, or two selections of rows side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bakeoff.suite.errors import DONE
from bakeoff.suite.planning.loader import recorded_as
from bakeoff.suite.reporting.build import at_price, reports_of, sweeps_in
from bakeoff.suite.reporting.compare import compare as compare_selections
from bakeoff.suite.reporting.stored_editions import at_edition, editions_side_by_side, made_from
from bakeoff.suite.text import command, price_in
from bakeoff.suite.tracking.location import Store

_NO_COSTS = (
    "no trial used a GPU, so its page has no table of costs; `{status}` shows the cost of its "
    "CPU-hours."
)


def report(
    names: Sequence[str],
    open_store: Callable[[], Store],
    folder: Path,
    *,
    scale: str | None,
    compare: tuple[str, str] | None,
    price: str | None = None,
) -> int:
    """Write the pages and print their paths; return the exit code.

    The report of a file shows the edition that was made from its present content.

    Args:
        names: Names or files of ablations.
        open_store: Finds the store of the output folder; not called to compare two other stores.
        folder: The folder of the reports.
        scale: The scale to show; by default the largest one that has results.
        compare: Two selections to compare, or None.
        price: The price of an hour of a GPU, for the table of costs.

    Raises:
        SpecError: If an ablation is not recorded, the price is invalid, or the two selections of
            `--compare` cannot be compared.
        StoreUnavailable: If a store cannot be reached.
    """
    stated = price_in(price)
    if compare is None:
        known = recorded_as(names)
        store = open_store()
        held = dict(sweeps_in(store, asked=list(known)))
        for name, file in known.items():
            if file is not None and name in held:
                held[name] = at_edition(store, held[name], made_from(file))
        for page in reports_of(
            list(known), at_price(held, stated) if stated else held, folder, scale
        ):
            print(page, flush=True)
        for name in known if stated else ():
            if not any(sweep.about.costs for sweep in held[name]):
                said = _NO_COSTS.format(status=command("status", "--price", str(price)))
                print(f"{name}: {said}", file=sys.stderr)
        return DONE
    for name in recorded_as(names):
        headline, page = compare_selections(compare, name, open_store, folder, scale)
        print(headline, page, sep="\n", flush=True)
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
