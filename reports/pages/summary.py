"""Builds the summary at the top of a page, and the overview of all ablations and their claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reports.analysis.editions import date
from reports.analysis.verdict import Verdict, judged_together, verdict
from reports.document import listed
from reports.escape import one_line, slug
from reports.results.frame import Sweep
from reports.results.series import Coverage, Series, all_series
from reports.results.variant_labels import what_baseline_is
from reports.tables.comparison import whole_coverage, without_controls
from suite.schema import MIXER_ALONE, About

_SMOKE = "smoke"
_SCALES = {
    _SMOKE: "hardly trained: it shows that the ablation works, and answers nothing",
    "quick": "small enough for two CPU cores and some minutes",
    "standard": "for one GPU and some hours",
    "paper": "as in a paper, for a cluster",
}
_HASH_DIGITS = 12
_INDICATIVE = (
    "This scale is small enough for a laptop. It shows the direction of large "
    "effects; it is no evidence for a paper."
)
_NO_CLAIM = "This ablation makes no claim, so there is no verdict: read the intervals."
_ANSWERS_NOTHING = (
    "Models are hardly trained at this scale, so no claim is tested. It shows that the ablation "
    "works, and answers nothing."
)
_UNPROVEN = (
    "{mixer} has no reference, so nothing shows here that it computes what it says; it is measured "
    "all the same."
)
_ALONE = "There is no other to be judged with, so nothing is corrected."
_CHECKS = "A check holds by construction: it is judged alone, and no claim must be clearer for it."
_TOGETHER = (
    "They are judged together: of many claims one may come out by chance alone, so each of them "
    "must meet a stricter level (Holm's method), and the chance of any false verdict among them "
    "stays at 5 %. Judged alone, a claim has the verdict of its own page."
)


@dataclass(frozen=True, kw_only=True)
class OverviewEntry:
    """One ablation.

    Attributes:
        alone: The verdict on its claim; None where it makes none.
        together: The same, judged as one of all the claims shown.
        published: The published figure and where it stands.
        stated: Whether the claim was there before its results.
    """

    ablation: str
    link: str
    question: str
    scale: str
    measured: str
    alone: Verdict | None
    together: Verdict | None
    published: str
    stated: str


@dataclass(frozen=True, kw_only=True)
class Overview:
    """All ablations, in the order of their names."""

    entries: tuple[OverviewEntry, ...]

    @property
    def claims(self) -> tuple[OverviewEntry, ...]:
        """The ablations that make a claim."""
        return tuple(entry for entry in self.entries if entry.together is not None)

    @property
    def without_claim(self) -> tuple[OverviewEntry, ...]:
        """The ablations that make none."""
        return tuple(entry for entry in self.entries if entry.together is None)

    @property
    def judged(self) -> str:
        """How the claims came out, and by which rule."""
        words = Counter(str(entry.together.outcome) for entry in self.claims if entry.together)
        tally = ", ".join(f"{number} {word}" for word, number in words.items())
        num = len(self.claims)
        are_several = any(entry.together and entry.together.num_claims > 1 for entry in self.claims)
        has_checks = any(entry.together and entry.together.is_check for entry in self.claims)
        rules = [_TOGETHER if are_several else _ALONE, *([_CHECKS] if has_checks else [])]
        return f"{num} claim{'' if num == 1 else 's'}: {tally}. {' '.join(rules)}"


def overview(shown: Mapping[str, Sweep]) -> Overview:
    """The overview over the sweep that each ablation's page shows."""
    cases = {
        name: (sweep.about, without_controls(all_series(sweep.about, sweep.results)))
        for name, sweep in sorted(shown.items())
    }
    claimed = {name: case for name, case in cases.items() if case[0].claim is not None}
    together = judged_together(claimed) if claimed else {}
    return Overview(
        entries=tuple(
            _entry(about, measured, together.get(name), shown[name].num_trials)
            for name, (about, measured) in cases.items()
        )
    )


def _entry(
    about: About, measured: Sequence[Series], together: Verdict | None, num_trials: int
) -> OverviewEntry:
    alone = verdict(about, measured) if about.claim else None
    return OverviewEntry(
        ablation=about.ablation,
        link=f"{slug(about.ablation)}/index.html",
        question=about.question,
        scale=scale_in_words(about.scale),
        measured=coverage_in_words(whole_coverage(about, measured), num_trials),
        alone=alone,
        together=together,
        published=published_in_words(about),
        stated=stated_in_words(about, alone),
    )


@dataclass(frozen=True, kw_only=True)
class SummaryPoint:
    """One thing to know.

    Attributes:
        title: As ``How sure``.
        is_code: Whether the text is a command.
    """

    title: str
    text: str
    is_code: bool = False


