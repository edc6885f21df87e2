"""Build the overview: the answer of every ablation, with the verdict of its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bakeoff.reports.analysis.verdict import ClaimOutcome, Verdict, with_q_values
from bakeoff.reports.escape import slug
from bakeoff.reports.pages.answer import answer_in_words
from bakeoff.reports.pages.findings_in_words import best_in_words
from bakeoff.reports.pages.summary import (
    coverage_in_words,
    published_in_words,
    scale_in_words,
    stated_in_words,
    why_no_verdict,
)
from bakeoff.reports.tables.comparison import primary, whole_coverage
from bakeoff.reports.view import Sweep

_CHECKS = "A check holds by construction and is not counted among the claims that are tested."
_EACH = (
    "Each claim is judged by itself at 5 %, as on its own page, whatever other ablations exist. "
    "Among many claims some seem supported by chance: the q-value of a claim is the least "
    "expected share of false findings among all claims with a p as small or smaller (Benjamini "
    "and Hochberg)."
)


@dataclass(frozen=True, kw_only=True)
class OverviewEntry:
    """The summary of one ablation.

    Attributes:
        answer: The answer to its question in a sentence.
        verdict: The verdict on its claim, with its q-value, or None without a claim.
        published: The published figure and its source.
        stated: A sentence on whether the claim was registered before its results.
    """

    ablation: str
    link: str
    question: str
    answer: str
    scale: str
    measured: str
    verdict: Verdict | None
    published: str
    stated: str


@dataclass(frozen=True, kw_only=True)
class Overview:
    """All ablations, in the order of their names."""

    entries: tuple[OverviewEntry, ...]

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
        outcomes = dict.fromkeys(claim.outcome for claim in self.claims)
        meanings = (f"{str(word).capitalize()}: {word.meaning}" for word in outcomes)
        return (
            _EACH,
            *((_CHECKS,) if has_checks else ()),
            *meanings,
        )


def overview(shown: Mapping[str, Sweep]) -> Overview:
    """Return the overview of the sweeps that the pages of the ablations show."""
    sweeps = dict(sorted((name, sweep.in_order) for name, sweep in shown.items()))
    verdicts = {name: sweep.verdict for name, sweep in sweeps.items()}
    judged = with_q_values({name: each for name, each in verdicts.items() if each is not None})
    return Overview(
        entries=tuple(_entry(sweep, judged.get(name)) for name, sweep in sweeps.items())
    )


def _entry(sweep: Sweep, verdict: Verdict | None) -> OverviewEntry:
    about, measured = sweep.about, sweep.measured
    best = best_in_words(about, primary(measured, about.tasks[0]))
    return OverviewEntry(
        ablation=about.ablation,
        link=f"{slug(about.ablation)}/index.html",
        question=about.question,
        answer=answer_in_words(verdict) if verdict else best or why_no_verdict(about),
        scale=about.scale,
        measured=coverage_in_words(whole_coverage(about, measured), sweep.num_trials),
        verdict=verdict,
        published=published_in_words(about),
        stated=stated_in_words(about, verdict),
    )
