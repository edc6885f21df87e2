"""Measure how long places are idle between trials of a second; the bound is 5 %.

The time counts from the moment when every place has had its first trial (until then processes
start) until the queue is empty (after that there is nothing to place).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bakeoff.suite.cluster.address import authenticate
from bakeoff.suite.events import Checkpoints, Event, ExecutorSettings, Finished, Started
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Resources, Trial
from tests.workplace import Workplace, code_in

pytestmark = [pytest.mark.bench, pytest.mark.ray]

NODES = (1, 2, 3)  # the CPUs of each node
NUM_TRIALS = 60
SECONDS = 1.0


def idle_share(heard: Sequence[tuple[float, Event]], num_places: int) -> float:
    """Return the idle share of the total time of all places, while trials are waiting."""
    begun = {event.trial_id: when for when, event in heard if isinstance(event, Started)}
    ended = {event.result.trial_id: when for when, event in heard if isinstance(event, Finished)}
    starts = sorted(begun.values())
    first, last = starts[num_places - 1], starts[-1]
    busy = sum(
        max(0.0, min(ended[trial_id], last) - max(start, first))
        for trial_id, start in begun.items()
    )
    return 1 - busy / (num_places * (last - first))


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    """Return a workplace with mixers that sleep, so that few cores still measure the placement."""
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
    """Yield a cluster with a head that runs nothing and three nodes of different sizes."""
    authenticate(None)
    import ray
    from ray.cluster_utils import Cluster

    from bakeoff.suite.cluster.execute import RayExecutor

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for num_cpus in NODES:
        made.add_node(num_cpus=num_cpus)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    made.wait_for_nodes()
    settings = ExecutorSettings(
        code=code_in(work.path), checkpoints=Checkpoints(folder=work.path / "checkpoints")
    )
    yield RayExecutor(settings, is_own=False)
    ray.shutdown()
    made.shutdown()


def test_places_are_never_long_without_a_trial(benchmark: Any, work: Workplace) -> None:
    heard: list[tuple[float, Event]] = []

    def sweep() -> None:
        with cluster(work) as executor:
            for event in executor.execute([(trial, Resources()) for trial in trials(work)]):
                heard.append((time.perf_counter(), event))

    benchmark.pedantic(sweep, rounds=1, iterations=1)
    seconds = [event.result.seconds for _, event in heard if isinstance(event, Finished)]
    assert len(seconds) == NUM_TRIALS
    assert min(seconds) >= SECONDS, "a shorter trial would prove nothing"
    share = benchmark.extra_info["idle_share"] = idle_share(heard, sum(NODES))
    print(
        f"\n{NUM_TRIALS} trials of {sum(seconds) / NUM_TRIALS:.2f} s on {sum(NODES)} places of "
        f"{len(NODES)} nodes: {100 * share:.1f} % idle between trials (under 5 % is asked for)"
    )
