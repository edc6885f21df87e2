"""What does each trial of a long sweep cost, and does the driver grow? 3,000 small ones.

Each counts the parameters of a small model: through Ray, the journal (with its fsync) and MLflow,
as a command of its own that is watched from outside.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from suite.journal.journal import Journal
from suite.journal.sqlite_schema import JournalError
from tests.workplace import Workplace

pytestmark = [pytest.mark.bench, pytest.mark.ray]

NUM_TRIALS = 3_000
TARGET_MS, TARGET_MB_PER_1000 = 40, 50
FIRST_LOOK = 500  # by then all that is loaded on first use is there

ABLATION = '''"""Many small models."""
from suite import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="How many parameters?",
    baseline=Model(mixer="fnet", position="none"),
    axes=[vary("dim", range(1, 101)), vary("depth", range(1, 31))],
    combine="cross",
    tasks=["fashion_mnist_patches"],
    probes=["parameters"],
    scales={"quick": Scale(dim=1, depth=1, length=49, steps=1, batch=1, seeds=1)},
)
'''


@dataclass(frozen=True)
class Look:
    """The driver at one moment."""

    seconds: float
    num_results: int
    resident_bytes: int


def test_three_thousand_trials(benchmark: Any, tmp_path: Path) -> None:
    work = Workplace(tmp_path)
    (tmp_path / "many.py").write_text(ABLATION)
    looks = benchmark.pedantic(lambda: list(_watched(work)), rounds=1, iterations=1)
    assert looks[-1].num_results == NUM_TRIALS
    begun = next(look for look in looks if look.num_results)
    done = next(look for look in looks if look.num_results == NUM_TRIALS)
    in_journal = (done.seconds - begun.seconds) / NUM_TRIALS
    recorded = (looks[-1].seconds - begun.seconds) / NUM_TRIALS
    grown = _megabytes_per_thousand(looks)
    benchmark.extra_info |= {
        "ms_to_journal": 1e3 * in_journal, "ms_to_end": 1e3 * recorded, "mb_per_1000": grown,
    }  # fmt: skip
    print(
        f"\n{NUM_TRIALS} trials: {1e3 * in_journal:.1f} ms each until all stand in the journal, "
        f"{1e3 * recorded:.1f} ms until the command has ended, with MLflow and the report (at most "
        f"{TARGET_MS} on an idle machine); the driver grows by {grown:.1f} MB per 1,000 trials "
        f"(less than {TARGET_MB_PER_1000}); load {os.getloadavg()[0]:.1f}"
    )


def _watched(work: Workplace) -> Iterator[Look]:
    log = work.path / "log"
    with log.open("w") as said:
        process = work.start("run", "many.py", said=said)
        driver = psutil.Process(process.pid)
        while process.poll() is None:
            yield Look(time.monotonic(), _num_results(work), _resident(driver))
            time.sleep(0.2)
    assert process.returncode == 0, log.read_text()[-2_000:]
    yield Look(time.monotonic(), _num_results(work), 0)


def _num_results(work: Workplace) -> int:
    try:
        with Journal(work.out / "journal.db", read_only=True) as journal:
            return len(journal.done())
    except JournalError:  # not made yet
        return 0


def _resident(driver: psutil.Process) -> int:
    try:
        return int(driver.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _megabytes_per_thousand(looks: list[Look]) -> float:
    """Between the first 500 trials and the last."""
    first = next(look for look in looks if look.num_results >= FIRST_LOOK)
    last = next(look for look in looks if look.num_results == NUM_TRIALS)
    num_thousands = (last.num_results - first.num_results) / 1_000
    return (last.resident_bytes - first.resident_bytes) / 1e6 / num_thousands
