"""Runs many attempts in a few forked processes side by side."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import TypeAdapter

from tools.chaos.figures import Figures, total

FIGURES = TypeAdapter(Figures)
_NUM_LANES = 3  # one of them mostly waits for the disk
_Item = TypeVar("_Item")


def in_lanes(
    items: Sequence[_Item], prove_one: Callable[[_Item], Figures], num_lanes: int = _NUM_LANES
) -> Figures:
    """The figures of all items, added up; every lane takes every n-th of them."""
    lanes = [_started(items[lane::num_lanes], prove_one) for lane in range(num_lanes)]
    return total(_ended(pid, pipe) for pid, pipe in lanes)


def _started(items: Sequence[_Item], prove_one: Callable[[_Item], Figures]) -> tuple[int, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    _send(total(_proved(item, prove_one) for item in items), writing)
    os._exit(0)


def _proved(item: _Item, prove_one: Callable[[_Item], Figures]) -> Figures:
    """A fault of the harness is a trouble, and the other items go on."""
    try:
        return prove_one(item)
    except Exception as error:
        traceback.print_exc()
        return Figures(troubles=(f"{item}: the check itself failed: {error!r}",))


def _send(figures: Figures, pipe: int) -> None:
    with os.fdopen(pipe, "wb") as file:
        file.write(FIGURES.dump_json(figures))


def _ended(pid: int, pipe: int) -> Figures:
    with os.fdopen(pipe, "rb") as file:
        body = file.read()
    _, status = os.waitpid(pid, 0)
    if status:
        return Figures(troubles=(f"a lane of checks ended with status {status}",))
    return FIGURES.validate_json(body)
