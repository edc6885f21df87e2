"""Where do trials run? In this process, on an embedded Ray, or on a running cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from suite.executor import Executes, Unavailable
from suite.inline import InlineExecutor

Executor = Literal["ray", "inline"]


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
