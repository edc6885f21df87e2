"""Build the overview: the answer of every ablation, with all claims judged together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bakeoff.reports.analysis.verdict import Verdict, judged_together
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

_ALONE = "There is only one claim, so no correction is applied."
_CHECKS = "A check holds by construction: it is judged alone and does not affect the other claims."
_TOGETHER = (
    "They are judged together: among many claims, one may seem supported by chance, so each of "
    "them is tested at a stricter level (Holm's method), which keeps the probability of any false "
    "verdict among them at 5 %. The page of each ablation gives the verdict on its claim alone."
)


@dataclass(frozen=True, kw_only=True)
class OverviewEntry:
    """The summary of one ablation.

    Attributes:
        answer: The answer to its question in a sentence.
        alone: The verdict on its claim, or None without a claim.
        together: The verdict on the same claim, judged together with all the claims shown; the
            overview prints the outcome and interval of this one.
        published: The published figure and its source.
        stated: A sentence on whether the claim was registered before its results.
    """

    ablation: str
    link: str
    question: str
    answer: str
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
    def claims(self) -> tuple[Verdict, ...]:
        """The verdicts of the ablations that make a claim."""
        return tuple(entry.together for entry in self.entries if entry.together)

    @property
    def tally(self) -> str:
        """Text such as ``3 claims, judged together: 2 supported, 1 not tested.``, or empty."""
        words = Counter(str(claim.outcome) for claim in self.claims)
        told = ", ".join(f"{number} {word}" for word, number in words.items())
        num = len(self.claims)
        noun = "claim" if num == 1 else "claims"
        together = ", judged together" if any(c.num_claims > 1 for c in self.claims) else ""
        return f"{num} {noun}{together}: {told}." if num else ""

    @property
    def scales(self) -> tuple[str, ...]:
        """Each scale that is shown, with the resources that it needs."""
        return tuple(dict.fromkeys(scale_in_words(entry.scale) for entry in self.entries))

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules by which claims are judged, and the meanings of the outcomes."""
        are_several = any(claim.num_claims > 1 for claim in self.claims)
        has_checks = any(claim.is_check for claim in self.claims)
        outcomes = dict.fromkeys(claim.outcome for claim in self.claims)
        meanings = (f"{str(word).capitalize()}: {word.meaning}" for word in outcomes)
        return (
            _TOGETHER if are_several else _ALONE,
            *((_CHECKS,) if has_checks else ()),
            *meanings,
        )


def overview(shown: Mapping[str, Sweep]) -> Overview:
    """Return the overview of the sweeps that the pages of the ablations show."""
    sweeps = dict(sorted((name, sweep.in_order) for name, sweep in shown.items()))
    claimed = {n: (s.about, s.measured) for n, s in sweeps.items() if s.about.claim is not None}
    together = judged_together(claimed) if claimed else {}
    return Overview(
        entries=tuple(_entry(sweep, together.get(name)) for name, sweep in sweeps.items())
    )


def _entry(sweep: Sweep, together: Verdict | None) -> OverviewEntry:
    about, measured, alone = sweep.about, sweep.measured, sweep.verdict
    best = best_in_words(about, primary(measured, about.tasks[0]))
    return OverviewEntry(
        ablation=about.ablation,
        link=f"{slug(about.ablation)}/index.html",
        question=about.question,
        answer=answer_in_words(together) if together else best or why_no_verdict(about),
        scale=about.scale,
        measured=coverage_in_words(whole_coverage(about, measured), sweep.num_trials),
        alone=alone,
        together=together,
        published=published_in_words(about),
        stated=stated_in_words(about, alone),
    )
