"""Find what differs between two selections besides the compared numbers.

That is what is recorded of them (commits, environments, settings, model, data, claim, seeds), and
how much slower the machine itself became. The instrument's own kernels do the same work in every
timing process; where they took longer, so did everything else.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable

from reports.compare.pairs import Selection
from reports.results.series import reading_of

_KERNELS = (
    "linear_kernel_seconds", "linearithmic_kernel_seconds", "quadratic_kernel_seconds"
)  # fmt: skip
_KERNEL_KEY = ["metric", "task", "probe", "variant", "at", "environment_id", "seed"]
_NOTHING = "none"


def recorded_differences(a: Selection, b: Selection) -> dict[str, tuple[str, str]]:
    """Each thing that is recorded and differs, with the values of A and B as they are printed."""
    of_a, of_b = _recorded(a), _recorded(b)
    both = {name: (of_a.get(name, _NOTHING), of_b.get(name, _NOTHING)) for name in of_a | of_b}
    return {name: values for name, values in both.items() if values[0] != values[1]}


def machine_drift(a: Selection, b: Selection) -> tuple[float, int] | None:
    """How many times as long the kernels took in B.

    Returns:
        The median ratio over kernels, coordinates and processes, and the number of ratios; None
        where no kernel was timed in an environment of both.
    """
    of_a, of_b = _kernel_seconds(a), _kernel_seconds(b)
    logs = [math.log(of_b[key] / of_a[key]) for key in of_a.keys() & of_b.keys()]
    return (math.exp(statistics.median(logs)), len(logs)) if logs else None


def _recorded(selection: Selection) -> dict[str, str]:
    about, rows = selection.about, selection.results
    claim = dataclasses.asdict(about.claim) if about.claim else {}
    data = {task: used.sha256 for task, used in about.data_sets.items()}
    return {
        "commit": _joined(rows["commit"]),
        "environment": _joined(rows["environment_id"]),
        "device": _joined(rows["device"]),
        **_provenance(selection),
        "seeds planned": str(about.num_seeds),
        **{f"setting: {name}": str(value) for name, value in about.settings.items()},
        **{f"baseline model: {name}": str(value) for name, value in about.model.items()},
        "baseline": about.baseline,
        **{f"data: {task}": digest for task, digest in data.items()},
        **{f"claim: {name}": str(value) for name, value in claim.items()},
    }


def _provenance(selection: Selection) -> dict[str, str]:
    """Of the environments in which the selected rows were measured, and of no others."""
    measured_in = set(selection.results["environment_id"])
    made = [p for name, p in selection.about.provenances.items() if name in measured_in]
    found = {"threads": _joined(str(provenance.num_threads) for provenance in made)}
    versions, conditions = [p.versions for p in made], [p.conditions for p in made]
    for suffix, mappings in ((" version", versions), ("", conditions)):
        for name in sorted(set[str]().union(*mappings)):
            found[name + suffix] = _joined(mapping.get(name, _NOTHING) for mapping in mappings)
    return found


def _joined(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values) - {""})) or _NOTHING


def _kernel_seconds(selection: Selection) -> dict[tuple[str, ...], float]:
    """Seconds by `_KERNEL_KEY`."""
    results = selection.results
    found: dict[tuple[str, ...], float] = {}
    for row in results[results["metric"].isin(_KERNELS)].to_dict("records"):
        reading = reading_of(row)
        if reading.has_number and reading.value > 0:
            found[tuple(str(row[name]) for name in _KERNEL_KEY)] = reading.value
    return found
