"""Run trials as Ray Core tasks and yield their events, on a Ray of this machine or a cluster.

Results come in completion order. `bakeoff.suite.cluster.retry` decides which failed attempts are
repeated; every other outcome of a trial is its result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import ray
from ray.exceptions import RayError

from bakeoff.suite import stopping
from bakeoff.suite.cluster import nodes, retry
from bakeoff.suite.cluster.capacity import infeasible_reason, waiting_reason
from bakeoff.suite.cluster.ray_private import remove_orphaned_groups
from bakeoff.suite.cluster.ray_task import kill, node_of, submit
from bakeoff.suite.cluster.retry import FailingNodes, FailureKind
from bakeoff.suite.cluster.trial_queue import ExclusiveQueue, PackedQueue, TrialAttempt, TrialQueue
from bakeoff.suite.events import (
    Assignments,
    Event,
    ExecutorSettings,
    Finished,
    RunAgainEagerly,
    Started,
    Unavailable,
    Waiting,
    eagerly_remark,
)
from bakeoff.suite.execution.output import with_left_output
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Resources, Result
from bakeoff.suite.timeouts import SECONDS_OF_GRACE

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_REPORTS = 2.0
_SECONDS_WITHOUT_A_NODE = 600.0


@dataclass
class _Running:
    """A trial that was submitted to Ray.

    Attributes:
        attempt: The attempt at the trial.
        stream: The stream of its events.
        avoided: Ids of the nodes that it must not run on.
        place: The place where it runs; empty until it has started.
        ends_at: The time at which it is killed if it has not given its result.
        has_ended: Whether it has given its result, or is run again eagerly: later errors of its
            process are ignored.
    """

    attempt: TrialAttempt
    stream: ray.ObjectRefGenerator
    avoided: tuple[str, ...] = ()
    place: str = ""
    ends_at: float = math.inf
    has_ended: bool = False


@dataclass
class RayExecutor:
    """An executor on a connected cluster, which may be used several times.

    Attributes:
        settings: The settings of the trials.
        is_own: Whether Ray runs on this machine only, started for this sweep.
    """

    settings: ExecutorSettings
    is_own: bool = True
    _timing: nodes.TimingNodes = field(default_factory=nodes.TimingNodes)
    _recent: nodes.RecentNodes = field(default_factory=nodes.RecentNodes)
    _in_flight: list[_Running] = field(default_factory=list)
    _last_waiting: Waiting = field(default_factory=lambda: Waiting(0, ""))
    _next_report: float = 0.0
    _without_node_since: float = 0.0
    _may_have_orphans: bool = False
    _failing: FailingNodes = field(default_factory=FailingNodes)

    def execute(self, work: Assignments) -> Iterator[Event]:
        """Run all trials, packed: first those that need several workers at once, then the rest."""
        self.refuse_infeasible(work)
        for are_spread in (True, False):
            group = [item for item in work if bool(item[0].parallel) is are_spread]
            yield from self._run(PackedQueue(group, self._recent))

    def execute_alone(self, work: Assignments, environment_id: str) -> Iterator[Event]:
        """Run each trial in new processes on a node of its own, all in one environment."""
        self.refuse_infeasible(work)
        for resources in dict.fromkeys(resources for _, resources in work):
            group = [item for item in work if item[1] == resources]
            offering = partial(self._timing.nodes, resources, environment_id)
            yield from self._run(
                ExclusiveQueue(group, nodes.live_nodes if self.is_own else offering)
            )

    def environment_for_timing(self, resources: Resources, preferred: str) -> str:
        """Return the preferred environment if a node offers it, else that of most nodes.

        Raises:
            Unavailable: If no node answers.
        """
        if self.is_own:
            return provenance(resources).environment_id
        return self._timing.environment(resources, preferred)

    def refuse_infeasible(self, work: Assignments) -> None:
        """Raise if neither the live nodes nor those that may be started can ever run a trial.

        Raises:
            Unavailable: The message states the request, and the resources of the nodes.
        """
        asked = dict.fromkeys((resources, trial.num_workers) for trial, resources in work)
        for resources, num_workers in asked:
            reason = infeasible_reason(resources, num_workers, nodes.live_nodes())
            if reason:  # an autoscaler may start larger nodes
                reason = infeasible_reason(resources, num_workers, nodes.possible_nodes())
            if reason:
                raise Unavailable(reason)

    def _run(self, queue: TrialQueue) -> Iterator[Event]:
        self._without_node_since = time.monotonic()
        try:
            while len(queue) or self._in_flight:
                self._submit_from(queue)
                yield from self._new_events(queue)
                yield from self._end_overdue()
                yield from self._report_waiting(queue)
                yield from self._give_up(queue)
        finally:
            if self._in_flight and isinstance(queue, PackedQueue):  # a timing has nothing to save
                self._let_trainings_save()
            for running in self._in_flight:
                ray.cancel(running.stream, force=True)
                self._may_have_orphans |= running.attempt.trial.parallel is not None
            self._in_flight.clear()

    def _let_trainings_save(self) -> None:
        """Ask the trainings for a checkpoint, and wait some seconds for running ones to end."""
        folder = self.settings.checkpoints.folder
        stopping.ask(folder)
        streams = {running.stream: running for running in self._in_flight if running.place}
        running = lambda: [each.attempt.trial.trial_id for each in streams.values()]  # noqa: E731
        for _ in stopping.moments_to_wait(folder, running):
            ready, _ = ray.wait(list(streams), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
            for stream in ready:
                try:
                    next(stream)
                except (StopIteration, RayError):
                    self._in_flight.remove(streams.pop(stream))

    def _submit_from(self, queue: TrialQueue) -> None:
        attempts = queue.take([running.attempt for running in self._in_flight])
        excluded = self._failing.excluded(self._recent()) if attempts else ()
        for attempt in attempts:
            avoided = nodes.nodes_to_avoid(attempt, excluded)
            stream = submit(attempt, self.settings, avoided)
            self._in_flight.append(_Running(attempt, stream, avoided))

    def _new_events(self, queue: TrialQueue) -> Iterator[Event]:
        """Yield the events of the trials in flight since the last call."""
        streams = {running.stream: running for running in self._in_flight}
        if not streams:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            return
        ready, _ = ray.wait(list(streams), num_returns=len(streams), timeout=0, fetch_local=False)
        if not ready:
            ready, _ = ray.wait(list(streams), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
        for stream in ready:
            yield from self._next_event(streams[stream], queue)

    def _next_event(self, running: _Running, queue: TrialQueue) -> Iterator[Event]:
        try:
            event: Event = ray.get(next(running.stream))
        except StopIteration:
            self._in_flight.remove(running)
            return
        except RayError as error:
            self._forget(running)
            if not running.has_ended:
                yield self._after_failure(running, error, queue)
            return
        if isinstance(event, Started):
            if event.provenance is not None:
                running.attempt = replace(running.attempt, provenance=event.provenance)
            if running.place:  # one of several workers, which only reports its place
                return
            running.place = event.place
            if (limit := self.settings.trial_seconds) is not None:
                # A trial of several workers cannot end itself, so it gets no grace.
                grace = 0.0 if running.attempt.trial.parallel else SECONDS_OF_GRACE
                running.ends_at = time.monotonic() + limit + grace
        elif isinstance(event, Finished):
            running.has_ended = True  # although its stream has not ended yet
            self._failing.record_result(node_of(running.place))
        elif isinstance(event, RunAgainEagerly):
            running.has_ended = True
            queue.put_back(replace(running.attempt, node=None, why_eager=event.why))
            yield eagerly_remark(event)
            return
        yield event

    def _forget(self, running: _Running) -> None:
        self._in_flight.remove(running)
        self._may_have_orphans |= running.attempt.trial.parallel is not None

    def _after_failure(self, running: _Running, error: RayError, queue: TrialQueue) -> Event:
        """Queue the next attempt at a trial that left no result, or return its failure."""
        kind, node = retry.kind_of(error), node_of(running.place)
        if kind is FailureKind.DEAD_WORKER:
            self._failing.record_crash(node, running.attempt.trial.trial_id)
        again = retry.next_attempt(running.attempt, kind, node, nodes.live_nodes())
        if again is None:
            return Finished(self._with_output(retry.failed_result(running.attempt, error)))
        queue.put_back(again)
        return retry.retry_remark(again, error)

    def _end_overdue(self) -> Iterator[Finished]:
        """Kill the trials that have not ended by their time limit."""
        for running in list(self._in_flight):
            if not running.has_ended and time.monotonic() > running.ends_at:
                kill(running.stream, running.place)
                self._forget(running)
                limit = self.settings.trial_seconds or 0.0
                yield Finished(self._with_output(retry.timeout_result(running.attempt, limit)))

    def _with_output(self, result: Result) -> Result:
        return with_left_output(result, self.settings.checkpoints)

    def _report_waiting(self, queue: TrialQueue) -> Iterator[Waiting]:
        """Report how many trials wait, and for what, at most every `_SECONDS_BETWEEN_REPORTS`."""
        if time.monotonic() < self._next_report:
            return
        self._next_report = time.monotonic() + _SECONDS_BETWEEN_REPORTS
        if self._may_have_orphans:  # they hold resources that the waiting trials need
            self._may_have_orphans = not remove_orphaned_groups()
        self._release(queue)
        placeless = [running.attempt for running in self._in_flight if not running.place]
        num_waiting = len(placeless) + len(queue)
        reason = _why_waiting(placeless[0]) if placeless else "no node is free" if queue else ""
        waiting = Waiting(num_waiting, reason if num_waiting else "")
        if waiting != self._last_waiting:
            self._last_waiting = waiting
            yield waiting

    def _release(self, queue: TrialQueue) -> None:
        """Let trials that avoid some nodes run on any, once no other node is left."""
        for running in [each for each in self._in_flight if each.avoided and not each.place]:
            if not nodes.nodes_to_avoid(running.attempt, running.avoided):
                ray.cancel(running.stream)
                self._in_flight.remove(running)
                queue.put_back(running.attempt)

    def _give_up(self, queue: TrialQueue) -> Iterator[Finished]:
        """End the trials as crashed if there was no node for their timings for a long time."""
        if self._in_flight or not len(queue):
            self._without_node_since = time.monotonic()
        elif time.monotonic() - self._without_node_since > _SECONDS_WITHOUT_A_NODE:
            yield from map(Finished, map(retry.no_node_result, queue.drain()))


def _why_waiting(attempt: TrialAttempt) -> str:
    if attempt.node is not None:
        return f"the node {attempt.node.name[:8]}, which it needs exclusively, is still busy"
    return waiting_reason(attempt.asked, nodes.live_nodes(), nodes.free_nodes())
