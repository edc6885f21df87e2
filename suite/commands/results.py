"""Read results from Python, as `bakeoff.results`, `bakeoff.verdicts` and `bakeoff.curves`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bakeoff.models.errors import did_you_mean
from bakeoff.suite.places import SHIPPED_VERDICTS
from bakeoff.suite.planning.loader import recorded_as, shipped
from bakeoff.suite.reporting.tidy import (
    Held,
    curves_of,
    results_of,
    sweeps_in_folder,
    verdicts_from_csv,
    verdicts_of,
)
from bakeoff.suite.spec import Ablation, SpecError

if TYPE_CHECKING:
    import pandas as pd

Names = str | Ablation | Sequence[str | Ablation] | None
Folders = Path | str | Sequence[Path | str]


def results(names: Names = None, out: Folders = "out") -> pd.DataFrame:
    """Return all measurements, a row for each, with a typed column for each axis.

    Args:
        names: Names, files or `Ablation` objects, one or several; by default all that have results.
        out: An output folder, or a folder of finished reports such as ``fetched``; or several.

    Returns:
        The columns of ``results.parquet``, with the folder in the column `out`, and the values of
        coordinates such as ``length=1024`` in columns such as `at_length`. See
        docs/results-columns.md.

    Raises:
        SpecError: If a folder does not exist or holds no results, or a name has none.
    """
    return results_of(_held(names, out))


def verdicts(names: Names = None, out: Folders = "out") -> pd.DataFrame:
    """Return a row for each claim: effect, interval, p, q, verdict and published figure.

    `effect` is how much better `a` is than `b` in `unit`: positive is better. If times are
    compared, the unit is ``ratio`` and the effect is how many times as fast `a` is. The verdict is
    that of the ablation's page. `q` is the p-value after the correction of Benjamini and Hochberg
    for all tests in the table.

    The arguments and exceptions are those of `results`.
    """
    return verdicts_of(_held(names, out))


def curves(names: Names = None, out: Folders = "out") -> pd.DataFrame:
    """Return the learning curves, a row for each point, with a typed column for each axis.

    The arguments and exceptions are those of `results`.
    """
    return curves_of(_held(names, out))


def published_results() -> pd.DataFrame:
    """Return the verdicts of the reports that come with bakeoff, in the columns of `verdicts`."""
    return verdicts_from_csv(SHIPPED_VERDICTS)


def _held(names: Names, out: Folders) -> Held:
    folders = [out] if isinstance(out, (str, Path)) else list(out)
    if not folders:
        raise SpecError("out=[] names no folder; give at least one.")
    held = {str(folder): sweeps_in_folder(Path(folder)) for folder in folders}
    if names is None:
        return held
    given = [names] if isinstance(names, (str, Ablation)) else list(names)
    if not given:
        raise SpecError("names=[] names no ablation; leave it out for all that have results.")
    wanted = [
        name
        for each in given
        for name in ([each.own_name] if isinstance(each, Ablation) else recorded_as([each]))
    ]
    recorded = {sweep.about.ablation for sweeps in held.values() for sweep in sweeps}
    for name in wanted:
        _refuse_unknown(name, recorded, list(held))
    return {
        folder: [sweep for sweep in sweeps if sweep.about.ablation in wanted]
        for folder, sweeps in held.items()
    }


def _refuse_unknown(name: str, recorded: set[str], folders: Sequence[str]) -> None:
    if name in recorded:
        return
    hint = did_you_mean(name, recorded) or did_you_mean(name, shipped()) or "."
    raise SpecError(
        f"no results are recorded for {name!r} in {' or '.join(folders)}{hint} Recorded are: "
        f"{', '.join(sorted(recorded))}."
    )
