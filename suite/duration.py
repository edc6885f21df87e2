"""How a stretch of time is said to a person."""

from __future__ import annotations


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
