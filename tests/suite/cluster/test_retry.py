"""Tests for retries: which attempts, on which nodes, with which resources; excluded nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ray.exceptions import (
    NodeDiedError,
    OutOfMemoryError,
    RayTaskError,
    RuntimeEnvSetupError,
    WorkerCrashedError,
)

from bakeoff.suite.cluster import retry
from bakeoff.suite.cluster.capacity import NodeShape
from bakeoff.suite.cluster.retry import MOST_ATTEMPTS, FailingNodes, FailureKind, next_attempt
from bakeoff.suite.cluster.trial_queue import TrialAttempt
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Parallel, Resources, Status
from tests.suite.heads_sweep import HeadsSweep

GIB = 2**30
NODES = [
    NodeShape("aaaa1111", {"CPU": 2.0, "memory": 8.0 * GIB}),
    NodeShape("bbbb2222", {"CPU": 2.0, "memory": 4.0 * GIB}),
]
WIDE = NodeShape("cccc3333", {"CPU": 8.0, "memory": 64.0 * GIB})


def retried(
    ended: TrialAttempt, kind: FailureKind, node: str, nodes: list[NodeShape] = NODES
) -> TrialAttempt:
    again = next_attempt(ended, kind, node, nodes)
    assert again is not None
    return again


def attempt(number: int = 1, **asked: int) -> TrialAttempt:
    return TrialAttempt(HeadsSweep().trial(), Resources(**asked), number=number)


@pytest.mark.parametrize(
    "kind", [FailureKind.LOST_NODE, FailureKind.DEAD_WORKER, FailureKind.BROKEN_WORKER]
)
def test_what_the_world_did_is_tried_three_times_in_all(kind: FailureKind) -> None:
    attempts = [attempt()]
    while (again := next_attempt(attempts[-1], kind, "aaaa1111", NODES)) is not None:
        attempts.append(again)
    assert [each.number for each in attempts] == [1, 2, 3]
    assert len(attempts) == MOST_ATTEMPTS


def test_where_a_process_died_the_trial_should_not_run_again() -> None:
    assert retried(attempt(), FailureKind.DEAD_WORKER, "aaaa1111").avoided == ("aaaa1111",)
    # A lost node is gone, and its name is not used again.
    assert retried(attempt(), FailureKind.LOST_NODE, "aaaa1111").avoided == ()


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 4 * GIB), (1 * GIB, 4 * GIB), (3 * GIB, 6 * GIB), (6 * GIB, 8 * GIB)]
)
def test_out_of_memory_is_tried_once_more_with_a_larger_request(asked: int, given: int) -> None:
    again = retried(attempt(memory_bytes=asked), FailureKind.HOST_MEMORY, "aaaa1111")
    assert again.resources.memory_bytes == given
    assert next_attempt(again, FailureKind.HOST_MEMORY, "aaaa1111", NODES) is None


def test_what_cannot_have_more_memory_or_failed_itself_is_not_tried_again() -> None:
    assert next_attempt(attempt(memory_bytes=8 * GIB), FailureKind.HOST_MEMORY, "a", NODES) is None
    assert next_attempt(attempt(), FailureKind.OTHER, "aaaa1111", NODES) is None


@pytest.mark.parametrize(
    ("asked", "given"), [(Resources(num_gpus=1.0), 4 * GIB), (Resources(num_cpus=2), 32 * GIB)]
)
def test_more_memory_is_that_of_a_node_with_all_else_that_is_asked(
    asked: Resources, given: int
) -> None:
    mixed = [
        NodeShape("head", {"memory": 256.0 * GIB}),
        NodeShape("wide", {"CPU": 8.0, "memory": 64.0 * GIB}),
        NodeShape("card", {"CPU": 1.0, "GPU": 1.0, "memory": 8.0 * GIB}),
    ]
    again = retried(replace(attempt(), resources=asked), FailureKind.HOST_MEMORY, "card", mixed)
    assert again.resources == replace(asked, memory_bytes=given)


@pytest.mark.parametrize(
    "fitting", [[], [NodeShape("card", {"CPU": 1.0, "GPU": 1.0, "memory": 8.0 * GIB})]]
)
def test_who_had_all_that_its_nodes_have_gets_no_more_though_others_have(
    fitting: list[NodeShape],
) -> None:
    asked = Resources(num_gpus=1.0, memory_bytes=8 * GIB)
    ended = replace(attempt(), resources=asked)
    assert next_attempt(ended, FailureKind.HOST_MEMORY, "card", [*NODES, *fitting, WIDE]) is None


def test_more_memory_has_room_for_all_workers_of_the_trial() -> None:
    spread = Parallel(workers=2, zero=1, precision="float32", accumulation=1)
    ended = attempt(memory_bytes=3 * GIB)
    ended = replace(ended, trial=replace(ended.trial, parallel=spread))
    # Each worker needs 6 GiB, which only one node has.
    assert next_attempt(ended, FailureKind.HOST_MEMORY, "", NODES) is None
    again = retried(ended, FailureKind.HOST_MEMORY, "", [*NODES, WIDE])
    assert again.resources.memory_bytes == 32 * GIB


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (NodeDiedError("the node died"), FailureKind.LOST_NODE, Status.CRASHED),
        (WorkerCrashedError(), FailureKind.DEAD_WORKER, Status.CRASHED),
        (OutOfMemoryError("the monitor ended it"), FailureKind.HOST_MEMORY, Status.OUT_OF_MEMORY),
        (RuntimeEnvSetupError("no such folder"), FailureKind.OTHER, Status.CRASHED),
        (
            RayTaskError("f", "\x1b[36mf()\x1b[39m\n  trace\nValueError: x", ValueError("x")),
            FailureKind.BROKEN_WORKER,
            Status.ERROR,
        ),
    ],
    ids=["node", "worker", "memory", "environment", "raised"],
)
def test_the_last_attempt_s_end_is_the_result(error, kind: FailureKind, status: Status) -> None:
    assert retry.kind_of(error) is kind
    result = retry.failed_result(attempt(number=3), error)
    assert result.status is status
    is_given_up = kind not in (FailureKind.HOST_MEMORY, FailureKind.OTHER)
    assert result.reason.startswith("given up after 3 attempts") is is_given_up
    assert "\n" not in result.reason
    assert "\x1b" not in result.reason
    assert "ValueError: x" in result.reason or status is not Status.ERROR


def test_a_failure_has_the_provenance_of_the_worker() -> None:
    elsewhere = replace(provenance(Resources()), device="another CPU")
    begun = replace(attempt(number=MOST_ATTEMPTS), provenance=elsewhere)
    again = retried(replace(begun, number=1), FailureKind.LOST_NODE, "aaaa1111")
    for result in (
        retry.failed_result(begun, WorkerCrashedError()),
        retry.failed_result(again, WorkerCrashedError()),  # although it did not start
        retry.timeout_result(begun, 1.0),
    ):
        assert result.provenance == elsewhere
    never_begun = retry.no_node_result(attempt())
    assert never_begun.provenance == provenance(Resources())


def test_a_node_on_which_three_trials_died_in_a_row_is_left_out() -> None:
    failing = FailingNodes()
    # A trial that fails everywhere is not evidence against the node.
    for trial_id in ("a", "a", "a", "b"):
        failing.record_crash("aaaa1111", trial_id)
    assert failing.excluded(NODES) == ()
    failing.record_crash("aaaa1111", "c")
    assert failing.excluded(NODES) == ("aaaa1111",)
    failing.record_result("aaaa1111")
    assert failing.excluded(NODES) == ()


def test_there_is_always_a_node_left() -> None:
    failing = FailingNodes()
    for node in ("aaaa1111", "bbbb2222"):
        for trial_id in "abc":
            failing.record_crash(node, trial_id)
    assert failing.excluded(NODES) == ()
    assert failing.excluded([*NODES, NodeShape("cccc3333", {})]) == ("aaaa1111", "bbbb2222")
    assert failing.excluded([NodeShape("cccc3333", {})]) == ()
