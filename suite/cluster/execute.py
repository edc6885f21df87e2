"""Trials -> events, as Ray Core tasks: on an embedded Ray, or on a running cluster.

Arrow: Trial -> Result, in completion order. What the world did to a trial, `suite.cluster.retry`
may give it another attempt for; whatever else happens to a trial is its result.
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
from suite.cluster.overdue import Overdue
from suite.cluster.retry import Ending, FailingNodes, next_turn
from suite.cluster.task import node_of, submit
from suite.events import (
    Assignments,
    Event,
    ExecutorSettings,
    Finished,
    Started,
    Unavailable,
    Waiting,
)
from suite.provenance import provenance
from suite.schema import Resources

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_SURVEYS = 2.0
_SECONDS_WITHOUT_A_NODE = 600.0


@dataclass
class _Running:
    """A trial that Ray has.

    Attributes:
        elsewhere: Ids of the nodes that it must not run on.
        place: Empty until it has begun.
        overdue: Counts from then on, until its result.
        has_ended: Whether it has given its result: what its process does after that is not its own.
    """

    turn: Turn
    stream: ray.ObjectRefGenerator
    elsewhere: tuple[str, ...] = ()
    place: str = ""
    overdue: Overdue | None = None
    has_ended: bool = False


@dataclass
class RayExecutor:
    """The cluster, connected; may be asked several times.

    Attributes:
        luggage: What the trials need besides their specifications.
        is_own: Whether it is a Ray of this machine, started for this sweep.
    """

    luggage: ExecutorSettings
    is_own: bool = True
    _timing: nodes.TimingNodes = field(default_factory=nodes.TimingNodes)
    _recent: nodes.RecentNodes = field(default_factory=nodes.RecentNodes)
    _in_flight: list[_Running] = field(default_factory=list)
    _told: Waiting = field(default_factory=lambda: Waiting(0, ""))
    _next_survey: float = 0.0
    _stranded_since: float = 0.0
    _may_have_orphans: bool = False
    _failing: FailingNodes = field(default_factory=FailingNodes)

    def execute(self, work: Assignments) -> Iterator[Event]:
        """Run all of it, packed: first what needs several workers at once, then the rest."""
        self.refuse_infeasible(work)
        for are_spread in (True, False):
            group = [turn for turn in work if bool(turn[0].parallel) is are_spread]
            yield from self._run(PackedLine(group, self._recent))

    def execute_alone(self, work: Assignments, environment_id: str) -> Iterator[Event]:
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

    def refuse_infeasible(self, work: Assignments) -> None:
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
        self._stranded_since = time.monotonic()
        try:
            while len(line) or self._in_flight:
                self._fill(line)
                yield from self._look(line)
                yield from self._end_overdue()
                yield from self._survey(line)
                yield from self._give_up(line)
        finally:
            self._cancel()

    def _fill(self, line: Line) -> None:
        turns = line.take([running.turn for running in self._in_flight])
        left_out = self._failing.left_out(self._recent()) if turns else ()
        for turn in turns:
            elsewhere = nodes.elsewhere(turn, left_out)
            stream = submit(turn, self.luggage, elsewhere)
            self._in_flight.append(_Running(turn, stream, elsewhere))

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
            self._forget(running)
            if not running.has_ended:
                yield self._after(running, error, line)
            return
        if isinstance(event, Started):
            running.place = event.place
            running.overdue = Overdue.of(running.turn.trial, self.luggage.trial_seconds)
        elif isinstance(event, Finished):
            running.has_ended = True  # though its stream has not yet
            self._failing.note_result(node_of(running.place))
        yield event

    def _forget(self, running: _Running) -> None:
        self._in_flight.remove(running)
        self._may_have_orphans |= running.turn.trial.parallel is not None

    def _after(self, running: _Running, error: RayError, line: Line) -> Event:
        """What an attempt comes to that left no result: another one, or the trial's end."""
        if running.overdue is not None and running.overdue.was_ended:
            return Finished(ends.timed_out(running.turn, running.overdue.seconds))
        ending, node = ends.ending_of(error), node_of(running.place)
        if ending is Ending.DEAD_WORKER:
            self._failing.note_death(node, running.turn.trial.trial_id)
        again = next_turn(running.turn, ending, node, nodes.live_nodes())
        if again is None:
            return Finished(ends.result_of(running.turn, error))
        line.put_back(again)
        return ends.remark_on(again, error)

    def _end_overdue(self) -> Iterator[Finished]:
        """What has not ended itself in time is ended; what cannot be ended is given up."""
        for running in list(self._in_flight):
            if running.has_ended or running.overdue is None or not running.overdue.is_due():
                continue
            if running.overdue.end(running.stream, running.place):
                self._forget(running)
                yield Finished(ends.timed_out(running.turn, running.overdue.seconds))

    def _survey(self, line: Line) -> Iterator[Waiting]:
        """Now and then: how many have no place yet, and why not."""
        if time.monotonic() < self._next_survey:
            return
        self._next_survey = time.monotonic() + _SECONDS_BETWEEN_SURVEYS
        if self._may_have_orphans:  # what they hold would be missed by those who wait
            self._may_have_orphans = not remove_orphaned_groups()
        self._release(line)
        placeless = [running.turn for running in self._in_flight if not running.place]
        num_waiting = len(placeless) + len(line)
        reason = _why_waiting(placeless[0]) if placeless else "no node is free" if line else ""
        waiting = Waiting(num_waiting, reason if num_waiting else "")
        if waiting != self._told:
            self._told = waiting
            yield waiting

    def _release(self, line: Line) -> None:
        """Who waits for other nodes than some, and there are none any more, waits for any."""
        for running in [each for each in self._in_flight if each.elsewhere and not each.place]:
            if not nodes.elsewhere(running.turn, running.elsewhere):
                ray.cancel(running.stream)
                self._in_flight.remove(running)
                line.put_back(running.turn)

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
