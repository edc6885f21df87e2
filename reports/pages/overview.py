"""Build the overview: a table a theme, with the answer of every ablation and its page's verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bakeoff.reports.analysis.editions import date
from bakeoff.reports.analysis.verdict import ClaimOutcome, Verdict, with_q_values
from bakeoff.reports.document import listed
from bakeoff.reports.escape import slug
from bakeoff.reports.pages.answer import answer_in_words
from bakeoff.reports.pages.ranking import best_in_words
from bakeoff.reports.pages.summary import (
    coverage_in_words,
    published_in_words,
    scale_in_words,
    stated_in_words,
    why_no_verdict,
)
from bakeoff.reports.stats.intervals import rounded
from bakeoff.reports.tables.comparison import primary, whole_coverage
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import Edition

_CHECKS = "A check holds by construction and is not counted among the claims that are tested."
_EACH = (
    "Each claim is judged by itself at 5 %, as on its own page, whatever other ablations exist. "
    "Among many claims some seem supported by chance: the q-value of a claim is the least "
    "expected share of false findings among all claims with a p as small or smaller (Benjamini "
    "and Hochberg)."
)
_BARS = (
    "An effect is drawn to a scale of its own: the bar is its interval, the thin line is zero and "
    "the dashed one the claimed size. Tables sort effects by their size relative to half of the "
    "interval."
)
_OTHERS = "others"
_BEYOND = 0.2  # share of the width of an effect's scale
_DAY = 10  # letters of a date


@dataclass(frozen=True, kw_only=True)
class EffectBar:
    """An effect as it is drawn: places from 0 to 100, on a scale of its own.

    Attributes:
        low: Lower end of the interval.
        point: The effect.
        high: Upper end of the interval.
        zero: No difference.
        claimed: The claimed size, or None if it is zero.
        strength: The effect over half of its interval, by which a table sorts.
    """

    low: float
    point: float
    high: float
    zero: float
    claimed: float | None
    strength: float


@dataclass(frozen=True, kw_only=True)
class OverviewEntry:
    """The summary of one ablation.

    Attributes:
        answer: The answer to its question in a sentence.
        hardware: The devices on which it ran.
        date: The day on which it was first planned, as ``2026-11-22``; empty if it is unknown.
        measured: A sentence on how many planned measurements there are.
        is_whole: Whether all planned measurements are there.
        verdict: The verdict on its claim, with its q-value, or None without a claim.
        published: The published figure and its source.
        stated: A sentence on whether the claim was registered before its results.
        bar: The effect as it is drawn, or None without an interval.
    """

    ablation: str
    link: str
    question: str
    answer: str
    scale: str
    hardware: str
    date: str
    measured: str
    is_whole: bool
    verdict: Verdict | None
    published: str
    stated: str
    bar: EffectBar | None


@dataclass(frozen=True, kw_only=True)
class Theme:
    """The ablations of one theme; the name is empty if there are no themes."""

    name: str
    entries: tuple[OverviewEntry, ...]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """All ablations by theme."""

    themes: tuple[Theme, ...]

    @property
    def entries(self) -> tuple[OverviewEntry, ...]:
        """The ablations in the order of the page."""
        return tuple(entry for theme in self.themes for entry in theme.entries)

    @property
    def claims(self) -> tuple[Verdict, ...]:
        """The verdicts of the ablations that make a claim."""
        return tuple(entry.verdict for entry in self.entries if entry.verdict)

    @property
    def tally(self) -> str:
        """Text such as ``3 claims: 2 supported, 1 not tested.``, or empty."""
        words = Counter(str(claim.outcome) for claim in self.claims)
        told = ", ".join(f"{number} {word}" for word, number in words.items())
        num = len(self.claims)
        return f"{num} {'claim' if num == 1 else 'claims'}: {told}.{self._expected}" if num else ""

    @property
    def _expected(self) -> str:
        """The number of supported claims that are expected to be false, as a sentence."""
        qs = [c.q for c in self.claims if c.outcome is ClaimOutcome.SUPPORTED and c.q is not None]
        if len(qs) < 2:
            return ""
        return (
            f" Of the {len(qs)} supported that were tested, up to {len(qs) * max(qs):.2g} are "
            "expected to be false."
        )

    @property
    def scales(self) -> tuple[str, ...]:
        """Each scale that is shown, with the resources that it needs."""
        return tuple(dict.fromkeys(scale_in_words(entry.scale) for entry in self.entries))

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules by which claims are judged, and the meanings of the outcomes."""
        has_checks = any(claim.is_check for claim in self.claims)
        has_bars = any(entry.bar for entry in self.entries)
        outcomes = dict.fromkeys(claim.outcome for claim in self.claims)
        meanings = (f"{str(word).capitalize()}: {word.meaning}" for word in outcomes)
        return (
            _EACH,
            *((_BARS,) if has_bars else ()),
            *((_CHECKS,) if has_checks else ()),
            *meanings,
        )


