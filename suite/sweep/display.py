"""Define how a sweep shows its progress; `suite.commands.progress` has the displays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console

from suite.events import Event
from suite.schema import Plan
from suite.sweep.pending import Pending


class Display:
    """Shows events, within a `with` block; this one shows nothing."""

    def __init__(self, *arguments: object) -> None:
        """Takes the arguments of `DisplayFor`."""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def show(self, event: Event) -> None:
        """Take an event and show what it changes."""


DisplayFor = Callable[[Sequence[Plan], Pending, Console], Display]
