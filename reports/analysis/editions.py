"""Describe the editions of an ablation: when they were planned, and how they differ."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable

from bakeoff.suite.schema import About, Edition

_LONGEST = 80  # characters shown of a value
_ABSENT = "absent"
_OF_THE_TABLE = frozenset({"baseline", "variants", "tasks", "probes"})
_SAME_SETTINGS = "the same settings and other definitions, data or code"


def date(edition: Edition) -> str:
    """Return the time at which an edition was first planned, as ``2026-11-22 21:05 UTC``."""
    if not edition.started_seconds:
        return "at an unknown time"
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(edition.started_seconds))


def in_words(edition: Edition, about: About) -> str:
    """Return an edition's values that differ from the shown edition, as ``steps=100, seeds=3``."""
    return own_values(edition, [each for each in about.editions if each.is_shown])


def own_values(edition: Edition, others: Iterable[Edition]) -> str:
    """Return an edition's values that differ from those of any other edition, as text."""
    theirs = [other.settings for other in others]
    differs = {
        name: edition.settings.get(name, _ABSENT)
        for name in dict.fromkeys(name for each in (edition.settings, *theirs) for name in each)
        if any(each.get(name) != edition.settings.get(name) for each in theirs)
    }
    telling = {name: value for name, value in differs.items() if name not in _OF_THE_TABLE}
    parts = (f"{name}={_short(value)}" for name, value in (telling or differs).items())
    return ", ".join(parts) or _SAME_SETTINGS


def _short(value: object) -> str:
    return textwrap.shorten(str(value), _LONGEST, placeholder="...")
