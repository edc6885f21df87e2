"""Measures what each of 3,000 small trials costs, and how much the driver grows.

Each counts the parameters of a small model: through Ray, the journal (with its fsync) and MLflow,
as a command of its own that is watched from outside. Beside it the same count as trials of Ray
Tune, without any store.
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

pytestmark = [
    pytest.mark.bench,
    pytest.mark.ray,
    pytest.mark.filterwarnings("default"),  # Tune warns of its own parts
]

NUM_TRIALS = 3_000
NUM_TUNE_TRIALS = 20  # more would take minutes; the cost of one does not fall with their number
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
        f"\n{begun.seconds - looks[0].seconds:.1f} s until the first result (Ray, torch, store); "
        f"{NUM_TRIALS} trials: {1e3 * in_journal:.1f} ms each until all stand in the journal, "
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


def test_the_same_as_trials_of_ray_tune(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    import ray
    from ray import tune

    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    tuner = tune.Tuner(
        _count, param_space={"dim": tune.grid_search(list(range(1, NUM_TUNE_TRIALS + 1)))},
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )  # fmt: skip
    start = time.perf_counter()
    grid = benchmark.pedantic(tuner.fit, rounds=1, iterations=1)
    each = (time.perf_counter() - start) / NUM_TUNE_TRIALS
    ray.shutdown()
    assert len(grid) == NUM_TUNE_TRIALS
    assert not grid.errors
    ends = sorted(result.metrics["timestamp"] for result in grid)
    between = (ends[-1] - ends[0]) / (NUM_TUNE_TRIALS - 1)
    benchmark.extra_info |= {"ms_each": 1e3 * each, "ms_between_ends": 1e3 * between}
    print(
        f"\n{NUM_TUNE_TRIALS} trials of Ray Tune: {1e3 * each:.0f} ms each of the whole, "
        f"{1e3 * between:.0f} ms from the end of one to the end of the next; a hundred would take "
        f"{100 * each:.0f} s; {os.cpu_count()} CPUs, no store"
    )


def _count(config: dict[str, int]) -> dict[str, float]:
    """The same work as the probe's."""
    from models import ModelSpec, build_model

    spec = ModelSpec(
        architecture="classifier", mixer="fnet", knobs={}, position="none", dim=config["dim"],
        depth=1, length=49, input_kind="vectors", input_size=16, output_size=10,
    )  # fmt: skip
    return {"num_parameters": float(sum(p.numel() for p in build_model(spec).parameters()))}
