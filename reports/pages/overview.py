"""Builds the overview page: every ablation, and all claims judged together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.analysis.verdict import Verdict, judged_together, verdict
from reports.escape import slug
from reports.pages.summary import (
    coverage_in_words,
    published_in_words,
    scale_in_words,
    stated_in_words,
)
from reports.results.frame import Sweep
from reports.results.series import Series, all_series
from reports.tables.comparison import whole_coverage, without_controls
from suite.schema import About

_ALONE = "There is no other to be judged with, so nothing is corrected."
_TOGETHER = (
    "They are judged together: of many claims one may come out by chance alone, so each of them "
    "must meet a stricter level (Holm's method), and the chance of any false verdict among them "
    "stays at 5 %. Judged alone, a claim has the verdict of its own page."
)


@dataclass(frozen=True, kw_only=True)
class Glance:
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

    glances: tuple[Glance, ...]

    @property
    def claims(self) -> tuple[Glance, ...]:
        """The ablations that make a claim."""
        return tuple(glance for glance in self.glances if glance.together is not None)

    @property
    def without_claim(self) -> tuple[Glance, ...]:
        """The ablations that make none."""
        return tuple(glance for glance in self.glances if glance.together is None)

    @property
    def judged(self) -> str:
        """How the claims came out, and by which rule."""
        words = Counter(str(glance.together.outcome) for glance in self.claims if glance.together)
        tally = ", ".join(f"{number} {word}" for word, number in words.items())
        num = len(self.claims)
        return f"1 claim: {tally}. {_ALONE}" if num == 1 else f"{num} claims: {tally}. {_TOGETHER}"


def overview(shown: Mapping[str, Sweep]) -> Overview:
    """The overview over the sweep that each ablation's page shows."""
    cases = {
        name: (sweep.about, without_controls(all_series(sweep.about, sweep.results)))
        for name, sweep in sorted(shown.items())
    }
    claimed = {name: case for name, case in cases.items() if case[0].claim is not None}
    together = judged_together(claimed)
    return Overview(
        glances=tuple(
            _glance(about, measured, together.get(name))
            for name, (about, measured) in cases.items()
        )
    )


def _glance(about: About, measured: Sequence[Series], together: Verdict | None) -> Glance:
    alone = verdict(about, measured)
    return Glance(
        ablation=about.ablation,
        link=f"{slug(about.ablation)}/index.html",
        question=about.question,
        scale=scale_in_words(about.scale),
        measured=coverage_in_words(whole_coverage(about, measured)),
        alone=alone,
        together=together,
        published=published_in_words(about),
        stated=stated_in_words(about, alone),
    )
