"""What does a trial cost beside its own work? A hundred that do next to nothing, all the way.

Each counts the parameters of a tiny model: through Ray, the journal (with its fsync) and MLflow.
Beside it the same count as trials of Ray Tune, without any store. Starting up is told apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from suite.events import Event, Finished
from suite.planning.plan import plan
from suite.sweep.driver import Options, run
from suite.sweep.event_log import EventLog
from suite.sweep.mlflow_sync import MlflowSync
from suite.tracking.run_writer import RunWriter
from tests.workplace import Workplace

pytestmark = [
    pytest.mark.bench,
    pytest.mark.ray,
    pytest.mark.filterwarnings("default"),  # Tune warns of its own parts
]

NUM_TRIALS = 100
NUM_TUNE_TRIALS = (
    20  # a hundred would take minutes; the cost of one does not fall with their number
)
TARGET_MS = 40


@dataclass
class Laps:
    """When, on the clock of `time.perf_counter`, things happened."""

    start: float = 0.0
    results: list[float] = field(default_factory=list)
    in_journal: float = 0.0
    recorded: float = 0.0
    end: float = 0.0


@contextmanager
def _watched(patch: pytest.MonkeyPatch) -> Iterator[Laps]:
    laps = Laps()
    take: Callable[[EventLog, Event], None] = EventLog.write
    close: Callable[[MlflowSync], Any] = MlflowSync.close

    def noted_take(self: EventLog, event: Event) -> None:
        begun = time.perf_counter()
        take(self, event)
        laps.in_journal += time.perf_counter() - begun
        if isinstance(event, Finished):
            laps.results.append(time.perf_counter())

    def noted_close(self: MlflowSync) -> Any:
        closed = close(self)
        laps.recorded = time.perf_counter()
        return closed

    patch.setattr(EventLog, "write", noted_take)
    patch.setattr(MlflowSync, "close", noted_close)
    laps.start = time.perf_counter()
    yield laps
    laps.end = time.perf_counter()


def test_a_hundred_trials_of_ours(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Workplace(tmp_path)
    file = work.ablation(
        axis="dim", values=range(1, NUM_TRIALS + 1), probes=["parameters"], seeds=1
    )
    store_seconds = _first_use_of_the_store(work, file)
    with _watched(monkeypatch) as laps:
        outcome = benchmark.pedantic(
            lambda: run(file, options=Options(out=work.out)), rounds=1, iterations=1
        )
    assert (outcome.num_run, outcome.num_missing, outcome.trouble) == (NUM_TRIALS, 0, "")
    first, last = laps.results[0], laps.results[-1]
    others = NUM_TRIALS - 1
    in_journal = (last - first) / others
    recorded = (laps.recorded - first) / others
    benchmark.extra_info |= {"ms_to_journal": 1e3 * in_journal, "ms_to_store": 1e3 * recorded}
    print(
        f"\n{NUM_TRIALS} trials of bakeoff: {1e3 * in_journal:.1f} ms each until all stand in the "
        f"journal (of which writing it {1e3 * laps.in_journal / NUM_TRIALS:.1f} ms), "
        f"{1e3 * recorded:.1f} ms until all stand in MLflow too (at most {TARGET_MS} on an idle "
        f"machine); apart: {store_seconds:.1f} s for the first use of the store, "
        f"{first - laps.start:.1f} s before the first trial (Ray, torch), "
        f"{laps.end - laps.recorded:.1f} s after the last (report); load {os.getloadavg()[0]:.1f}"
    )


def _first_use_of_the_store(work: Workplace, file: str) -> float:
    """Import of mlflow and the migration of a new database: start-up, told apart."""
    begun = time.perf_counter()
    store = Options(out=work.out).store
    work.out.mkdir(exist_ok=True)
    RunWriter(store).open_sweep(plan(file).about)
    return time.perf_counter() - begun


def test_the_same_as_trials_of_ray_tune(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    from suite.events import Checkpoints, ExecutorSettings
    from suite.sweep.executors import executing

    luggage = ExecutorSettings(checkpoints=Checkpoints(folder=tmp_path / "checkpoints"))
    with executing("ray", None, luggage):
        from ray import tune

        laps = Laps()
        tuner = tune.Tuner(
            _count, param_space={"dim": tune.grid_search(list(range(1, NUM_TUNE_TRIALS + 1)))},
            run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
        )  # fmt: skip
        laps.start = time.perf_counter()
        grid = benchmark.pedantic(tuner.fit, rounds=1, iterations=1)
        laps.end = time.perf_counter()
    assert len(grid) == NUM_TUNE_TRIALS
    assert not grid.errors
    ends = sorted(result.metrics["timestamp"] for result in grid)
    each = (laps.end - laps.start) / NUM_TUNE_TRIALS
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
        skeleton="classifier", mixer="fnet", knobs={}, position="none", dim=config["dim"],
        depth=1, length=49, input_kind="vectors", input_size=16, output_size=10,
    )  # fmt: skip
    return {"num_parameters": float(sum(p.numel() for p in build_model(spec).parameters()))}
