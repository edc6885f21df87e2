"""How long do places stand idle between trials? Under 5 % is asked for, at a second a trial.

Counted from the moment when every place has had its first trial (until then processes start)
until the line is empty (after that there is nothing to place).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from suite.cluster.authentication import authenticate
from suite.events import Checkpoints, Event, ExecutorSettings, Finished, Started
from suite.planning.plan import plan
from suite.schema import Resources, Trial
from tests.workplace import Workplace

pytestmark = [pytest.mark.bench, pytest.mark.ray]

NODES = (1, 2, 3)  # CPUs of each
NUM_TRIALS = 60
SECONDS = 1.0


@dataclass
class Places:
    """Who is busy, from when to when, by what the driver hears."""

    num_places: int
    num_trials: int
    begun: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        if isinstance(event, Started):
            self.begun[event.trial_id] = time.perf_counter()
        elif isinstance(event, Finished):
            assert event.result.seconds >= SECONDS, "a shorter trial would prove nothing"
            self.ended[event.trial_id] = time.perf_counter()

    def idle_share(self) -> float:
        """Of the time that all places have together, while there is something to place."""
        starts = sorted(self.begun.values())
        first, last = starts[self.num_places - 1], starts[-1]
        busy = sum(
            max(0.0, min(self.ended[trial_id], last) - max(start, first))
            for trial_id, start in self.begun.items()
        )
        return 1 - busy / (self.num_places * (last - first))


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    """Mixers that sleep: what is measured is placing, however few cores there are."""
    place = Workplace(tmp_path)
    place.mixers("idle_mixers", pause=0.007)
    return place


def trials(work: Workplace) -> Sequence[Trial]:
    file = work.ablation(
        mixer="idle_mixers:Slow", values=[1e-3], seeds=NUM_TRIALS, steps=30, probes=["quality"]
    )
    return plan(file).trials[:NUM_TRIALS]


@contextmanager
def cluster(work: Workplace) -> Iterator[Any]:
    """A head that runs nothing, and three nodes of different sizes."""
    authenticate(None)
    import ray
    from ray.cluster_utils import Cluster

    from suite.cluster.execute import RayExecutor

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for num_cpus in NODES:
        made.add_node(num_cpus=num_cpus)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    made.wait_for_nodes()
    luggage = ExecutorSettings(
        source_paths=(str(work.path),), checkpoints=Checkpoints(folder=work.path / "checkpoints")
    )
    yield RayExecutor(luggage, is_own=False)
    ray.shutdown()
    made.shutdown()


def test_places_are_never_long_without_a_trial(benchmark: Any, work: Workplace) -> None:
    places = Places(num_places=sum(NODES), num_trials=NUM_TRIALS)
    events: list[Event] = []

    def sweep() -> None:
        with cluster(work) as executor:
            for event in executor.execute([(trial, Resources()) for trial in trials(work)]):
                places.hear(event)
                events.append(event)

    benchmark.pedantic(sweep, rounds=1, iterations=1)
    ends = [event.result for event in events if isinstance(event, Finished)]
    mean = sum(result.seconds for result in ends) / len(ends)
    benchmark.extra_info["idle_share"] = places.idle_share()
    print(
        f"\n{len(ends)} trials of {mean:.2f} s on {places.num_places} places of {len(NODES)} "
        f"nodes: {100 * places.idle_share():.1f} % idle between trials (under 5 % is asked for)"
    )
    assert len(ends) == NUM_TRIALS
