"""Name variants for pages, and find the numeric axis along which they vary.

An ablation with one axis labels its baseline by that axis, as ``heads=8``. With several axes it has
no such label, so the baseline is described by its mixer and its value on each axis.

Variants that differ in one number only form a line, such as ``mixer=attention, dim=64`` and
``mixer=attention, dim=128``. If each variant has a number on one axis and other values besides,
there is one line per group of variants that differ in that number only. Variants without such a
number are left out.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from bakeoff.reports.document import readable
from bakeoff.reports.results.axis_values import (
    all_values_of,
    as_text,
    belongs,
    number,
    value_of_baseline,
    values_of,
)
from bakeoff.suite.schema import About
from bakeoff.suite.schema.old_labels import Value

AS_BASELINE = "as the baseline"
_Named = Mapping[str, Value]
_PLAIN = "baseline"  # label of a baseline that no axis names
MAX_SHOWN = 4
MAX_LETTERS = 30  # line width of names beside a figure


def shown_variants(about: About, having: Container[str], most: int = MAX_SHOWN) -> list[str]:
    """Return the baseline first, if it has something to show, then others, evenly spaced.

    Args:
        about: The description of the sweep, with the order of variants and the baseline.
        having: The variants that have something to show.
        most: The largest number of variants; at least three.
    """
    first = [about.baseline] if about.baseline in having else []
    others = [v for v in about.variants if v in having and v != about.baseline]
    free = most - len(first)
    if len(others) > free:
        others = [others[round(i * (len(others) - 1) / (free - 1))] for i in range(free)]
    return [*first, *others]


def what_baseline_is(about: About) -> str:
    """Return a baseline's mixer and its value on each other axis, as ``attention, kernel=fused``.

    A baseline without a mixer is named by its architecture. The text is empty if the label is
    already a description.
    """
    if about.baseline != _PLAIN:
        return ""
    known = {**about.settings, **about.model}
    facts = about.subjects.get(about.baseline)
    mixer = facts.mixer if facts else str(known.get("mixer", ""))
    whole = mixer or str(known.get("architecture") or "")
    said = "mixer" if mixer else "architecture"
    others = [name for name in about.axes if name != said and name in known]
    return ", ".join(
        [*filter(None, [whole]), *(f"{name}={value_of_baseline(about, name)}" for name in others)]
    )


@dataclass(frozen=True, kw_only=True)
class Group:
    """The variants that differ in one number only.

    Attributes:
        name: The values that they share, as ``mixer=attention``.
        variants: The number -> the variant that has it, ascending.
        note: Values that the name does not contain; empty if there are none.
    """

    name: str
    variants: Mapping[float, str]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class LabelAxis:
    """A numeric axis of the labels.

    Attributes:
        name: The name in the labels, as ``dim``.
        others: The names that distinguish the groups, as ``mixer``.
        groups: The groups of variants along the axis.
    """

    name: str
    others: tuple[str, ...]
    groups: tuple[Group, ...]


def label_axis(about: About, task: str) -> LabelAxis | None:
    """Return the numeric axis along which a task's variants vary, or None if there is none.

    If there are several, it is the one with most values. If every label names a single axis, there
    is none: a list of single changes has no lines.
    """
    known = _known(about, task)
    if not any(len(named) > 1 for named in known.values()):
        return None
    name = _running(list(known.values()))
    if name is None:
        return None
    others = tuple(dict.fromkeys(n for named in known.values() for n in named if n != name))
    return LabelAxis(name=name, others=others, groups=_groups(about, known, name, others))


def _known(about: About, task: str) -> dict[str, _Named]:
    """Return variant -> its values except the task, for labels with values and the baseline."""
    met = [variant for variant in about.variants if belongs(about, variant, task)]
    named: dict[str, _Named] = {
        v: {name: value for name, value in values_of(about, v).items() if name != "task"}
        for v in met
    }
    found = {variant: names for variant, names in named.items() if names}
    if about.baseline in met and about.baseline not in found:
        names = set.intersection(*(set(some) for some in found.values())) if found else set()
        ordered = [n for some in list(found.values())[:1] for n in some if n in names]
        own = all_values_of(about, about.baseline)
        said = {name: own.get(name, "") for name in ordered}
        if said and "" not in said.values() and said not in found.values():
            found[about.baseline] = said
    return found


def _running(known: Sequence[_Named]) -> str | None:
    """Return the shared axis with most numbers, at least two; the last one in a tie."""
    shared = [name for name in known[0] if all(name in named for named in known)]
    sizes = {n: len({number(named[n]) for named in known} - {None}) for n in shared}
    best = max(sizes.values(), default=0)
    return [name for name, size in sizes.items() if size == best][-1] if best > 1 else None


def _groups(
    about: About, known: Mapping[str, _Named], name: str, others: Sequence[str]
) -> tuple[Group, ...]:
    found: dict[str, dict[float, str]] = {}
    for variant, named in known.items():
        place = number(named[name])
        if place is not None:
            rest = ", ".join(f"{n}={as_text(value)}" for n, value in named.items() if n != name)
            found.setdefault(rest, {}).setdefault(place, variant)
    return tuple(
        Group(
            name=rest or AS_BASELINE,
            variants=dict(sorted(variants.items())),
            note="" if rest else _plain(about, others),
        )
        for rest, variants in found.items()
    )


def _plain(about: About, others: Sequence[str]) -> str:
    """Return the baseline's values on other axes, for the group whose labels do not name them."""
    said = {name: value_of_baseline(about, name) for name in others}
    known = ", ".join(f"{readable(name)} {value}" for name, value in said.items() if value)
    return known or what_baseline_is(about)
