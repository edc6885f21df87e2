"""Trials -> events, as Ray Core tasks: on an embedded Ray, or on a running cluster.

Arrow: Trial -> Result, in completion order. Each task streams what `run_trial` says, so curves
are live. Ray retries nothing (`max_retries=0`): a hidden retry would log twice and mix timings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from suite.events import Event, Finished
from suite.executor import Unavailable, Work
from suite.provenance import provenance
from suite.schema import Resources, Result, Status, Trial

# Set before Ray is imported: it reads them once. So is the way to prove who asks: address.py.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

_OBJECT_STORE_BYTES = 150_000_000  # only specifications and results travel
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_JOIN = 6
_PATIENCE = "RAY_gcs_server_port_wait_time_s"


@dataclass
class _Running:
    """A trial in flight."""

    trial: Trial
    resources: Resources
    stream: ray.ObjectRefGenerator
    place: str = ""


@dataclass
class RayExecutor:
    """The cluster, connected; `execute` may be called several times.

    Attributes:
        num_cpus: CPUs of the whole cluster.
        source_paths: Folders that a user's own modules are imported from.
    """

    num_cpus: int
    source_paths: tuple[str, ...] = ()
    _in_flight: list[_Running] = field(default_factory=list)

    def execute(self, work: Work) -> Iterator[Event]:
        """Run all of it, packed onto the CPUs; events in the order in which they happen."""
        yield from self._run(list(work), window=2 * max(1, self.num_cpus), alone=False)

    def execute_alone(self, work: Work) -> Iterator[Event]:
        """Run one trial at a time, each in a fresh process, with nothing beside it."""
        yield from self._run(list(work), window=1, alone=True)

    def _run(
        self, waiting: list[tuple[Trial, Resources]], window: int, alone: bool
    ) -> Iterator[Event]:
        self._refuse_infeasible(waiting)
        waiting.reverse()
        try:
            while waiting or self._in_flight:
                while waiting and len(self._in_flight) < window:
                    self._in_flight.append(self._submit(*waiting.pop(), alone=alone))
                yield from self._look()
        finally:
            self._cancel()

    def _submit(self, trial: Trial, resources: Resources, *, alone: bool) -> _Running:
        asked = {"num_cpus": resources.num_cpus, "num_gpus": resources.num_gpus}
        task = _stream.options(**asked)
        if alone:  # an environment of its own keeps Ray from handing it a used process
            own = {"env_vars": {"BAKEOFF_TRIAL": trial.trial_id}}
            task = _stream_once.options(**asked, runtime_env=own)
        return _Running(trial, resources, task.remote(trial, resources, self.source_paths))

    def _look(self) -> Iterator[Event]:
        """Whatever the trials in flight have said since the last look."""
        streams = {running.stream: running for running in self._in_flight}
        ready, _ = ray.wait(list(streams), num_returns=len(streams), timeout=0, fetch_local=False)
        if not ready:
            ready, _ = ray.wait(list(streams), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
        for stream in ready:
            yield from self._next_event(streams[stream])

    def _next_event(self, running: _Running) -> Iterator[Event]:
        try:
            event: Event = ray.get(next(running.stream))
        except StopIteration:
            self._in_flight.remove(running)
            return
        except RayError as error:
            self._in_flight.remove(running)
            event = Finished(_failed(running, error))
        yield event

    def _refuse_infeasible(self, work: Work) -> None:
        has = ray.cluster_resources()
        for trial, resources in work:
            asked = {"CPU": float(resources.num_cpus), "GPU": resources.num_gpus}
            for kind, number in asked.items():
                if number > has.get(kind, 0.0):
                    raise Unavailable(
                        f"a {trial.probe} trial asks for {number:g} {kind}; the cluster has "
                        f"{has.get(kind, 0.0):g}."
                    )

    def _cancel(self) -> None:
        for running in self._in_flight:
            ray.cancel(running.stream, force=True)
        self._in_flight.clear()


def _failed(running: _Running, error: RayError) -> Result:
    """The result of a trial that could not leave one itself."""
    status = Status.CRASHED
    if isinstance(error, OutOfMemoryError):
        status = Status.OUT_OF_MEMORY
    elif isinstance(error, RayTaskError):
        status = Status.ERROR
    return Result(
        trial_id=running.trial.trial_id, status=status, provenance=provenance(running.resources),
        seconds=0.0, reason=_sentence(error), traceback=str(error),
    )  # fmt: skip


def _sentence(error: RayError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _stream_trial(
    trial: Trial, resources: Resources, source_paths: tuple[str, ...]
) -> Iterator[Event]:
    from suite.trial import run_trial

    sys.path[:0] = [path for path in source_paths if path not in sys.path]
    node = ray.get_runtime_context().get_node_id()[:8]
    yield from run_trial(trial, resources, f"node {node}, process {os.getpid()}")


_stream = ray.remote(max_retries=0, num_returns="streaming")(_stream_trial)
_stream_once = ray.remote(max_retries=0, max_calls=1, num_returns="streaming")(_stream_trial)


@contextmanager
def connected(address: str | None, source_paths: tuple[str, ...]) -> Iterator[RayExecutor]:
    """An executor on the cluster at `address`, or on a Ray that starts and ends with the block.

    See `suite.execution.executing`, which settles beforehand what Ray reads on import.

    Raises:
        Unavailable: if there is no cluster at that address.
    """
    _connect(address)
    try:
        yield RayExecutor(int(ray.cluster_resources().get("CPU", 1)), source_paths)
    finally:
        ray.shutdown()


def _connect(address: str | None) -> None:
    try:
        if address is None:
            _start()
        else:
            with _patient_for(_SECONDS_TO_JOIN):
                ray.init(address=address, log_to_driver=False, logging_level="error")
    except (RayError, RuntimeError, ValueError, OSError) as error:
        said = str(error).splitlines()[0].partition(". ")[0].rstrip(".")
        if address is None:
            raise Unavailable(f"Ray cannot be started here: {said}.") from error
        raise Unavailable(
            f"--address {address}: no Ray cluster lets us in there ({said}). Is it a head of the "
            f"same version ({ray.__version__}), and is its token in RAY_AUTH_TOKEN_PATH?"
        ) from error


def _start() -> None:
    """Start a cluster of this machine, which ends with this process."""
    ray.init(
        address="local", include_dashboard=False, log_to_driver=False, logging_level="error",
        object_store_memory=_OBJECT_STORE_BYTES, _node_ip_address="127.0.0.1",
    )  # fmt: skip


@contextmanager
def _patient_for(seconds: int) -> Iterator[None]:
    """How long Ray knocks at a head that does not let it in; its own default is 20 seconds."""
    before = os.environ.get(_PATIENCE)
    os.environ[_PATIENCE] = before or str(seconds)
    try:
        yield
    finally:
        os.environ.pop(_PATIENCE)
        if before is not None:
            os.environ[_PATIENCE] = before
