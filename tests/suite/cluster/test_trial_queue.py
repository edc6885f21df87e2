"""Tests for the trial queue: order, full use of the nodes, no backlog, and timings alone."""

from __future__ import annotations

from dataclasses import replace

from bakeoff.suite.cluster.capacity import NodeShape
from bakeoff.suite.cluster.trial_queue import (
    MOST_IN_FLIGHT,
    ExclusiveQueue,
    PackedQueue,
    TrialAttempt,
)
from bakeoff.suite.schema import Parallel, Resources, Trial
from tests.suite.heads_sweep import HeadsSweep

TWO, FOUR = NodeShape("two", {"CPU": 2.0}), NodeShape("four", {"CPU": 4.0})


def trials(number: int, workers: int = 0) -> list[Trial]:
    parallel = Parallel(workers=workers, zero=0, precision="float32", accumulation=1)
    return [
        replace(HeadsSweep().trial(seed=seed), parallel=parallel if workers else None)
        for seed in range(number)
    ]


def work(number: int, resources: Resources = Resources(), workers: int = 0) -> list:
    return [(trial, resources) for trial in trials(number, workers)]


def test_twice_as_many_as_the_nodes_hold_and_in_order() -> None:
    queue = PackedQueue(work(100), lambda: [TWO, FOUR])
    taken = queue.take([])
    assert [attempt.trial.seed for attempt in taken] == list(range(12))
    assert queue.take(taken) == []
    assert [attempt.trial.seed for attempt in queue.take(taken[1:])] == [12]
    assert len(queue) == 87


def test_the_window_grows_with_the_cluster() -> None:
    nodes = [TWO]
    queue = PackedQueue(work(100), lambda: nodes)
    taken = queue.take([])
    assert len(taken) == 4
    nodes.append(FOUR)
    assert len(queue.take(taken)) == 8


def test_a_cluster_without_nodes_is_asked_for_one() -> None:
    assert len(PackedQueue(work(5), lambda: []).take([])) == 1


def test_there_is_a_bound() -> None:
    huge = NodeShape("huge", {"CPU": 1e6})
    assert len(PackedQueue(work(1100), lambda: [huge]).take([])) == MOST_IN_FLIGHT


def test_what_asks_for_much_does_not_hold_up_what_asks_for_little() -> None:
    large, small = work(9, Resources(num_cpus=4)), work(9)
    queue = PackedQueue([*large, *small], lambda: [TWO, FOUR])
    taken = queue.take([])
    counts = [sum(attempt.resources.num_cpus == number for attempt in taken) for number in (4, 1)]
    assert counts == [2, 9]


def test_trials_of_several_workers_keep_none_in_reserve() -> None:
    queue = PackedQueue(work(9, workers=2), lambda: [TWO, FOUR])
    assert len(queue.take([])) == 3


def test_what_is_put_back_comes_first() -> None:
    queue = PackedQueue(work(3), lambda: [NodeShape("one", {"CPU": 0.0})])
    (first,) = queue.take([])
    again = replace(first, number=2)
    queue.put_back(again)
    assert queue.take([]) == [again]


def test_one_timing_a_node() -> None:
    queue = ExclusiveQueue(work(5), lambda: [TWO, FOUR])
    taken = queue.take([])
    assert [attempt.node for attempt in taken] == [TWO, FOUR]
    assert queue.take(taken) == []
    assert [attempt.node for attempt in queue.take(taken[1:])] == [TWO]


def test_a_timing_of_several_workers_has_the_cluster_to_itself() -> None:
    queue = ExclusiveQueue([*work(2, workers=2), *work(1)], lambda: [TWO, FOUR])
    (first,) = queue.take([])
    assert first.trial.parallel
    assert first.node is None
    assert queue.take([first]) == []
    (second,) = queue.take([])
    assert queue.take([second]) == []
    (third,) = queue.take([])
    assert third.trial.parallel is None
    assert third.node == TWO


def test_several_workers_wait_for_the_timings_before_them() -> None:
    queue = ExclusiveQueue([*work(1), *work(1, workers=2)], lambda: [TWO, FOUR])
    (first,) = queue.take([])
    assert queue.take([first]) == []
    (second,) = queue.take([])
    assert second.trial.parallel


def test_a_timing_that_lost_its_node_may_have_another() -> None:
    nodes = [TWO]
    queue = ExclusiveQueue(work(1), lambda: nodes)
    (attempt,) = queue.take([])
    queue.put_back(replace(attempt, node=None, number=2))
    nodes[:] = []
    assert queue.take([]) == []
    assert len(queue) == 1
    nodes[:] = [FOUR]
    assert [(each.node, each.number) for each in queue.take([])] == [(FOUR, 2)]


def test_a_timing_avoids_nodes_if_it_can() -> None:
    queue = ExclusiveQueue(work(2), lambda: [TWO, FOUR])
    first, second = queue.take([])
    queue.put_back(replace(second, node=None, avoided=("tw",)))
    queue.put_back(replace(first, node=None, avoided=("tw",)))
    # a node to avoid is better than none
    assert [attempt.node for attempt in queue.take([])] == [FOUR, TWO]


def test_a_timing_that_asks_for_more_memory_waits_for_a_node_that_has_it() -> None:
    small = NodeShape("small", {"CPU": 2.0, "memory": 10.0})
    large = NodeShape("large", {"CPU": 2.0, "memory": 40.0})
    queue = ExclusiveQueue(work(2), lambda: [small, large])
    first, second = queue.take([])
    assert (first.node, second.node) == (small, large)
    more = replace(first.resources, memory_bytes=30)
    queue.put_back(replace(first, node=None, resources=more, has_more_memory=True))
    assert queue.take([second]) == []
    assert [attempt.node for attempt in queue.take([])] == [large]


def test_a_drained_queue_is_empty() -> None:
    for queue in (PackedQueue(work(3), lambda: []), ExclusiveQueue(work(3), lambda: [])):
        assert [attempt.trial.seed for attempt in queue.drain()] == [0, 1, 2]
        assert len(queue) == 0
        assert isinstance(queue.drain(), list)


def test_an_attempt_asks_for_one_worker() -> None:
    attempt = TrialAttempt(trials(1, workers=4)[0], Resources(num_cpus=2, num_gpus=0.5))
    assert attempt.asked == {"CPU": 2.0, "GPU": 0.5}
