"""Where do trials run? In this process, on an embedded Ray, or on a running cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

from suite.events import Event
from suite.inline import InlineExecutor
from suite.schema import Resources, Trial

Executor = Literal["ray", "inline"]
Work = Sequence[tuple[Trial, Resources]]


class Unavailable(RuntimeError):
    """Ray is not installed, no cluster answers, or it can never run the trials: one sentence."""


class Executes(Protocol):
    """What the driver asks of an executor."""

    def execute(self, work: Work) -> Iterator[Event]:
        """Run all of it, packed; events in the order in which they happen."""

    def execute_alone(self, work: Work) -> Iterator[Event]:
        """Run one at a time, with nothing beside it."""


def executing(
    executor: Executor, address: str | None, source_paths: Sequence[str]
) -> AbstractContextManager[Executes]:
    """An executor for the length of the block.

    Raises:
        BadAddress, RefusedAddress: see `suite.cluster.address.check_address`.
        Unavailable: where there is no such executor, or no cluster at the address.
    """
    if executor == "inline":
        return nullcontext(InlineExecutor(source_paths))
    from suite.cluster.address import authenticate, check_address

    if address is not None:
        check_address(address)
    authenticate(address)
    try:
        from suite.cluster.execute import connected
    except ImportError as error:
        raise Unavailable(
            f"Ray is not installed ({error}); `--executor inline` runs without it."
        ) from error
    return connected(address, tuple(source_paths))
