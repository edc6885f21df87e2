"""Group failed, skipped and missing trials, so that equal reasons are shown once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.reading import Reading
from bakeoff.reports.results.series import Series, floors_of, never_searched, num_expected
from bakeoff.reports.results.spoken_names import shown_names
from bakeoff.suite.schema import FLOORS, About, Status

MAX_FAILURES = 200  # shown on a page
_FATES = {
    "noisy": "the stopping criterion of a timing was not met; the time is shown and marked",
    "skipped": "it cannot be measured, for the reason given",
    "diverged": "its training loss became infinite or NaN",
    "not a number": "it ended without a valid result",
    "out of memory": "it needed more memory than was available",
    "timeout": "it exceeded its time limit",
    "crashed": "its process died (bakeoff logs TRIAL prints its output)",
    "error": "it stopped with an error (bakeoff logs TRIAL prints its traceback and output; "
    "results.csv has each trial_id)",
    "missing": "it is planned but not yet measured",
}
NOISE = "a stopping criterion was not met; results.csv lists each with its values"
_MAX_NAMES = 12
_MAX_REASON = 600  # characters of a reason that are shown


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """Seeds of some variants that share a fate and its reason.

    Attributes:
        probe: The name of the probe; several names if all were skipped for one reason.
    """

    task: str
    variants: tuple[str, ...]
    probe: str
    fate: str
    seeds: tuple[int, ...]
    reason: str

    @property
    def who(self) -> str:
        """The names of the variants, or of the first if there are many."""
        rest = len(self.variants) - _MAX_NAMES
        shown = self.variants[:_MAX_NAMES]
        names = ("; " if any("," in name for name in shown) else ", ").join(shown)
        return f"{names} and {rest:,} more" if rest > 0 else names


def failure_groups(about: About, measured: Sequence[Series]) -> tuple[FailureGroup, ...]:
    """Return every group of a sweep, in the order of its tasks and probes."""
    variants_of: dict[FailureGroup, list[str]] = {}
    seeds_of: dict[FailureGroup, set[int]] = {}
    unsearched, names = never_searched(measured), shown_names(about)
    for series in measured:
        for variant, group in _of_series(about, series):
            if (series.task, group.probe, variant) in unsearched:
                continue
            key = replace(group, seeds=()) if group.reason == NOISE else group
            seeds_of.setdefault(key, set()).update(group.seeds)
            variants_of.setdefault(key, []).append(names.get(variant, variant))
    found = (
        replace(
            group, variants=tuple(dict.fromkeys(variants)), seeds=tuple(sorted(seeds_of[group]))
        )
        for group, variants in variants_of.items()
    )
    return tuple(_of_all_probes(found))


def _of_all_probes(groups: Iterable[FailureGroup]) -> Iterator[FailureGroup]:
    """Merge groups that were skipped on a task for one reason over probes; keep the others."""
    together: dict[FailureGroup, list[FailureGroup]] = {}
    for group in groups:
        is_skipped = group.fate == Status.SKIPPED
        key = replace(group, probe="", seeds=()) if is_skipped else group
        together.setdefault(key, []).append(group)
    for some in together.values():
        probes = dict.fromkeys(group.probe for group in some)
        seeds = {seed for group in some for seed in group.seeds}
        yield replace(some[0], probe=", ".join(probes), seeds=tuple(sorted(seeds)))


def _of_series(about: About, series: Series) -> Iterator[tuple[str, FailureGroup]]:
    """Yield each variant or floor that failed, with the group of its failure."""
    expected = num_expected(series, about)
    shown = [(v, series.probe, expected) for v in about.variants if belongs(about, v, series.task)]
    shown += [(floor, FLOORS, 1) for floor in floors_of(about, series)]
    for variant, probe, num in shown:
        for (fate, reason), seeds in _failed_seeds(series.of(variant), num).items():
            group = FailureGroup(
                task=series.task,
                variants=(),
                probe=probe,
                fate=fate,
                seeds=tuple(seeds),
                reason=reason,
            )
            yield variant, group


def _failed_seeds(readings: Sequence[Reading], expected: int) -> dict[tuple[str, str], list[int]]:
    """Return (fate, reason) -> the seeds that share them."""
    seeds_of: dict[tuple[str, str], list[int]] = {}
    for reading in readings:
        if not reading.is_ok:
            seeds_of.setdefault((reading.fate, _reason(reading)), []).append(reading.seed)
    num_missing = expected - len(readings)
    if num_missing > 0:
        present = {reading.seed for reading in readings}
        absent = [seed for seed in range(num_missing + len(readings)) if seed not in present]
        seeds_of["missing", "not yet measured"] = absent[:num_missing]
    return seeds_of


def _reason(reading: Reading) -> str:
    """Return the reason as recorded; noise has a common text, since its figures differ by row."""
    if reading.status is Status.NOISY:
        return NOISE
    if len(reading.reason) <= _MAX_REASON:
        return reading.reason
    return f"{reading.reason[:_MAX_REASON]}… (the full reason is in results.csv)"


def fates_in_words(fates: Iterable[str]) -> tuple[Mapping[str, str], ...]:
    """Return each fate once with its meaning, under the keys `word` and `meaning`."""
    return tuple(
        {"word": fate, "meaning": _FATES[fate]} for fate in dict.fromkeys(fates) if fate in _FATES
    )
