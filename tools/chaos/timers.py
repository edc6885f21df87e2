"""Timers around the functions that safety consists of, installed from outside."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

from tools.chaos.faults import located

# Journal, fsync and checkpoints; what calls another of them is timed once.
SAFETY = (
    "suite.journal.journal:Journal.keep_plan",
    "suite.journal.journal:Journal.begin",
    "suite.journal.journal:Journal.commit",
    "suite.training.checkpoint:Checkpointer.latest",
    "suite.training.resume:_write_own",
    "suite.training.engines.local:LocalEngine.save",
    "suite.training.checkpoint:Checkpointer.publish",
    "suite.training.engines.local:LocalEngine.state_sha256",
    "os:fsync",
)
_inside = threading.local()


def time_into(seconds: MutableSequence[float], targets: Sequence[str] = SAFETY) -> None:
    """Have this process add up in `seconds`, a place for each target, how long each takes.

    Time inside a target that another one has called stands with the outer one.
    """
    for index, target in enumerate(targets):
        owner, name = located(target)
        setattr(owner, name, _timed(index, seconds, getattr(owner, name)))


def _timed(
    index: int, seconds: MutableSequence[float], original: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if getattr(_inside, "is_timed", False):
            return original(*args, **kwargs)
        _inside.is_timed, start = True, time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            seconds[index] += time.perf_counter() - start
            _inside.is_timed = False

    return call
