"""Say from which length each mixer is faster than the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bakeoff.reports.analysis.crossover import Crossover, CrossoverKind, crossover
from bakeoff.reports.document import listed, readable
from bakeoff.reports.results.length_sweep import Growth
from bakeoff.reports.results.spoken_names import baseline_in_words, spoken_name
from bakeoff.suite.schema import About

_PASSES = {
    "forward_seconds": "the forward pass",
    "forward_backward_seconds": "forward and backward",
}
_OPEN = (CrossoverKind.UNDECIDED, CrossoverKind.NOISY)
_WORDS = {CrossoverKind.ALWAYS: "at every length", CrossoverKind.NEVER: "never"}


def crossings_in_words(about: About, growth: Growth) -> str:
    """Return a sentence on all variants, or an empty string if none was compared.

    Args:
        about: The sweep, which identifies the baseline.
        growth: The times by length.
    """
    found = _crossovers(about, growth)
    first, last = _range(found)
    if not last:
        return ""
    return (
        f"Faster than {baseline_in_words(about)} in {_pass(growth)}, measured from {first:,} to "
        f"{last:,} tokens: {'; '.join(_by_answer(about, found))}."
    )


def crossing_in_words(about: About, growth: Growth, variant: str) -> str:
    """Return a clause on one variant: ``in the forward pass, LSTM is faster at every length``."""
    found, name = _crossovers(about, growth), spoken_name(about, variant)
    one = found[variant]
    if one.place is not None:
        said = f"{name} is faster {_from_place(one)}"
    elif one.kind is CrossoverKind.ALWAYS:
        said = f"{name} is faster at every length{_until(one, _range(found))}"
    elif one.kind is CrossoverKind.NEVER:
        said = f"{name} is never faster{_until(one, _range(found))}"
    else:
        said = f"undecided for {name}"
    return f"in {_pass(growth)}, {said}"


def _pass(growth: Growth) -> str:
    return _PASSES.get(growth.metric, readable(growth.metric))


def _crossovers(about: About, growth: Growth) -> dict[str, Crossover]:
    others = [variant for variant in growth.variants if variant != about.baseline]
    return {variant: crossover(growth, variant, about.baseline) for variant in others}


def _range(found: Mapping[str, Crossover]) -> tuple[int, int]:
    """Return the first and the last place at which some variant was compared; zeros if none was."""
    known = [one.compared for one in found.values() if one.compared]
    return min((a for a, _ in known), default=0), max((b for _, b in known), default=0)


def _by_answer(about: About, found: Mapping[str, Crossover]) -> Iterator[str]:
    """Yield the variants that are faster from some length, at every length, never, or undecided."""
    names = {variant: spoken_name(about, variant) for variant in found}
    crossed = {v: one.place.point or 0.0 for v, one in found.items() if one.place is not None}
    for variant in sorted(crossed, key=lambda v: crossed[v]):
        yield f"{names[variant]} {_from_place(found[variant])}"
    for kind, words in _WORDS.items():
        together: dict[str, list[str]] = {}
        for variant, one in found.items():
            if one.kind is kind:
                together.setdefault(_until(one, _range(found)), []).append(names[variant])
        yield from (f"{listed(some)} {words}{until}" for until, some in together.items())
    if unsure := [names[variant] for variant, one in found.items() if one.kind in _OPEN]:
        yield f"undecided for {listed(unsure)}"


def _from_place(one: Crossover) -> str:
    """Return from which length a variant is faster: ``from 305 tokens on (294 to 318)``."""
    place = one.text.removeprefix("faster only below ")
    number, _, interval = place.partition(" [")
    ends = f" ({interval.partition(']')[0].replace(', ', ' to ')})" if interval else ""
    several = f", the last of {one.num_changes} changes" if one.num_changes > 1 else ""
    if one.kind is CrossoverKind.FASTER_FROM:
        return f"from {number} tokens on{ends}{several}"
    return f"{'below' if several else 'only below'} {number} tokens{ends}{several}"


def _until(one: Crossover, whole: tuple[int, int]) -> str:
    """Return the lengths of an answer that holds at all of them; empty if these are all."""
    unsure = listed([f"{place:,}" for place in one.unsure])
    doubt = f", not significantly at {unsure}" if unsure else ""
    if one.compared in (None, whole):
        return doubt
    first, last = one.compared
    return f" from {first:,} to {last:,}, the last that both have{doubt}"
