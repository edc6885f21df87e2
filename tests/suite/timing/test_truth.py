"""Time real mixers with the real instrument where the truth is known.

There are three fresh processes, as for a quick report. Each times twenty mixers against themselves.
The forward and the forward and backward passes are 40 pairs without a difference; a slowed pass per
mixer gives 20 pairs with one of 5 %; and kernels of known growth run at seven lengths. The verdicts
are those of the reports.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import bakeoff
from bakeoff.reports.analysis.time_comparison import (
    TimeComparison,
    TimeOutcome,
    compare,
    judge_ratio,
    smallest_detectable_effect,
)
from bakeoff.reports.results.reading import Reading
from bakeoff.suite.schema import BASELINE_AGAIN, BASELINE_SLOWED, Status
from bakeoff.suite.timing.kernels import LINEAR, LINEARITHMIC, QUADRATIC
from tests.suite.timing.one_process import PAIRS

pytestmark = pytest.mark.timing

NUM_PROCESSES = 3
MAIN, FORWARD = "forward_backward_seconds", "forward_seconds"
ROOT = Path(bakeoff.__file__).parents[1]
DIFFERENT = (TimeOutcome.FASTER, TimeOutcome.SLOWER)


@dataclass(frozen=True)
class Found:
    """Results of all processes."""

    rows: Sequence[tuple[int, str, int, str, int, float | None, str, str]]

    def readings(self, mixer: str, length: int, metric: str, subject: int = 0) -> list[Reading]:
        """Return one reading per process."""
        return [
            Reading(
                seed=seed,
                at=f"length={length}",
                environment_id="here",
                value=math.nan if value is None else value,
                spread_low=math.nan,
                spread_high=math.nan,
                status=Status(status),
                reason=reason,
            )
            for seed, *what, value, status, reason in self.rows
            if what == [mixer, length, metric, subject]
        ]

    def curve(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the lengths and the median time measured at each."""
        lengths = sorted({length for _, length in PAIRS})
        seconds = [
            np.median([row[5] for row in self.rows if row[2] == length and row[3] == metric])
            for length in lengths
        ]
        return np.array(lengths, dtype=float), np.array(seconds)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("processes")
    rows = []
    for seed in range(NUM_PROCESSES):
        file = folder / f"{seed}.json"
        subprocess.run(
            [sys.executable, "-m", "tests.suite.timing.one_process", str(seed), str(file)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=True,
        )
        rows += [(seed, *row) for row in json.loads(file.read_text())]
    return Found(rows)


def same_pairs(found: Found) -> Iterator[tuple[str, TimeComparison]]:
    """Yield the comparison of each mixer with itself."""
    for mixer, length in PAIRS:
        for metric in (FORWARD, MAIN):
            first, second = (found.readings(mixer, length, metric, i) for i in (0, 1))
            yield f"{mixer:18} {length:6} {metric:26}", compare(second, first)


def ratios(found: Found, metric: str) -> Iterator[tuple[str, TimeComparison]]:
    for mixer, length in PAIRS:
        readings = found.readings(mixer, length, metric)
        yield f"{mixer:18} {length:6} {metric:26}", judge_ratio(readings)


def shown(table: Sequence[tuple[str, TimeComparison]]) -> None:
    """Print the table and the number of verdicts of each kind."""
    for name, judged in table:
        ratio = judged.ratio
        print(
            f"{name} {ratio.point:.4f} [{ratio.low:.4f}, {ratio.high:.4f}] {judged.outcome}"
            + (f": {judged.reason}" if judged.outcome is TimeOutcome.NOISY else "")
        )
    counts = {outcome: sum(j.outcome is outcome for _, j in table) for outcome in TimeOutcome}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count))


def test_of_40_pairs_without_a_difference_at_most_5_are_called_different(found: Found) -> None:
    table = list(same_pairs(found))
    print("\n\nEqual mixers, time of the one over time of the other")
    shown(table)
    effect = smallest_detectable_effect([judged for _, judged in table])
    print(f"smallest effect that is found four times in five: {effect}")
    assert len(table) == 40
    assert sum(judged.outcome in DIFFERENT for _, judged in table) <= 5
    assert sum(judged.outcome is TimeOutcome.NOISY for _, judged in table) <= 20


def test_of_20_slow_downs_by_5_percent_at_least_16_are_found(found: Found) -> None:
    table = list(ratios(found, BASELINE_SLOWED))
    print("\n\nA mixer slowed by 5 % over itself")
    shown(table)
    assert len(table) == 20
    assert sum(judged.outcome is TimeOutcome.SLOWER for _, judged in table) >= 16
    assert not any(judged.outcome is TimeOutcome.FASTER for _, judged in table)


def test_the_control_beside_each_baseline_tells_no_difference_either(found: Found) -> None:
    table = list(ratios(found, BASELINE_AGAIN))
    print("\n\nThe baseline built again over itself")
    shown(table)
    assert sum(judged.outcome in DIFFERENT for _, judged in table) <= 3


def test_kernels_come_back_with_the_exponents_that_they_have(found: Found) -> None:
    print("\n\nSynthetic kernels, slope of the logarithms")
    slopes = {
        metric: slope_of(*found.curve(metric)) for metric in (LINEAR, LINEARITHMIC, QUADRATIC)
    }
    n, seconds = found.curve(LINEARITHMIC)
    rest = slope_of(n, seconds / (n * np.log2(n)))
    for metric, slope in slopes.items():
        print(f"{metric:28} {slope:.4f}", *(f"{s * 1e3:9.4f}" for s in found.curve(metric)[1]))
    print(f"{'left of it over n log n':28} {rest:.4f}")
    assert slopes[LINEAR] == pytest.approx(1.0, abs=0.05)
    assert slopes[QUADRATIC] == pytest.approx(2.0, abs=0.05)
    assert rest == pytest.approx(0.0, abs=0.05)
    assert 1.05 < slopes[LINEARITHMIC] < 1.95


def slope_of(n: np.ndarray, seconds: np.ndarray) -> float:
    slope: float = np.polyfit(np.log(n), np.log(seconds), 1)[0]
    return slope
