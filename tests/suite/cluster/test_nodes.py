"""Tests for the choice of nodes for timings: one environment, the earlier one where it exists."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from bakeoff.suite.cluster import nodes
from bakeoff.suite.cluster.capacity import MANY, NodeShape
from bakeoff.suite.schema import Resources


class FakeCluster:
    """A fake cluster of named nodes, each with an environment; an empty one does not answer.

    Its clock advances while an answer is awaited.
    """

    def __init__(self, patch: pytest.MonkeyPatch, environments: Mapping[str, str]) -> None:
        self.environments = dict(environments)
        self.shapes = [NodeShape(name, {"CPU": 2.0}) for name in environments]
        self.asked: list[str] = []
        self.withdrawn: list[str] = []
        self.now = 1_000.0
        patch.setattr(nodes, "live_nodes", lambda: self.shapes)
        patch.setattr(nodes, "possible_nodes", lambda: self.shapes)
        patch.setattr(nodes, "_ask", self.ask)
        patch.setattr(nodes, "_answered", self.answered)
        patch.setattr(nodes, "time", SimpleNamespace(monotonic=lambda: self.now))
        patch.setattr(nodes.ray, "cancel", lambda name, force: self.withdrawn.append(name))
        patch.setattr(nodes, "_environment_of_any", lambda resources: "started")

    def ask(self, resources: Resources, name: str) -> str:
        self.asked.append(name)
        return name

    def answered(self, name: str, seconds: float) -> str:
        self.now += 0.0 if self.environments[name] else seconds
        return self.environments[name]


MIXED = {"a": "xeon", "b": "epyc", "c": "epyc"}
ONE = Resources()


def test_the_environment_of_earlier_timings_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch, MIXED)
    timing = nodes.TimingNodes()
    assert timing.environment(ONE, "xeon") == "xeon"
    assert [node.name for node in timing.nodes(ONE, "xeon")] == ["a"]
    assert timing.environment(ONE, "gone") == timing.environment(ONE, "") == "epyc"


def test_each_node_is_asked_once_and_new_ones_when_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster(monkeypatch, MIXED)
    timing = nodes.TimingNodes()
    for _ in range(3):
        assert [node.name for node in timing.nodes(ONE, "epyc")] == ["b", "c"]
    assert cluster.asked == ["a", "b", "c"]
    cluster.environments["d"] = "epyc"
    cluster.shapes.append(NodeShape("d", {"CPU": 2.0}))
    assert [node.name for node in timing.nodes(ONE, "epyc")] == ["b", "c", "d"]
    assert cluster.asked == ["a", "b", "c", "d"]


def test_a_node_that_was_only_busy_is_asked_again_and_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster(monkeypatch, {"a": "", "b": "epyc"})
    timing = nodes.TimingNodes()
    assert timing.environment(ONE, "") == "epyc"
    cluster.environments["a"] = "epyc"
    assert [node.name for node in timing.nodes(ONE, "epyc")] == ["b"]
    cluster.now += 31.0
    assert [node.name for node in timing.nodes(ONE, "epyc")] == ["a", "b"]
    assert cluster.asked == ["a", "b", "a"]


def test_where_all_were_busy_they_time_once_they_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, {"a": ""})
    timing = nodes.TimingNodes()
    assert timing.environment(ONE, "") == "started"
    cluster.environments["a"] = "started"
    cluster.now += 31.0
    assert [node.name for node in timing.nodes(ONE, "started")] == ["a"]


def test_silent_nodes_are_waited_for_together_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, {"a": "", "b": "", "c": "epyc"})
    timing, start = nodes.TimingNodes(), cluster.now
    for _ in range(3):
        assert timing.environment(ONE, "") == "epyc"
        assert cluster.now - start == pytest.approx(60.0)


def test_looks_at_a_silent_node_take_no_time_and_ask_it_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster(monkeypatch, {"a": "", "b": "epyc"})
    timing, start = nodes.TimingNodes(), cluster.now
    for look in range(181):
        cluster.now = start + look
        assert [node.name for node in timing.nodes(ONE, "epyc")] == ["b"]
        assert cluster.now == start + look
    assert cluster.asked == ["a", "b", "a", "a"]  # one minute each, half a minute apart
    assert cluster.withdrawn == ["a", "a"]


def test_where_some_declare_timing_only_they_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, MIXED)
    cluster.shapes[0] = NodeShape("a", {"CPU": 2.0, nodes.TIMING: 1.0})
    assert nodes.TimingNodes().environment(ONE, "epyc") == "xeon"
    assert cluster.asked == ["a"]


def test_a_node_is_asked_for_where_none_stands_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch, MIXED)
    assert nodes.TimingNodes().environment(Resources(num_gpus=1.0), "epyc") == "started"


def test_the_types_that_an_autoscaler_may_start_are_what_is_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray.core.generated.autoscaler_pb2 import NodeGroupConfig

    groups = [
        NodeGroupConfig(name="cpu", resources={"CPU": 8}, max_count=4),
        NodeGroupConfig(name="gpu", resources={"CPU": 8, "GPU": 1}, max_count=-1),
    ]
    monkeypatch.setattr(nodes.ray_private, "node_groups", lambda: groups)
    assert nodes.possible_nodes() == [
        NodeShape("cpu", {"CPU": 8}, 4),
        NodeShape("gpu", {"CPU": 8, "GPU": 1}, MANY),
    ]


def test_nodes_of_a_moment_ago_are_asked_for_again_a_moment_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster(monkeypatch, MIXED)
    recent = nodes.RecentNodes()
    assert len(recent()) == 3
    cluster.shapes = []
    assert len(recent()) == 3
    cluster.now += 0.3
    assert recent() == []
