"""Tests for scheduling on nodes of different sizes: placement, timings, and a lost node."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bakeoff.suite.cluster.address import authenticate
from bakeoff.suite.events import (
    Checkpoints,
    Event,
    ExecutorSettings,
    Finished,
    Remarked,
    Started,
    Unavailable,
    Waiting,
)
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Parallel, Resources, Status, Trial
from tests.workplace import Workplace, code_in

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

A100 = Resources(num_gpus=1.0, gpu_model="A100")
FOUR = Parallel(workers=4, zero=0, precision="float32", accumulation=1)


@dataclass(frozen=True)
class Span:
    """The time between the start and the end of a trial, as received."""

    node: str
    process: str
    start: float
    end: float
    status: Status


@pytest.fixture(scope="module")
def mixers(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    work = Workplace(tmp_path_factory.mktemp("mixers"))
    work.mixers("scheduled_mixers", pause=0.02)
    return work


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a cluster: a head without CPUs; 1 CPU; 2 CPUs and a T4; 4 CPUs and 2 A100."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        authenticate(None)
        import ray
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        made.nodes = {
            "one": made.add_node(num_cpus=1),
            "two": made.add_node(
                num_cpus=2, num_gpus=1, resources={"timing": 1, "accelerator_type:T4": 1}
            ),
            "four": made.add_node(
                num_cpus=4, num_gpus=2, resources={"timing": 1, "accelerator_type:A100": 1}
            ),
        }
        ray.init(address=made.address, log_to_driver=False, logging_level="error")
        made.wait_for_nodes()
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="module")
def executor(cluster: Any, mixers: Workplace) -> Any:
    """Return one executor for all tests; it queries each node's environment once."""
    from bakeoff.suite.cluster.execute import RayExecutor

    settings = ExecutorSettings(
        code=code_in(mixers.path), checkpoints=Checkpoints(folder=mixers.path / "kept")
    )
    return RayExecutor(settings, is_own=False)


def name_of(cluster: Any, node: str) -> str:
    return next(name for name, made in cluster.nodes.items() if made.node_id.startswith(node))


def trials(
    mixers: Workplace, number: int, *, steps: int = 6, probe: str = "quality"
) -> list[Trial]:
    """Return trials that sleep as they train, so that they last on any number of cores."""
    file = mixers.ablation(
        mixer="scheduled_mixers:Slow", values=[1e-3], seeds=number, steps=steps, probes=[probe]
    )
    return list(plan(file).trials)[:number]


def spans(cluster: Any, events: Iterator[Event]) -> list[Span]:
    """Return the span of each trial, by the clock at the time of its events."""
    begun: dict[str, tuple[str, str, float]] = {}
    found = []
    for event in events:
        if isinstance(event, Started):
            words = event.place.replace(",", "").split()
            begun[event.trial_id] = (name_of(cluster, words[1]), words[-1], time.monotonic())
        elif isinstance(event, Finished):
            node, process, start = begun[event.trial_id]
            found.append(Span(node, process, start, time.monotonic(), event.result.status))
    return found


def most_at_once(found: list[Span]) -> dict[str, int]:
    """Return the largest number of trials that overlap, by node."""
    most: dict[str, int] = defaultdict(int)
    for span in found:
        together = [s for s in found if s.node == span.node and s.start <= span.start < s.end]
        most[span.node] = max(most[span.node], len(together))
    return dict(most)


def test_trials_pack_by_what_they_ask_for(cluster: Any, executor: Any, mixers: Workplace) -> None:
    work = [(trial, Resources(num_cpus=2)) for trial in trials(mixers, 9, steps=15)]
    found = spans(cluster, executor.execute(work))
    assert [span.status for span in found] == [Status.OK] * 9
    assert most_at_once(found) == {"two": 1, "four": 2}  # the node with one CPU runs none


@pytest.mark.slow
def test_memory_keeps_trials_apart(cluster: Any, executor: Any, mixers: Workplace) -> None:
    import ray

    total = min(n["Resources"]["memory"] for n in ray.nodes() if n["Resources"].get("CPU"))
    asked = Resources(memory_bytes=int(0.6 * total))
    found = spans(cluster, executor.execute([(t, asked) for t in trials(mixers, 4)]))
    assert set(most_at_once(found).values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "node"),
    [(A100, "four"), (Resources(num_gpus=0.5, gpu_model="T4"), "two")],
    ids=["cards", "shares of a card"],
)
def test_a_gpu_model_is_a_place(
    asked: Resources, node: str, cluster: Any, executor: Any, mixers: Workplace
) -> None:
    """Check placement alone: the GPUs are only declared, so the trials fail on their node."""
    work = [(trial, asked) for trial in trials(mixers, 2)]
    events = list(executor.execute(work))
    begun = [event for event in events if isinstance(event, Started)]
    places = [event.place.replace(",", "").split() for event in begun]
    assert {name_of(cluster, words[1]) for words in places} == {node}
    assert len({words[-1] for words in places}) == 2  # each has its own process
    ends = [event.result for event in events if isinstance(event, Finished)]
    assert {result.status for result in ends} == {Status.ERROR}
    assert all("CUDA" in result.reason for result in ends)


@pytest.mark.parametrize(
    ("resources", "parallel", "sentence"),
    [
        (
            Resources(num_cpus=5),
            None,
            "5 CPU, and no node has that; the cluster has 1 node with 4 CPU, 2",
        ),
        (Resources(num_gpus=2.0, gpu_model="T4"), None, r"2 GPU \(T4\), and no node has that"),
        (Resources(num_cpus=2), FOUR, "4 workers with 2 CPU each, and the cluster has room for 3"),
    ],
)
def test_what_no_node_can_ever_run_is_refused(
    executor: Any, mixers: Workplace, resources: Resources, parallel: Parallel, sentence: str
) -> None:
    trial = replace(*trials(mixers, 1), parallel=parallel)
    with pytest.raises(Unavailable, match=sentence):
        next(executor.execute([(trial, resources)]))


