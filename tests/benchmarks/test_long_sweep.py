"""Check the cost of each of 5,000 trivial trials, its growth, and the work of the driver.

Each trial counts the parameters of a small model. The sweep runs inline or through Ray, with the
journal (and its fsync) and MLflow, as a command that is observed from outside; `verify` and
`report` follow. The bounds are on the processor time of the driver, since wall-clock times of a
shared machine vary. The same count as trials of Ray Tune, without any store, runs beside it.
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

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import JournalError
from tests.workplace import Workplace

pytestmark = [
    pytest.mark.bench,
    pytest.mark.ray,
    pytest.mark.filterwarnings("default"),  # Tune raises warnings about its own parts
]

NUM_TRIALS = 5_000
NUM_TUNE_TRIALS = 20  # more would take minutes; the cost of one does not fall with their number
MOST_MS_OF_A_TRIAL, MOST_SECONDS_OF_A_LOOK, MOST_BYTES = 40, 30, 2**30
MOST_GROWTH = 1.6  # second half over first half, per trial; above 2 if costs accumulate
FIRST_LOOK = 500  # by then everything that loads on first use is loaded

ABLATION = '''"""Many small models."""
from bakeoff import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="How many parameters?",
    baseline=Model(mixer="local_attention", heads=1, position="none"),
    axes=[vary("dim", range(4, 54)), vary("window", range(1, 101))],
    combine="cross",
    tasks=["fashion_mnist_patches"],
    probes=["parameters"],
    scales={"quick": Scale(dim=4, depth=1, length=49, steps=1, batch=1, seeds=1)},
)
'''


@dataclass(frozen=True)
class Look:
    """The state of a command: its results, and its own resources without those of its children."""

    seconds: float
    cpu_seconds: float
    resident_bytes: int
    num_results: int = 0


@pytest.mark.parametrize("executor", ["inline", "ray"])
def test_five_thousand_trials(benchmark: Any, tmp_path: Path, executor: str) -> None:
    work = Workplace(tmp_path)
    (tmp_path / "many.py").write_text(ABLATION)
    command = ("run", "many.py", "--executor", executor)
    looks = benchmark.pedantic(lambda: list(_watched(work, *command)), rounds=1, iterations=1)
    assert looks[-1].num_results == NUM_TRIALS
    begun, first, half, done = (
        next(look for look in looks if look.num_results >= number)
        for number in (1, FIRST_LOOK, (FIRST_LOOK + NUM_TRIALS) // 2, NUM_TRIALS)
    )
    to_journal, to_end = (
        1e3 * (last.seconds - begun.seconds) / NUM_TRIALS for last in (done, looks[-1])
    )
    cpu = 1e3 * (looks[-1].cpu_seconds - begun.cpu_seconds) / NUM_TRIALS
    growth = _cost(half, done) / _cost(first, half)
    most_bytes = max(look.resident_bytes for look in looks)
    print(
        f"\n{NUM_TRIALS} trials, {executor}: {cpu:.1f} ms each of the driver's processor (at most "
        f"{MOST_MS_OF_A_TRIAL}); {to_journal:.1f} ms each until all stand in the journal, "
        f"{to_end:.1f} ms until the command has ended; second half / first half {growth:.2f} (at "
        f"most {MOST_GROWTH}); {most_bytes / 2**20:.0f} MiB; load {os.getloadavg()[0]:.1f}"
    )
    for name in (("verify",), ("report", "many")):
        last = list(_watched(work, *name))
        seconds, most_there = last[-1].cpu_seconds, max(look.resident_bytes for look in last)
        print(f"{name[0]}: {seconds:.1f} s of its processor, {most_there / 2**20:.0f} MiB")
        assert seconds < MOST_SECONDS_OF_A_LOOK
        assert most_there < MOST_BYTES
    assert cpu < MOST_MS_OF_A_TRIAL
    assert growth < MOST_GROWTH
    assert most_bytes < MOST_BYTES


def _cost(start: Look, end: Look) -> float:
    """Return the processor seconds per trial between two looks."""
    return (end.cpu_seconds - start.cpu_seconds) / (end.num_results - start.num_results)


def _watched(work: Workplace, *command: str) -> Iterator[Look]:
    """Run the command and yield a look five times a second; the last holds the final results."""
    log = work.path / "log"
    with log.open("w") as said:
        process = work.start(*command, said=said)
        driver = psutil.Process(process.pid)
        look = Look(time.monotonic(), 0.0, 0)
        while process.poll() is None:
            look = _look(driver, work) or look
            yield look
            time.sleep(0.2)
    assert process.returncode == 0, log.read_text()[-2_000:]
    yield Look(time.monotonic(), look.cpu_seconds, look.resident_bytes, _num_results(work))


def _look(driver: psutil.Process, work: Workplace) -> Look | None:
    """Return a look at the process, or None if it has just ended."""
    try:
        times, memory = driver.cpu_times(), driver.memory_info()
    except psutil.NoSuchProcess:
        return None
    cpu = times.user + times.system
    return Look(time.monotonic(), cpu, int(memory.rss), _num_results(work)) if cpu else None


def _num_results(work: Workplace) -> int:
    try:
        with Journal(work.out / "journal.db", read_only=True) as journal:
            return len(journal.done())
    except JournalError:  # not created yet
        return 0


def test_the_same_as_trials_of_ray_tune(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    import ray
    from ray import tune

    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    tuner = tune.Tuner(
        _count,
        param_space={"dim": tune.grid_search(list(range(1, NUM_TUNE_TRIALS + 1)))},
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    )
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
    """Do the same work as the probe."""
    from bakeoff.models import ModelSpec, build_model

    spec = ModelSpec(
        architecture="classifier",
        mixer="fnet",
        knobs={},
        position="none",
        dim=config["dim"],
        depth=1,
        length=49,
        input_kind="vectors",
        input_size=16,
        output_size=10,
    )
    return {"num_parameters": float(sum(p.numel() for p in build_model(spec).parameters()))}
