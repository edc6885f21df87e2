"""Where do trials run? In this process, on an embedded Ray, or on a running cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

from suite.executor import Executes, Luggage, Unavailable
from suite.inline import InlineExecutor
from suite.leftovers import ended_with_the_block
from suite.schema import Plan

Executor = Literal["ray", "inline"]


def executing(
    executor: Executor, address: str | None, luggage: Luggage, plans: Sequence[Plan] = ()
) -> AbstractContextManager[Executes]:
    """An executor for the length of the block.

    Raises:
        BadAddress, RefusedAddress: see `suite.cluster.address.check_address`.
        Unavailable: where there is no such executor, or no cluster at the address.
    """
    if executor == "inline":
        return _inline(luggage)
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
    return started(luggage) if address is None else joined(address, luggage, plans)


@contextmanager
def _inline(luggage: Luggage) -> Iterator[InlineExecutor]:
    with ended_with_the_block():
        yield InlineExecutor(luggage.source_paths, luggage.checkpoints, luggage.trial_seconds)
