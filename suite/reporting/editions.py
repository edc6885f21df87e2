"""Judges every edition of a sweep by the report's rules, so that a page says what was tried."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from suite.journal.journal import Journal
from suite.journal.plans import claim_cells, registration_of
from suite.reporting.frames import by_trial, sweep_of
from suite.schema import Edition, Plan

# Verdict and sentence, by all that they depend on: those of earlier editions seldom change.
_JUDGED: dict[tuple[object, ...], tuple[str, str]] = {}


def with_history(plan: Plan, journal: Journal) -> Plan:
    """The plan with all its editions as they are now, the verdicts of those that it does not show.

    `sweep_of` adds the verdict of the one that it shows.
    """
    history = _History(journal, tuple(journal.history(plan)))
    shown = next((each for each, _ in history.editions if each.is_shown), None)
    if shown is None:
        return plan
    editions = tuple(
        each if each.is_shown else history.judged(each, of) for each, of in history.editions
    )
    about = replace(plan.about, editions=history.seen_from(shown, plan, editions))
    return replace(plan, about=about)


@dataclass(frozen=True)
class _History:
    """The editions of a sweep with their plans, newest first, and the journal of their results."""

    journal: Journal
    editions: tuple[tuple[Edition, Plan], ...]

    def seen_from(
        self, shown: Edition, plan: Plan, editions: tuple[Edition, ...]
    ) -> tuple[Edition, ...]:
        """The editions with marks: which one is shown, and which tested its claim before it."""
        done = self.journal.done().keys()
        earlier = {
            each.number
            for each, of in self.editions
            if each.started_seconds < shown.started_seconds and _tests_other_trials(of, plan, done)
        }
        return tuple(
            replace(
                each,
                is_shown=each.number == shown.number,
                is_earlier_test=each.number in earlier,
            )
            for each in editions
        )

    def judged(self, edition: Edition, plan: Plan) -> Edition:
        """The edition with its verdict, as its own page would give it."""
        claim = plan.about.claim
        if claim is None or not edition.num_done:
            return edition
        about = replace(
            plan.about,
            registration=registration_of(plan.about, self.journal.statements(plan.key)),
            editions=self.seen_from(edition, plan, tuple(each for each, _ in self.editions)),
        )
        cells = tuple(
            cell
            for cell in plan.cells
            if cell.task == claim.task and any(m.name == claim.metric for m in cell.metrics)
        )
        trial_ids = dict.fromkeys(cell.trial_id for cell in cells)
        held = tuple(e for e in self.journal.entries() if e.trial_id in trial_ids)
        earlier = tuple(each.number for each in about.editions if each.is_earlier_test)
        key = (*plan.key, edition.sha256, about.registration, earlier, held)
        if key not in _JUDGED:
            results = by_trial(self.journal.results(trial_ids))
            sweep = sweep_of(replace(plan, about=about, cells=cells), results)
            found = next(each for each in sweep.about.editions if each.is_shown)
            _JUDGED[key] = found.verdict, found.sentence
        verdict, sentence = _JUDGED[key]
        return replace(edition, verdict=verdict, sentence=sentence)


def _tests_other_trials(other: Plan, plan: Plan, done: Set[str]) -> bool:
    """Whether it has results on the plan's claim that are none of the plan's own."""
    mine, theirs = plan.about.claim, other.about.claim
    if mine is None or theirs is None:
        return False
    is_same = (mine.task, mine.metric, mine.at, {mine.a, mine.b}) == (
        theirs.task, theirs.metric, theirs.at, {theirs.a, theirs.b},
    )  # fmt: skip
    own = {cell.trial_id for cell in claim_cells(plan)}
    return is_same and any(c.trial_id in done and c.trial_id not in own for c in claim_cells(other))
