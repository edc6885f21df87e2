"""Who runs next: the largest first, no place idle, no backlog; and timings alone."""

from __future__ import annotations

from dataclasses import replace

from suite.cluster.capacity import NodeShape
from suite.cluster.line import MOST_IN_FLIGHT, AloneLine, PackedLine, Turn
from suite.schema import Parallel, Resources, Trial
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
    line = PackedLine(work(100), lambda: [TWO, FOUR])
    taken = line.take([])
    assert [turn.trial.seed for turn in taken] == list(range(12))
    assert line.take(taken) == []
    assert [turn.trial.seed for turn in line.take(taken[1:])] == [12]
    assert len(line) == 87


def test_the_window_grows_with_the_cluster() -> None:
    nodes = [TWO]
    line = PackedLine(work(100), lambda: nodes)
    taken = line.take([])
    assert len(taken) == 4
    nodes.append(FOUR)
    assert len(line.take(taken)) == 8


def test_a_cluster_without_nodes_is_asked_for_one() -> None:
    assert len(PackedLine(work(5), lambda: []).take([])) == 1


def test_there_is_a_bound() -> None:
    huge = NodeShape("huge", {"CPU": 1e6})
    assert len(PackedLine(work(1100), lambda: [huge]).take([])) == MOST_IN_FLIGHT


def test_what_asks_for_much_does_not_hold_up_what_asks_for_little() -> None:
    large, small = work(9, Resources(num_cpus=4)), work(9)
    line = PackedLine([*large, *small], lambda: [TWO, FOUR])
    taken = line.take([])
    counts = [sum(turn.resources.num_cpus == number for turn in taken) for number in (4, 1)]
    assert counts == [2, 9]


def test_trials_of_several_workers_keep_none_in_reserve() -> None:
    line = PackedLine(work(9, workers=2), lambda: [TWO, FOUR])
    assert len(line.take([])) == 3


def test_what_is_put_back_comes_first() -> None:
    line = PackedLine(work(3), lambda: [NodeShape("one", {"CPU": 0.0})])
    (first,) = line.take([])
    again = replace(first, attempt=2)
    line.put_back(again)
    assert line.take([]) == [again]


def test_one_timing_a_node() -> None:
    line = AloneLine(work(5), lambda: [TWO, FOUR])
    taken = line.take([])
    assert [turn.node for turn in taken] == [TWO, FOUR]
    assert line.take(taken) == []
    assert [turn.node for turn in line.take(taken[1:])] == [TWO]


def test_a_timing_of_several_workers_has_the_cluster_to_itself() -> None:
    line = AloneLine([*work(2, workers=2), *work(1)], lambda: [TWO, FOUR])
    (first,) = line.take([])
    assert first.trial.parallel
    assert first.node is None
    assert line.take([first]) == []
    (second,) = line.take([])
    assert line.take([second]) == []
    (third,) = line.take([])
    assert third.trial.parallel is None
    assert third.node == TWO


def test_several_workers_wait_for_the_timings_before_them() -> None:
    line = AloneLine([*work(1), *work(1, workers=2)], lambda: [TWO, FOUR])
    (first,) = line.take([])
    assert line.take([first]) == []
    (second,) = line.take([])
    assert second.trial.parallel


def test_a_timing_that_lost_its_node_may_have_another() -> None:
    nodes = [TWO]
    line = AloneLine(work(1), lambda: nodes)
    (turn,) = line.take([])
    line.put_back(replace(turn, node=None, attempt=2))
    nodes[:] = []
    assert line.take([]) == []
    assert len(line) == 1
    nodes[:] = [FOUR]
    assert [(t.node, t.attempt) for t in line.take([])] == [(FOUR, 2)]


def test_a_timing_goes_where_it_shuns_nothing_if_it_can() -> None:
    line = AloneLine(work(2), lambda: [TWO, FOUR])
    first, second = line.take([])
    line.put_back(replace(second, node=None, shuns=("tw",)))
    line.put_back(replace(first, node=None, shuns=("tw",)))
    assert [turn.node for turn in line.take([])] == [
        FOUR,
        TWO,
    ]  # the other node is better than none


def test_a_timing_that_asks_for_more_memory_waits_for_a_node_that_has_it() -> None:
    small = NodeShape("small", {"CPU": 2.0, "memory": 10.0})
    large = NodeShape("large", {"CPU": 2.0, "memory": 40.0})
    line = AloneLine(work(2), lambda: [small, large])
    first, second = line.take([])
    assert (first.node, second.node) == (small, large)
    more = replace(first.resources, memory_bytes=30)
    line.put_back(replace(first, node=None, resources=more, has_more_memory=True))
    assert line.take([second]) == []
    assert [turn.node for turn in line.take([])] == [large]


def test_a_drained_line_is_empty() -> None:
    for line in (PackedLine(work(3), lambda: []), AloneLine(work(3), lambda: [])):
        assert [turn.trial.seed for turn in line.drain()] == [0, 1, 2]
        assert len(line) == 0
        assert isinstance(line.drain(), list)


def test_a_turn_asks_for_one_worker() -> None:
    turn = Turn(trials(1, workers=4)[0], Resources(num_cpus=2, num_gpus=0.5))
    assert turn.asked == {"CPU": 2.0, "GPU": 0.5}
