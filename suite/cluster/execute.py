"""Trials -> events, as Ray Core tasks: on an embedded Ray, or on a running cluster.

Arrow: Trial -> Result, in completion order. A trial whose node is lost runs again on another
one; whatever else happens to a trial is its result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import ray
from ray.exceptions import RayError

from suite.cluster import ends, nodes
from suite.cluster.capacity import NodeShape, why_never, why_not_now
from suite.cluster.line import AloneLine, Line, PackedLine, Turn
from suite.cluster.orphans import remove_orphaned_groups
from suite.cluster.task import node_of, submit
from suite.events import Event, Finished, Started, Waiting
from suite.executor import Luggage, Unavailable, Work
from suite.provenance import provenance
from suite.schema import Resources

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_SURVEYS = 2.0
_MOST_ATTEMPTS = 3
_SECONDS_WITHOUT_A_NODE = 600.0


@dataclass
class _Running:
    """A trial that Ray has; `node` is empty until it has begun."""

    turn: Turn
    stream: ray.ObjectRefGenerator
    node: str = ""


@dataclass
class RayExecutor:
    """The cluster, connected; may be asked several times.

    Attributes:
        luggage: What the trials need besides their specifications.
        is_own: Whether it is a Ray of this machine, started for this sweep.
    """

    luggage: Luggage
    is_own: bool = True
    _timing: nodes.TimingNodes = field(default_factory=nodes.TimingNodes)
    _in_flight: list[_Running] = field(default_factory=list)
    _told: Waiting = field(default_factory=lambda: Waiting(0, ""))
    _next_survey: float = 0.0
    _stranded_since: float = 0.0
    _may_have_orphans: bool = False

    def execute(self, work: Work) -> Iterator[Event]:
        """Run all of it, packed: first what needs several workers at once, then the rest."""
        self.refuse_infeasible(work)
        for are_spread in (True, False):
            group = [turn for turn in work if bool(turn[0].parallel) is are_spread]
            yield from self._run(PackedLine(group, nodes.live_nodes))

    def execute_alone(self, work: Work, environment_id: str) -> Iterator[Event]:
        """Run each in fresh processes on a node that it has to itself, all in one environment."""
        self.refuse_infeasible(work)
        for resources in dict.fromkeys(resources for _, resources in work):
            group = [turn for turn in work if turn[1] == resources]
            line = AloneLine(group, partial(self._nodes, resources, environment_id))
            yield from self._run(line)

    def environment_for_timing(self, resources: Resources, preferred: str) -> str:
        """The preferred one if a node offers it, else the one that most nodes offer.

        Raises:
            Unavailable: if no node answers.
        """
        if self.is_own:
            return provenance(resources).environment_id
        return self._timing.environment(resources, preferred)

    def refuse_infeasible(self, work: Work) -> None:
        """Refuse what neither the nodes that stand nor those that may be started can ever run.

        Raises:
            Unavailable: with what is asked for, and what there is.
        """
        asked = dict.fromkeys((resources, trial.num_workers) for trial, resources in work)
        for resources, num_workers in asked:
            reason = why_never(resources, num_workers, nodes.live_nodes())
            if reason and (reason := why_never(resources, num_workers, nodes.possible_nodes())):
                raise Unavailable(reason)

    def _nodes(self, resources: Resources, environment_id: str) -> list[NodeShape]:
        if self.is_own:
            return nodes.live_nodes()
        return self._timing.nodes(resources, environment_id)

    def _run(self, line: Line) -> Iterator[Event]:
        try:
            while len(line) or self._in_flight:
                self._fill(line)
                yield from self._look(line)
                yield from self._survey(line)
                yield from self._give_up(line)
        finally:
            self._cancel()

    def _fill(self, line: Line) -> None:
        for turn in line.take([running.turn for running in self._in_flight]):
            self._in_flight.append(_Running(turn, submit(turn, self.luggage)))

    def _look(self, line: Line) -> Iterator[Event]:
        """Whatever the trials in flight have said since the last look."""
        streams = {running.stream: running for running in self._in_flight}
        if not streams:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            return
        ready, _ = ray.wait(list(streams), num_returns=len(streams), timeout=0, fetch_local=False)
        if not ready:
            ready, _ = ray.wait(list(streams), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
        for stream in ready:
            yield from self._next_event(streams[stream], line)

    def _next_event(self, running: _Running, line: Line) -> Iterator[Event]:
        try:
            event: Event = ray.get(next(running.stream))
        except StopIteration:
            self._in_flight.remove(running)
            return
        except RayError as error:
            self._in_flight.remove(running)
            self._may_have_orphans |= running.turn.trial.parallel is not None
            if ends.is_lost_node(error) and running.turn.attempt < _MOST_ATTEMPTS:
                line.put_back(running.turn)
                return
            event = Finished(ends.result_of(running.turn, error))
        if isinstance(event, Started):
            running.node = node_of(event.place)
        yield event

    def _survey(self, line: Line) -> Iterator[Waiting]:
        """Now and then: how many have no place yet, and why not."""
        if time.monotonic() < self._next_survey:
            return
        self._next_survey = time.monotonic() + _SECONDS_BETWEEN_SURVEYS
        if self._may_have_orphans:  # what they hold would be missed by those who wait
            self._may_have_orphans = not remove_orphaned_groups()
        placeless = [running.turn for running in self._in_flight if not running.node]
        num_waiting = len(placeless) + len(line)
        reason = _why_waiting(placeless[0]) if placeless else "no node is free" if line else ""
        waiting = Waiting(num_waiting, reason if num_waiting else "")
        if waiting != self._told:
            self._told = waiting
            yield waiting

    def _give_up(self, line: Line) -> Iterator[Finished]:
        """Where no node is left that could time them, and none comes, trials end as crashed."""
        if self._in_flight or not len(line):
            self._stranded_since = time.monotonic()
        elif time.monotonic() - self._stranded_since > _SECONDS_WITHOUT_A_NODE:
            yield from map(Finished, map(ends.stranded, line.drain()))

    def _cancel(self) -> None:
        for running in self._in_flight:
            ray.cancel(running.stream, force=True)
            self._may_have_orphans |= running.turn.trial.parallel is not None
        self._in_flight.clear()


def _why_waiting(turn: Turn) -> str:
    if turn.node is not None:
        return f"the node {turn.node.name[:8]}, which it needs to itself, is still busy"
    return why_not_now(turn.asked, nodes.live_nodes(), nodes.free_nodes())
