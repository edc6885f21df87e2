"""Shows scaling laws: what was fitted, what it predicts, and the best size for a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.analysis.iso_flops import flops_budgets
from reports.analysis.scaling_data import LawGroup, law_groups
from reports.document import Exhibit, Section, View, listed, readable
from reports.plots.scaling_law import iso_flops_figure, law_figure
from reports.results.series import Series
from reports.stats.intervals import as_interval, for_estimates
from reports.tables.scaling_law import (
    budgets_table,
    differences_table,
    exponent_in_words,
    laws_table,
    outcome_in_words,
    points_table,
    predictions_table,
)
from suite.schema import About

_LAW = (
    "For each mixer, or whatever else varies beside size and data, the law L(N, D) = E + A / "
    "N^alpha + B / D^beta is fitted to the losses of its trainings (Hoffmann et al. 2022, "
    "approach 3): N counts all parameters, D the tokens trained on, with those that repeat. "
    "The trainings held out are not among them."
)
_INTERVALS = (
    "Intervals are nominally 95 %, from a bootstrap of the residuals of points; they held the "
    "truth in 90 to 97 % of simulated sweeps. They hold the noise of seeds and what the law misses "
    "between its points, and suppose that it goes on beyond them. All but the claim is exploratory."
)
_ISO = (
    "One training budget, spent on a small model and much data or on a large one and little: the "
    "lowest point of a line is the best size for it. Points are measured, lines are the law."
)
_NOTHING = "No law is fitted."


def law_section(about: About, measured: Sequence[Series], task: str) -> Section | None:
    """All that is said of a task's laws; None where none is asked for."""
    groups = law_groups(about, measured, task)
    if not groups:
        return None
    judged = next(s for s in measured if s.task == task and s.is_whole_score and s.unit == "bit")
    return Section(
        title=f"Scaling laws on {readable(task)}",
        sentences=(_LAW, _INTERVALS, *_what_is_missing(groups)),
        exhibits=tuple(_exhibits(groups, judged)),
    )


def law_in_words(about: About, measured: Sequence[Series], task: str) -> str:
    """The exponents of each law, and whether it predicted; empty where none is asked for."""
    groups = law_groups(about, measured, task)
    if not groups:
        return ""
    fitted = [group for group in groups if group.law]
    if not fitted:
        return _NOTHING
    said = listed([_exponents(group) for group in fitted])
    return f"The loss falls as N^−alpha and D^−beta with {said}. {' '.join(_outcomes(groups))}"


def _exponents(group: LawGroup) -> str:
    assert group.law is not None, "only groups with a law are asked"
    alpha, beta = (
        exponent_in_words(group.law, key) for key in ("parameter_exponent", "token_exponent")
    )
    return f"alpha {alpha} and beta {beta} ({group.short_name})"


def _outcomes(groups: Sequence[LawGroup]) -> Iterator[str]:
    every = [(group, one) for group in groups for one in group.predictions]
    if not every:
        yield "No training was held out that a law could predict."
        return
    write = for_estimates("bit", [e for _, one in every for e in (one.predicted,)]).write
    for group, one in every:
        assert one.predicted.point is not None, "a prediction has a number"
        yield (
            f"The held-out training of {group.short_name} was predicted at "
            f"{write(one.predicted.point)} {as_interval(one.predicted, write)} bit and came out at "
            f"{write(one.larger.mean)}: {outcome_in_words(one, write)}."
        )


def _what_is_missing(groups: Sequence[LawGroup]) -> Iterator[str]:
    for group in groups:
        if group.why_no_law:
            yield f"{group.name}: no law is fitted, since there are {group.why_no_law}."
        if group.num_lost or group.num_missing:
            yield (
                f"{group.name}: {group.num_lost} variants have no loss, and {group.num_missing} "
                "seeds of others are missing; the law is of the rest."
            )


def _exhibits(groups: Sequence[LawGroup], judged: Series) -> Iterator[Exhibit]:
    drawing, task = law_figure(judged, groups), judged.task
    predictions = predictions_table(task, judged.unit, groups)
    differences = differences_table(task, groups)
    yield Exhibit(
        title="Was the larger training predicted?",
        tables=(predictions,) if predictions else (),
        drawings=(drawing,) if drawing else (),
    )
    tables = (laws_table(task, groups), *filter(None, [differences]))
    yield Exhibit(
        title="The laws", tables=tables, folded=(points_table(task, judged.unit, groups),)
    )
    budgets = {group.name: flops_budgets(group) for group in groups}
    found = [(group, iso_flops_figure(judged, group, budgets[group.name])) for group in groups]
    drawn = [(group, figure) for group, figure in found if figure]
    best = budgets_table(task, judged.unit, budgets)
    if drawn:
        yield Exhibit(
            title="The best size for a budget",
            sentences=(_ISO,),
            views=tuple(View(title=g.short_name, drawings=(one,)) for g, one in drawn),
            folded=(best,) if best else (),
        )
