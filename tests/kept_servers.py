"""Fork servers that outlive the sweep of one test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bakeoff.suite.execution.fork_server import ForkServer, ForkServers

_OF_ONE_TEST = ("PYTEST_CURRENT_TEST", "BAKEOFF_DRIVER")  # in the environment of a trial


class KeptServers(ForkServers):
    """Fork servers that no sweep ends: starting one takes seconds, a fork of it milliseconds.

    Their environment does not have the variable by which the end of a sweep finds processes.
    """

    @contextmanager
    def one_with(self, environment: Mapping[str, str]) -> Iterator[ForkServer]:
        """Yield a server with that environment; it is free again however its trial has ended."""
        kept = {k: v for k, v in environment.items() if k not in _OF_ONE_TEST}
        idle = self._idle.setdefault(frozenset(kept.items()), [])
        if not idle:
            idle.append(ForkServer(kept))
            self._all.append(idle[-1])
        server = idle.pop()
        try:
            yield server
        finally:
            idle.append(server)

    def close(self) -> None:
        """Leave them to the next sweep."""
