"""Where do trials run? In this process, on an embedded Ray, or on a running cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

from suite.events import ExecutorSettings, TrialExecutor, Unavailable
from suite.execution.inline import InlineExecutor
from suite.execution.process_cleanup import process_cleanup
from suite.schema import Plan

Executor = Literal["ray", "inline"]


def executing(
    executor: Executor, address: str | None, settings: ExecutorSettings, plans: Sequence[Plan] = ()
) -> AbstractContextManager[TrialExecutor]:
    """An executor for the length of the block.

    Raises:
        BadAddress, RefusedAddress: see `suite.cluster.address.check_address`.
        Unavailable: where there is no such executor, or no cluster at the address.
    """
    if executor == "inline":
        return _inline(settings)
    from suite.cluster.address import authenticate, check_address

    if address is not None:
        check_address(address)
    authenticate(address)
    try:
        from suite.cluster.connect import joined, started
    except ImportError as error:
        raise Unavailable(
            f"Ray is not installed ({error}); `--executor inline` runs without it."
        ) from error
    return started(settings) if address is None else joined(address, settings, plans)


@contextmanager
def _inline(settings: ExecutorSettings) -> Iterator[InlineExecutor]:
    with process_cleanup():
        yield InlineExecutor(settings)
