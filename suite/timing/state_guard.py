"""Keep a variant that is timed from changing the state under which the others are timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bakeoff.models import ModelSpec
from bakeoff.suite.events import Condition, TrialRemark
from bakeoff.suite.timing.global_state import GlobalState
from bakeoff.suite.timing.passes import Pass

_SECONDS_UNTIL_THREADS_SLEEP = 0.05  # threads that a variant has started wait actively at first


class StateGuard:
    """A guard that restores what the code of a variant changes in its process, and records it.

    The whole state is compared when a variant is built and after its first pass, which takes
    milliseconds. After later passes only torch's settings are compared, which takes microseconds,
    unless the variant has changed something before.
    """

    def __init__(self) -> None:
        """Save the current state."""
        self._changes: dict[str, str] = {}
        self.begin()

    def begin(self) -> None:
        """Save the current state as the one to restore from now on."""
        self._before = GlobalState()
        self._has_run: set[str] = set()

    @contextmanager
    def around(self, spec: ModelSpec) -> Iterator[None]:
        """Run code of the variant in the block, and restore what it changes."""
        try:
            yield
        finally:
            self._restore(spec, self._before.changes())

    def guarded(self, operation: Pass, spec: ModelSpec) -> Pass:
        """Return the pass, extended to restore the state after each sample, untimed."""
        name = _name(spec)

        def clear() -> None:
            try:
                operation.clear()
            finally:
                is_cheap = name in self._has_run and name not in self._changes
                self._has_run.add(name)
                if not is_cheap or self._before.changed_settings():
                    self._restore(spec, self._before.changes())

        return replace(operation, clear=clear)

    def _restore(self, spec: ModelSpec, changes: str) -> None:
        if changes:
            self._changes.setdefault(_name(spec), changes)
            self._before.restore()
            time.sleep(_SECONDS_UNTIL_THREADS_SLEEP)

    def said(self) -> Iterator[TrialRemark | Condition]:
        """Yield a remark for each variant that changed the state, and one condition."""
        sentences = [
            f"{name} changes {changes} while it is timed; that was put back before each of the "
            "others was timed"
            for name, changes in self._changes.items()
        ]
        yield from map(TrialRemark, sentences)
        if sentences:
            yield Condition("changed while timed", "; ".join(sentences))


def _name(spec: ModelSpec) -> str:
    """Return the name of the class that may be the user's own."""
    return spec.architecture if ":" in spec.architecture else spec.mixer or spec.architecture