def summary_points(
    about: About, judged: Verdict | None, coverage: Coverage, num_trials: int
) -> Iterator[SummaryPoint]:
    """The points of a page, in the order in which a reader asks."""
    yield SummaryPoint(title="Compared", text=_compared(about))
    if len(about.editions_with_results) > 1:
        yield SummaryPoint(title="Edition", text=_edition(about))
    if judged is not None:
        yield SummaryPoint(
            title="How sure", text=" ".join((judged.outcome.meaning, *judged.details))
        )
    if about.is_indicative and about.scale != _SMOKE:
        yield SummaryPoint(title="Indicative", text=_INDICATIVE)
    published = published_in_words(about)
    if published:
        yield SummaryPoint(title="Published", text=published)
    stated = stated_in_words(about, judged)
    if stated:
        yield SummaryPoint(title="Stated", text=stated)
    yield SummaryPoint(title="Measured", text=coverage_in_words(coverage, num_trials))
    for mixer in sorted({of.mixer for of in about.subjects.values() if not of.is_proven}):
        yield SummaryPoint(title="Unproven", text=_UNPROVEN.format(mixer=mixer))
    yield SummaryPoint(title="Repeat it", text=about.regenerate, is_code=True)


def published_in_words(about: About) -> str:
    """The published figure and where it stands; empty where there is no claim, or no source."""
    claim = about.claim
    if claim is None or not (claim.published or claim.source):
        return ""
    if not claim.published:
        return f"The claim is from {_sentence(claim.source)}"
    return _sentence(f"{claim.published} ({claim.source})" if claim.source else claim.published)


def stated_in_words(about: About, judged: Verdict | None) -> str:
    """Whether the claim was there before its results; empty where there is no claim."""
    if about.claim is None or judged is None:
        return ""
    if judged.is_exploratory:
        return judged.remark
    made = about.registration
    if made is None:
        return "Nothing is known of when this claim was stated: it may have been after its results."
    changes = "; ".join(made.changes)
    changed = f" It was restated before any of them: {changes}." if changes else ""
    return (
        "The claim, its seeds and settings were fixed before its results "
        f"(SHA-256 {made.sha256[:_HASH_DIGITS]}).{changed}"
    )


def coverage_in_words(coverage: Coverage, num_trials: int) -> str:
    """How much of what was planned is there: trials are one thing, measurements another."""
    if not coverage.num_total:
        return "Nothing was planned."
    part = "" if coverage.num_measured == coverage.num_total else f"{coverage.num_measured:,} of "
    lost = ", ".join(f"{number:,} {fate}" for fate, number in coverage.lost.items())
    return (
        f"{_count(num_trials, 'trial')} ran and gave {part or 'all '}"
        f"{_count(coverage.num_total, 'planned measurement')}{f'; {lost}' if lost else ''}. "
        f"A trial may give several: one of times measures all variants.{_noise_in_words(coverage)}"
    )


def _noise_in_words(coverage: Coverage) -> str:
    """Of how many timings; empty where all settled."""
    if not coverage.num_noisy_timings:
        return ""
    of = f"{coverage.num_noisy_timings:,} of {_count(coverage.num_timings, 'timing')}"
    verb = "is" if coverage.num_noisy_timings == 1 else "are"
    return f" {of} {verb} noisy: the samples did not settle."


def why_no_verdict(about: About) -> str:
    """What stands in place of a verdict."""
    return _ANSWERS_NOTHING if about.scale == _SMOKE else _NO_CLAIM


def scale_in_words(scale: str) -> str:
    """A scale and what it takes."""
    return f"{scale} ({_SCALES[scale]})" if scale in _SCALES else scale


def _compared(about: About) -> str:
    tasks = [task.replace("_", " ") for task in about.tasks if task != MIXER_ALONE]
    baseline = what_baseline_is(about) or about.baseline
    tasks += ["mixers alone"] if MIXER_ALONE in about.tasks else []
    return (
        f"{_count(len(about.variants), 'variant')} on {listed(tasks) or 'no task'}, with "
        f"{_count(about.num_seeds, 'seed')} each (repetitions that differ by chance alone; of "
        "times, processes), at "
        f"scale {scale_in_words(about.scale)}. The baseline is {baseline}."
    )


def _edition(about: About) -> str:
    shown = next((each for each in about.editions if each.is_shown), None)
    began = f", first planned {date(shown)}" if shown else ""
    num_tried = len(about.editions_with_results)
    return f"{about.edition}{began}; {num_tried} editions of this ablation have results."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _sentence(text: str) -> str:
    shown = one_line(text)
    return shown if shown.endswith((".", "?", "!")) else f"{shown}."
