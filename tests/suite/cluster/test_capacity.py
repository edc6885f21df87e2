"""Tests for the capacity of a cluster: trials that can never run, and reasons for waiting."""

from __future__ import annotations

import pytest

from bakeoff.suite.cluster.capacity import (
    NodeShape,
    asked_of_a_node,
    infeasible_reason,
    slots,
    waiting_reason,
)
from bakeoff.suite.schema import Resources

GIB = 2**30
HEAD = NodeShape("head", {"memory": 4.0 * GIB})
SMALL = NodeShape("small", {"CPU": 2.0, "memory": 8.0 * GIB, "timing": 1.0})
A100 = NodeShape("a100", {"CPU": 8.0, "GPU": 4.0, "accelerator_type:A100": 1.0})
T4 = NodeShape("t4", {"CPU": 4.0, "GPU": 1.0, "accelerator_type:T4": 1.0})
ALL = [HEAD, SMALL, A100, T4]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (Resources(), 2 + 8 + 4),
        (Resources(num_cpus=3), 2 + 1),  # a trial does not span two nodes
        (Resources(num_gpus=1.0), 4 + 1),
        (Resources(num_gpus=0.1), 8 + 4),  # ten trials share a GPU, limited by the number of CPUs
        (Resources(num_gpus=1.0, gpu_model="A100"), 4),
        (Resources(num_gpus=1.0, gpu_model="H100"), 0),
        (Resources(memory_bytes=3 * GIB), 2),
        (Resources(num_gpus=2.0), 2),
    ],
)
def test_how_many_fit(resources: Resources, expected: int) -> None:
    assert slots(asked_of_a_node(resources), ALL) == expected
    assert bool(infeasible_reason(resources, 1, ALL)) is (expected == 0)


def test_a_tenth_of_a_card_is_a_tenth() -> None:
    wide = NodeShape("wide", {"CPU": 64.0, "GPU": 1.0})
    assert slots(asked_of_a_node(Resources(num_gpus=0.1)), [wide]) == 10


def test_a_refusal_says_what_there_is() -> None:
    assert infeasible_reason(Resources(num_cpus=16), 1, ALL) == (
        "a trial asks for 16 CPU, and no node has that; the cluster has 1 node with 8 CPU, 4 GPU "
        "(A100) and 1 node with 4 CPU, 1 GPU (T4) and 1 node with 2 CPU, 8 GiB of memory."
    )
    assert infeasible_reason(Resources(num_gpus=1.0, gpu_model="A100"), 5, [A100]) == (
        "a trial asks for 5 workers with 1 CPU, 1 GPU (A100) each, and the cluster has room for 4 "
        "of them; it has 1 node with 8 CPU, 4 GPU (A100)."
    )
    assert infeasible_reason(Resources(), 1, [HEAD]).endswith("has no node that runs trials.")


def test_node_types_that_may_be_started_count_as_often_as_they_may() -> None:
    kind = NodeShape("gpu_worker", {"CPU": 8.0, "GPU": 1.0}, count=4)
    assert infeasible_reason(Resources(num_gpus=1.0), 4, [kind]) == ""
    assert "room for 4 of them" in infeasible_reason(Resources(num_gpus=1.0), 5, [kind])


def test_what_a_trial_waits_for() -> None:
    asked = asked_of_a_node(Resources(num_gpus=1.0))
    busy = [NodeShape("a100", {"CPU": 1.0}), NodeShape("t4", {"CPU": 3.0})]
    assert waiting_reason(asked, ALL, busy) == (
        "asks for 1 CPU, 1 GPU; 4 of 12 CPU, 0 of 5 GPU free on 2 nodes"
    )
    assert waiting_reason(asked, ALL, ALL) == "a worker process is starting"
    assert waiting_reason(asked, [HEAD], [HEAD]) == (
        "no node has 1 CPU, 1 GPU yet; the cluster must start one"
    )


def test_much_memory_is_still_a_plain_number() -> None:
    assert "10000 GiB" in infeasible_reason(Resources(memory_bytes=10_000 * GIB), 1, [SMALL])
