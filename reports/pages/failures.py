"""The section of failed, skipped and missing trials; equal reasons are shown once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reports.results.series import Reading, Series, belongs, floors_of, num_expected
from suite.schema import FLOORS, About, Status

MAX_TROUBLES = 200  # that a page tells
_FATES = {
    "noisy": "a time whose stopping criterion was not met; it is shown, and marked",
    "skipped": "cannot be, for the reason given",
    "diverged": "its training loss became infinite or no number",
    "not a number": "it ended with a result that is none",
    "out of memory": "it needed more memory than there was",
    "timeout": "it took longer than it was allowed",
    "crashed": "its process died",
    "error": "it stopped with an error",
    "missing": "planned, and not yet measured",
}
NOISE = "a stopping criterion was not met; results.csv has each, with its figures"
_MAX_NAMES = 12
_MAX_REASON = 600  # characters of a reason


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """One story: what became of some seeds of some variants."""

    task: str
    variants: tuple[str, ...]
    probe: str
    fate: str
    seeds: tuple[int, ...]
    reason: str

    @property
    def who(self) -> str:
        """The variants, or the first of many."""
        rest = len(self.variants) - _MAX_NAMES
        names = ", ".join(self.variants[:_MAX_NAMES])
        return f"{names} and {rest:,} more" if rest > 0 else names


def troubles(about: About, measured: Sequence[Series]) -> tuple[Trouble, ...]:
    """Every story of a sweep, in the order of its tasks and probes."""
    variants_of: dict[Trouble, list[str]] = {}
    noisy_seeds: dict[Trouble, set[int]] = {}
    for series in measured:
        for variant, story in _of_series(about, series):
            key = replace(story, seeds=()) if story.reason == NOISE else story
            noisy_seeds.setdefault(key, set(story.seeds)).update(story.seeds)
            variants_of.setdefault(key, []).append(variant)
    return tuple(
        replace(
            story,
            variants=tuple(dict.fromkeys(variants)),
            seeds=tuple(sorted(noisy_seeds[story])) if story.reason == NOISE else story.seeds,
        )
        for story, variants in variants_of.items()
    )


def _of_series(about: About, series: Series) -> Iterator[tuple[str, Trouble]]:
    """Variant or floor, and what went wrong with it."""
    for variant in about.variants:
        if belongs(variant, series.task):
            for story in _stories(series, variant, num_expected(series, about)):
                yield variant, story
    for floor in floors_of(about, series):
        for story in _stories(series, floor, 1):
            yield floor, replace(story, probe=FLOORS)


def _stories(series: Series, variant: str, expected: int) -> Iterator[Trouble]:
    """What went wrong with one variant, without its name."""
    readings = series.of(variant)
    seeds_of: dict[tuple[str, str], list[int]] = {}
    for reading in readings:
        if not reading.is_ok:
            seeds_of.setdefault((reading.fate, _reason(reading)), []).append(reading.seed)
    num_missing = expected - len(readings)
    if num_missing > 0:
        present = {reading.seed for reading in readings}
        absent = [seed for seed in range(num_missing + len(readings)) if seed not in present]
        seeds_of["missing", "not yet measured"] = absent[:num_missing]
    for (fate, reason), seeds in seeds_of.items():
        yield Trouble(
            task=series.task,
            variants=(),
            probe=series.probe,
            fate=fate,
            seeds=tuple(seeds),
            reason=reason,
        )


def _reason(reading: Reading) -> str:
    """As the row has it; noise by its rule, since each row of it has figures of its own."""
    if reading.status is Status.NOISY:
        return NOISE
    is_long = len(reading.reason) > _MAX_REASON
    return (
        f"{reading.reason[:_MAX_REASON]}… (results.csv has it whole)" if is_long else reading.reason
    )


def fates_in_words(fates: Iterable[str]) -> tuple[Mapping[str, str], ...]:
    """Each word of a list of mishaps with its meaning, once, as `word` and `meaning`."""
    return tuple(
        {"word": fate, "meaning": _FATES[fate]} for fate in dict.fromkeys(fates) if fate in _FATES
    )