def overview(shown: Mapping[str, Sweep], themes: Mapping[str, str] | None = None) -> Overview:
    """Return the overview of the sweeps that the pages of the ablations show.

    Args:
        shown: Ablation -> its sweep.
        themes: Ablation -> theme, in the order of the page; the others come last, by name.
    """
    known = {name: theme for name, theme in (themes or {}).items() if name in shown}
    found = {name: shown[name].in_order for name in (*known, *sorted(shown.keys() - known.keys()))}
    verdicts = {name: sweep.verdict for name, sweep in found.items()}
    judged = with_q_values({name: each for name, each in verdicts.items() if each is not None})
    others = _OTHERS if known else ""
    grouped: dict[str, list[OverviewEntry]] = {}
    for name, sweep in found.items():
        entry = _entry(sweep, judged.get(name))
        grouped.setdefault(known.get(name, others), []).append(entry)
    return Overview(
        themes=tuple(Theme(name=name, entries=tuple(each)) for name, each in grouped.items())
    )


def _entry(sweep: Sweep, verdict: Verdict | None) -> OverviewEntry:
    about, measured = sweep.about, sweep.measured
    best = best_in_words(about, primary(measured, about.tasks[0]))
    devices = dict.fromkeys(made.device for made in about.provenances.values())
    coverage = whole_coverage(about, measured)
    return OverviewEntry(
        ablation=about.ablation,
        link=f"{slug(about.ablation)}/index.html",
        question=about.question,
        answer=answer_in_words(verdict) if verdict else best or why_no_verdict(about),
        scale=about.scale,
        hardware=listed(list(devices)),
        date=next((date(each)[:_DAY] for each in about.editions if _is_dated(each)), ""),
        measured=coverage_in_words(coverage, sweep.num_trials),
        is_whole=coverage.is_complete,
        verdict=verdict,
        published=published_in_words(about),
        stated=stated_in_words(about, verdict),
        bar=_bar(verdict, about.claim.by) if verdict and about.claim else None,
    )


def _is_dated(edition: Edition) -> bool:
    return edition.is_shown and bool(edition.started_seconds)


def _bar(verdict: Verdict, by: float) -> EffectBar | None:
    low, point, high = verdict.advantage.low, verdict.advantage.point, verdict.advantage.high
    if point is None or low is None or high is None:
        return None
    by = math.log(max(by, 1.0)) if verdict.is_ratio else by
    known = [each for each in (low, point, high, 0.0, by) if math.isfinite(each)]
    least, most = min(known), max(known)
    if least == most:
        return None
    beyond = _BEYOND * (most - least)  # an open end of an interval is drawn beyond all numbers
    least -= beyond if math.isinf(low) else 0.0
    most += beyond if math.isinf(high) else 0.0

    def place(value: float) -> float:
        return round(100 * (min(max(value, least), most) - least) / (most - least), 1)

    return EffectBar(
        low=place(low),
        point=place(point),
        high=place(high),
        zero=place(0.0),
        claimed=place(by) if by else None,
        strength=rounded(2 * point / (high - low)) if high > low else math.copysign(1e9, point),
    )
