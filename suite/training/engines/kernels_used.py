"""Find which kernels compute attention and matrix states, for the conditions of a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bakeoff.models.kernels.state_kernels import state_kernels_used
from bakeoff.suite.events import Condition
from bakeoff.suite.training.engines.attention_choice import AttentionChoice


@contextmanager
def kernels_used() -> Iterator[list[Condition]]:
    """Collect the conditions to record in a result; the list is complete after the block."""
    found: list[Condition] = []
    with AttentionChoice() as attention, state_kernels_used() as states:
        yield found
    said = {"attention kernel": attention.said, "state kernel": "; ".join(sorted(states))}
    found += [Condition(name, text) for name, text in said.items() if text]