def timings(mixers: Workplace, number: int) -> list[tuple[Trial, Resources]]:
    return [(trial, Resources()) for trial in trials(mixers, number, probe="step_time")]


def test_timings_have_a_node_alone(cluster: Any, executor: Any, mixers: Workplace) -> None:
    work = timings(mixers, 3)
    environment = executor.environment_for_timing(Resources(), "")
    found = spans(cluster, executor.execute_alone(work, environment))
    assert [span.status for span in found] == [Status.OK] * 3
    assert most_at_once(found) == {"two": 1, "four": 1}  # the first node does not declare timing
    assert len({span.process for span in found}) == 3


@contextmanager
def occupied(cluster: Any, name: str, seconds: float) -> Iterator[list[float]]:
    """Occupy a node by a task of another driver; the yielded list gets its end time."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(cluster.nodes[name].node_id, soft=False)
    sleep = ray.remote(num_cpus=1)(lambda: time.sleep(seconds))
    task = sleep.options(scheduling_strategy=there).remote()
    ended: list[float] = []

    def note_end() -> None:
        ray.get(task)
        ended.append(time.monotonic())

    thread = threading.Thread(target=note_end)
    thread.start()
    time.sleep(1.5)  # until the task runs
    yield ended
    thread.join()


@pytest.mark.slow
def test_a_timing_waits_until_its_node_is_quiet(
    cluster: Any, executor: Any, mixers: Workplace
) -> None:
    environment = executor.environment_for_timing(Resources(), "")
    with occupied(cluster, "two", 8.0) as two, occupied(cluster, "four", 8.0) as four:
        said = list(executor.execute_alone(timings(mixers, 1), environment))
        heard = time.monotonic()
    assert heard > min(two[0], four[0])
    reasons = {event.reason for event in said if isinstance(event, Waiting)}
    assert any("which it needs exclusively, is still busy" in reason for reason in reasons)


@pytest.mark.slow
def test_who_waits_is_told_why(
    executor: Any, mixers: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bakeoff.suite.cluster.execute._SECONDS_BETWEEN_REPORTS", 0.2)
    work = [(trial, Resources(num_cpus=4)) for trial in trials(mixers, 3)]
    told = [event for event in executor.execute(work) if isinstance(event, Waiting)]
    assert any("asks for 4 CPU; 0 of 4 CPU" in event.reason for event in told), told
    assert max(event.num_trials for event in told) >= 2


@pytest.mark.slow
def test_a_node_that_ends_every_worker_is_left_out(
    cluster: Any, executor: Any, mixers: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the node gets no trials after three deaths, except those already handed out."""
    # One attempt per slot; the cluster has 7 slots.
    monkeypatch.setattr("bakeoff.suite.cluster.trial_queue._ATTEMPTS_PER_SLOT", 1)
    good = [cluster.nodes[name].node_id for name in ("one", "two")]
    (mixers.path / "good_nodes").write_text("\n".join(good))
    file = mixers.ablation(
        mixer="scheduled_mixers:KilledThere", values=[1e-3], seeds=16, probes=["quality"]
    )
    work = [(trial, Resources()) for trial in plan(file).trials]
    # This executor remembers the bad node, so the other tests do not use it.
    its_own = type(executor)(executor.settings, is_own=False)
    events = list(its_own.execute(work))
    ends = [event.result for event in events if isinstance(event, Finished)]
    assert {result.status for result in ends} == {Status.OK}, [r.reason for r in ends]
    assert len(ends) == len(work)
    tried = [name_of(cluster, e.place.split()[1]) for e in events if isinstance(e, Started)]
    num_deaths = sum(isinstance(event, Remarked) for event in events)
    assert tried.count("four") == num_deaths
    freed = [isinstance(event, Finished | Remarked) for event in events]
    third = [i for i, event in enumerate(events) if isinstance(event, Remarked)][2]
    handed_out = 7 + sum(freed[: third + 1])
    assert 3 <= num_deaths <= handed_out
    later = {trial.trial_id for trial, _ in work[handed_out:]}
    began = {e.trial_id: e.place.split()[1] for e in events if isinstance(e, Started)}
    assert "four" not in {name_of(cluster, began[trial_id]) for trial_id in later}
    again = [event for event in its_own.execute(work[:6]) if isinstance(event, Started)]
    assert len(again) == 6
    assert "four" not in {name_of(cluster, event.place.split()[1]) for event in again}


@pytest.mark.slow
def test_trials_of_a_lost_node_run_elsewhere(
    cluster: Any, executor: Any, mixers: Workplace
) -> None:
    """Remove a node from the cluster; this test must be the last of the file."""
    work = [(trial, Resources()) for trial in trials(mixers, 12, steps=60)]
    begun: list[str] = []
    ends = []
    killer = threading.Timer(1.0, cluster.remove_node, [cluster.nodes["four"], False])
    for event in executor.execute(work):
        if isinstance(event, Started):
            begun.append(event.trial_id)
            if name_of(cluster, event.place.split()[1]) == "four" and not killer.is_alive():
                with suppress(RuntimeError):  # a timer starts only once
                    killer.start()
        elif isinstance(event, Finished):
            ends.append(event.result)
    assert {result.status for result in ends} == {Status.OK}, [r.reason for r in ends]
    assert len(ends) == len({result.trial_id for result in ends}) == 12
    assert len(begun) > 12  # some started twice
