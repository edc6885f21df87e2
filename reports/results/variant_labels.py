"""Variants as pages name them, and the few of which a page shows samples.

An ablation with one axis calls its baseline by that axis, as ``heads=8``. With several there is no
such name: then the baseline is described by its mixer and its value on each axis.
"""

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


_PLAIN = "baseline"  # the label that planning gives where no axis names the baseline


def what_baseline_is(about: About) -> str:
    """As ``attention, kernel=fused``: its mixer, and its value on each other axis.

    Empty where the label says it.
    """
    if about.baseline != _PLAIN:
        return ""
    known = {**about.settings, **about.model}
    facts = about.subjects.get(about.baseline)
    mixer = facts.mixer if facts else str(known.get("mixer", ""))
    others = [name for name in _axes(about) if name != "mixer" and name in known]
    return ", ".join([*filter(None, [mixer]), *(f"{name}={known[name]}" for name in others)])


def shown_name(about: About, variant: str) -> str:
    """A variant as a figure or a sentence names it: the baseline says that and what it is."""
    if variant != about.baseline:
        return variant
    return f"{variant} ({what_baseline_is(about) or 'baseline'})"


def _axes(about: About) -> list[str]:
    """The names before the equals signs of all labels, each once."""
    parts = (part for label in about.variants for part in label.split(", "))
    return list(dict.fromkeys(part.partition("=")[0] for part in parts if "=" in part))
