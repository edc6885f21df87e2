"""How a stretch of time is said to a person, and by one."""

from __future__ import annotations

import re

from suite.spec import SpecError

_SAID = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([smh]?)")
_SECONDS_OF = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def in_words(seconds: float | None) -> str:
    """As ``4 min 20 s``; None is not known."""
    if seconds is None:
        return "unknown time"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def seconds_in(said: str, option: str) -> float:
    """What a person means by ``90``, ``90s``, ``1.5m`` or ``2h``.

    Args:
        said: As it was typed.
        option: Which one it was given for, for the sentence.

    Raises:
        SpecError: for anything else, and for no time at all.
    """
    found = _SAID.fullmatch(said.strip())
    seconds = float(found[1]) * _SECONDS_OF[found[2]] if found else 0.0
    if not seconds:
        raise SpecError(f"{option} {said!r}: give seconds above 0, or minutes or hours as 30m, 2h.")
    return seconds
