"""Build the top of a page: the answer in a few sentences, and the figures that support it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bakeoff.reports.analysis.claim_data import evidence
from bakeoff.reports.analysis.verdict import ClaimOutcome, Verdict
from bakeoff.reports.document import Drawing, capitalized
from bakeoff.reports.pages.findings_in_words import (
    FindingsCase,
    Lead,
    along_the_axis,
    other_findings,
    sides_in_words,
)
from bakeoff.reports.pages.leads import lead_in_words
from bakeoff.reports.pages.opening import Opening, opening
from bakeoff.reports.pages.pictures import opening_picture
from bakeoff.reports.pages.ranking import best_in_words
from bakeoff.reports.pages.summary import SMOKE, why_no_verdict
from bakeoff.reports.results.length_sweep import Growth
from bakeoff.reports.results.series import Series
from bakeoff.reports.sections.scaling_law import law_in_words
from bakeoff.reports.tables.comparison import primary
from bakeoff.suite.schema import About

_SENTENCES = {
    ClaimOutcome.SUPPORTED: "{}.",
    ClaimOutcome.SMALLER: "{}, but by less than claimed.",
    ClaimOutcome.REFUTED: "The results contradict the claim that {}.",
    ClaimOutcome.EQUIVALENT: (
        "The difference is too small to matter, which contradicts the claim that {}."
    ),
    ClaimOutcome.IDENTICAL: (
        "Both sides gave the same numbers, which contradicts the claim that {}."
    ),
    ClaimOutcome.NO_DIFFERENCE: "No difference was seen, so the results do not show that {}.",
    ClaimOutcome.INCONCLUSIVE: "The results do not show whether {}.",
    ClaimOutcome.UNDERPOWERED: "There are too few seeds to tell whether {}.",
    ClaimOutcome.NOT_TESTED: "The models of this scale cannot show whether {}.",
    ClaimOutcome.INVALID: "The measurements cannot show whether {}.",
}
_TOO_SMALL = "The results do not show that {}; an effect as large as claimed is excluded."


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The content at the top of a page.

    Attributes:
        sentence: The answer to the question of the title.
        besides: The other parts of the answer, in exploratory sentences, below the figures.
        finding: The claim, if `sentence` does not state it, and what the verdict rests on.
        badge: The outcome in words; empty without a claim.
        outcome: The outcome as a CSS class, which sets the colour.
        drawings: The figures, see `bakeoff.reports.pages.opening`. The picture that
            `Ablation.opens_with` selects comes first.
    """

    sentence: str
    besides: tuple[str, ...] = ()
    finding: str = ""
    badge: str = ""
    outcome: str = ""
    drawings: tuple[Drawing, ...] = ()


def answer(
    about: About,
    measured: Sequence[Series],
    judged: Verdict | None,
    growths: Sequence[Growth] = (),
) -> Answer:
    """Return the answer of an ablation, from its claim or else from the score of its first task.

    Args:
        about: The sweep.
        measured: All series without controls, including floors.
        judged: The verdict on the claim, or None without a claim.
        growths: The metrics of the mixers alone.
    """
    found = evidence(about, measured)
    series = found.series if found else primary(measured, about.tasks[0])
    sides = (found.claim.a, found.claim.b) if found else ()
    top = opening(about, measured, series, sides, growths) if series else Opening()
    is_of_score = not (found and found.claim.counted_by)  # a speedup is that of a whole curve
    law = law_in_words(about, measured, series.task) if series and about.held_out else ""
    lead = Lead(sentences=(law,)) if law else Lead()
    case = None
    if series:
        case = FindingsCase(about=about, measured=measured, series=series, sides=sides, top=top)
    if case and found and is_of_score and not law:
        lead = lead_in_words(case)
    is_trained = about.scale != SMOKE
    besides = tuple(other_findings(replace(case, lead=lead))) if case and is_trained else ()
    drawings = tuple(filter(None, (opening_picture(about), *top.drawings)))
    if judged is None or found is None:
        best, why = best_in_words(about, series), why_no_verdict(about)
        return Answer(
            sentence=" ".join(filter(None, (law, best))) if best else why,
            besides=besides,
            finding=why if best else "",
            drawings=drawings,
        )
    claimed = answer_in_words(judged)
    numbers = _not_in(lead, *sides_in_words(about, found, judged))
    if lead.sentences:
        sentences, claimed = lead.sentences, _with(claimed, numbers)
    else:  # the claim is the answer
        elsewhere = along_the_axis(case) if case and is_of_score else ""
        sentences, claimed = (_with(claimed, numbers, elsewhere), *lead.after), ""
    return Answer(
        sentence=" ".join(sentences),
        besides=besides,
        finding=" ".join(filter(None, (claimed, judged.basis))),
        badge=judged.kind,
        outcome=str(judged.outcome),
        drawings=drawings,
    )


def _not_in(lead: Lead, means: str, difference: str) -> str:
    """Return the means and the difference of a claim's sides, without those that `lead` states."""
    if lead.has_gap:
        return ""
    return ", ".join(filter(None, ("" if lead.has_means else means, difference)))


def _with(sentence: str, *clauses: str) -> str:
    """Return the sentence with the clauses that are not empty after a colon."""
    said = "; ".join(filter(None, clauses))
    return f"{sentence.removesuffix('.')}: {said}." if said else sentence


def answer_in_words(judged: Verdict) -> str:
    """Return the outcome as a plain sentence about the claim."""
    said = _SENTENCES[judged.outcome]
    if judged.outcome is ClaimOutcome.REFUTED and (judged.advantage.low or 0.0) < 0:
        is_opposite = judged.advantage.excludes_zero
        said = "The results show the opposite of the claim that {}." if is_opposite else _TOO_SMALL
    return capitalized(said.format(judged.statement))
