"""Did the machine itself move between two selections? The instrument's own kernels tell.

They do the same work in every timing process, whatever the variants are; where they took longer,
so did everything else.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from reports.results.series import reading_of

KERNELS = frozenset(
    {"linear_kernel_seconds", "linearithmic_kernel_seconds", "quadratic_kernel_seconds"}
)


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How the kernels' times changed.

    Attributes:
        ratio: Median of B over A, over kernels, coordinates and processes.
        num_pairs: Kernel times that both have.
    """

    ratio: float
    num_pairs: int


def machine_drift(a: pd.DataFrame, b: pd.DataFrame) -> Drift | None:
    """B's machine beside A's; None where no kernel was timed in an environment of both.

    Args:
        a: Rows of results; columns as `suite.schema.RESULT_COLUMNS`.
        b: Likewise.
    """
    of_a, of_b = _kernel_seconds(a), _kernel_seconds(b)
    both = sorted(of_a.keys() & of_b.keys())
    if not both:
        return None
    logs = [math.log(of_b[key] / of_a[key]) for key in both]
    return Drift(ratio=math.exp(statistics.median(logs)), num_pairs=len(both))


def _kernel_seconds(results: pd.DataFrame) -> Mapping[tuple[str, ...], float]:
    """Kernel, task, probe, coordinate, environment and process -> seconds."""
    found: dict[tuple[str, ...], float] = {}
    for row in results[results["metric"].isin(list(KERNELS))].to_dict("records"):
        reading = reading_of(row)
        if reading.has_number and reading.value > 0:
            names = ("metric", "task", "probe", "variant", "at", "environment_id", "seed")
            found[tuple(str(row[name]) for name in names)] = reading.value
    return found
