"""Of which variants does a page show what their models do? Of the baseline, and of a few others."""

from __future__ import annotations

from collections.abc import Container

from suite.schema import About

MAX_SHOWN = 4


def shown_variants(about: About, having: Container[str], most: int = MAX_SHOWN) -> list[str]:
    """The baseline first, where it has something, then others that do, evenly spaced.

    Args:
        about: Gives order and baseline.
        having: The variants that have something to show.
        most: At least three.
    """
    first = [about.baseline] if about.baseline in having else []
    others = [v for v in about.variants if v in having and v != about.baseline]
    free = most - len(first)
    if len(others) > free:
        others = [others[round(i * (len(others) - 1) / (free - 1))] for i in range(free)]
    return [*first, *others]
