"""Build the top of a page: the answer in one sentence, and the figure that supports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bakeoff.reports.analysis.claim_data import evidence
from bakeoff.reports.analysis.verdict import ClaimOutcome, Verdict
from bakeoff.reports.document import Drawing, capitalized, listed, readable
from bakeoff.reports.pages.summary import SMOKE, why_no_verdict
from bakeoff.reports.plots.scores import score_figure
from bakeoff.reports.plots.style import MAX_LINES
from bakeoff.reports.plots.tradeoff import state_figure
from bakeoff.reports.results.axis_values import belongs
from bakeoff.reports.results.series import Series
from bakeoff.reports.results.variant_labels import shown_name, shown_variants
from bakeoff.reports.sections.axis_series import axis_figure, label_series
from bakeoff.reports.sections.scaling_law import law_figure, law_groups, law_in_words
from bakeoff.reports.stats.intervals import (
    as_interval,
    for_estimates,
    mean_interval,
    paired_differences,
)
from bakeoff.reports.tables.comparison import primary
from bakeoff.suite.schema import MIXER_ALONE, About

MOST_DRAWN = 10  # variants that fit into a figure on one screen
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


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The content at the top of a page.

    Attributes:
        sentence: The answer to the question of the title.
        finding: The numbers behind the answer in whole sentences, or empty.
        badge: The outcome in words; empty without a claim.
        outcome: The outcome as a CSS class, which sets the colour.
        drawing: The figure of the claim's metric, on its task and at its coordinate.
        picture: The figure of attention, filters or drawings that `Ablation.opens_with` selects,
            printed above the other one; may be None.
    """

    sentence: str
    finding: str = ""
    badge: str = ""
    outcome: str = ""
    drawing: Drawing | None = None
    picture: Drawing | None = None


def answer(about: About, measured: Sequence[Series], judged: Verdict | None) -> Answer:
    """Return the answer of an ablation, from its claim or else from the score of its first task.

    Args:
        about: The sweep.
        measured: All series without controls, including floors.
        judged: The verdict on the claim, or None without a claim.
    """
    if judged is None:
        series = primary(measured, about.tasks[0])
        drawing = _drawing(about, measured, series, ()) if series else None
        sentence, why = best_in_words(about, series), why_no_verdict(about)
        if sentence and series and about.held_out:
            sentence = f"{law_in_words(about, measured, series.task)} {sentence}".strip()
        return Answer(sentence=sentence or why, finding=why if sentence else "", drawing=drawing)
    found = evidence(about, measured)
    series = found.series if found else None
    sides = (found.claim.a, found.claim.b) if found else ()
    law = law_in_words(about, measured, series.task) if series and about.held_out else ""
    return Answer(
        sentence=" ".join(filter(None, (answer_in_words(judged), law))),
        finding=" ".join(
            filter(
                None, (f"Measured: {judged.finding}.", judged.remark, _best(about, judged, series))
            )
        ),
        badge=judged.kind,
        outcome=str(judged.outcome),
        drawing=_drawing(about, measured, series, sides) if series else None,
    )


def _best(about: About, judged: Verdict, series: Series | None) -> str:
    """Describe the best variant of all if the claim is on a score; empty for two variants."""
    is_open = judged.outcome in (ClaimOutcome.NOT_TESTED, ClaimOutcome.INVALID)
    if is_open or series is None or not series.is_score or len(about.variants) < 3:
        return ""
    return best_in_words(about, series)


def answer_in_words(judged: Verdict) -> str:
    """Return the outcome as a plain sentence about the claim."""
    return capitalized(_SENTENCES[judged.outcome].format(judged.statement))


def _drawing(
    about: About, measured: Sequence[Series], series: Series, sides: Sequence[str]
) -> Drawing | None:
    """Return the figure for the top of the page, or None if there is nothing to draw.

    In order of preference, it shows the fitted scaling laws, the score against the size of the
    state, the score along a numeric axis if there are too many variants, or the scores of the sides
    of the claim, the baseline and as many others as fit.
    """
    groups = law_groups(about, measured, series.task) if about.held_out else ()
    if groups and series.is_whole_score and (law := law_figure(series, groups)):
        return law
    is_compared = series.is_whole_score and len(about.variants) > 1
    if is_compared and (against := state_figure(about, measured, series)):
        return against
    met = [v for v in about.variants if belongs(about, v, series.task) and series.values(v)]
    if len(met) > MOST_DRAWN and (along := _along(about, measured, series)):
        return along
    first = [v for v in met if v in {*sides, about.baseline}]
    others = [v for v in met if v not in first]
    chosen = {*first, *shown_variants(about, others, max(3, MOST_DRAWN - len(first)))}
    return score_figure(about, series, [v for v in met if v in chosen], compared=sides)


def _along(about: About, measured: Sequence[Series], series: Series) -> Drawing | None:
    """Return the metric along a numeric axis, if that is a single figure with few lines."""
    every = label_series(about, measured, series.task)
    found = [each for each in every if each.metric == series.metric]
    is_drawn = len(found) == 1 and len(found[0].lines) <= MAX_LINES
    return axis_figure(found[0], found[0].lines) if is_drawn else None


def best_in_words(about: About, series: Series | None) -> str:
    """Describe the best variant; empty if no variant has a score, or if models are untrained."""
    if series is None or series.better == "none" or about.scale == SMOKE:
        return ""
    means = {v: series.mean(v) for v in about.variants}
    points = {v: one.point for v, one in means.items() if one.point is not None}
    if not points:
        return ""
    choose = max if series.better == "higher" else min
    best = choose(points, key=lambda variant: points[variant])
    written = for_estimates(series.unit, means.values())
    numbers = [
        " ".join(
            filter(
                None,
                (written.with_unit(written.write(points[v])), as_interval(means[v], written.write)),
            )
        )
        for v in dict.fromkeys((best, about.baseline))
        if v in points
    ]
    task = "mixers alone" if series.task == MIXER_ALONE else readable(series.task)
    places = {reading.at for some in series.readings.values() for reading in some} - {""}
    at = f" at {places.pop().replace('=', ' ')}" if len(places) == 1 else ""
    text = f"On {task}{at}, {shown_name(about, best)} has the best {readable(series.metric)}"
    against = f", compared with {numbers[1]} for the baseline" if len(numbers) > 1 else ""
    return f"{text}: {listed(numbers[:1])}{against}{_doubt(about, series, best)}."


def _doubt(about: About, series: Series, best: str) -> str:
    """Return a remark if the best variant does not differ significantly from the baseline."""
    ours, theirs = series.values(best), series.values(about.baseline)
    is_open = best != about.baseline and len(ours.keys() & theirs.keys()) > 1
    if not is_open or mean_interval(paired_differences(ours, theirs)).excludes_zero:
        return ""
    return "; the difference is not significant"
