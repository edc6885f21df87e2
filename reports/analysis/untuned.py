"""Say when variants share a learning rate that was tuned for none of them."""

from __future__ import annotations

from bakeoff.suite.schema import QUALITY, About

RATE = "learning_rate"


def untuned_in_words(about: About) -> str:
    """Return a sentence if all variants are trained at one stated rate; else an empty text."""
    rate = about.settings.get(RATE)
    is_one = isinstance(rate, int | float) and RATE not in about.axes
    if not is_one or QUALITY not in about.probes or len(about.variants) < 2:
        return ""
    return (
        f"All variants share one learning rate, {rate:g}, which was not tuned for each of them; "
        'learning_rate="tuned" does that.'
    )
