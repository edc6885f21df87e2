"""Judge a claim: one word and a sentence from the paired interval of `a` over `b`.

The interval is that of paired differences by seed, signed so that positive is better. "No
significant difference" is never "the same": equality needs an interval inside the margin. Every
decisive outcome is true whenever the interval covers the truth, so a claim is wrong no more often
than its level. An overview of several claims adds their q-values. docs/statistics.md gives the
whole argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from bakeoff.reports.analysis.claim_data import (
    Divergence,
    Evidence,
    Strength,
    details,
    evidence,
    p_of_no_difference,
    strength,
    what_is_needed,
    what_was_equal,
)
from bakeoff.reports.analysis.editions import in_words
from bakeoff.reports.analysis.speedup import COUNTED, Speedup, speedup_in_words
from bakeoff.reports.document import capitalized, listed, readable
from bakeoff.reports.results.series import Series
from bakeoff.reports.stats.aggregate import Improvement
from bakeoff.reports.stats.intervals import Estimate, as_ratio, as_times
from bakeoff.reports.stats.significance import ALPHA, MIN_PAIRS, SignFlip, q_values
from bakeoff.suite.schema import About, Registration


class ClaimOutcome(StrEnum):
    """The outcomes of a claim."""

    SUPPORTED = "supported"
    SMALLER = "smaller than claimed"
    REFUTED = "refuted"
    EQUIVALENT = "equivalent"
    IDENTICAL = "identical"
    NO_DIFFERENCE = "no difference seen"
    INCONCLUSIVE = "inconclusive"
    UNDERPOWERED = "underpowered"
    NOT_TESTED = "not tested"
    INVALID = "invalid"

    @property
    def meaning(self) -> str:
        """The rule behind the outcome, in a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    ClaimOutcome.SUPPORTED: (
        "The whole confidence interval of the advantage lies above zero, and not all of it lies "
        "below the claimed size."
    ),
    ClaimOutcome.SMALLER: (
        "The whole confidence interval of the advantage lies above zero, but below the claimed "
        "size."
    ),
    ClaimOutcome.REFUTED: (
        "The whole confidence interval of the advantage lies below the claimed size and not "
        "entirely above zero."
    ),
    ClaimOutcome.EQUIVALENT: (
        "The whole confidence interval of the difference lies within the smallest difference that "
        "matters, on both sides of zero."
    ),
    ClaimOutcome.IDENTICAL: (
        "Both gave exactly the same loss with every seed, so the difference between them did not "
        "affect the computation."
    ),
    ClaimOutcome.NO_DIFFERENCE: (
        "Both gave the same number with every seed, but models that compute different things can "
        "share this number, for example when both answer every question correctly."
    ),
    ClaimOutcome.INCONCLUSIVE: (
        "The confidence interval is not conclusive, a diverged seed leaves no interval, or the "
        "times differ by no more than repeated measurements of the baseline. This does not show "
        "that the two are equal."
    ),
    ClaimOutcome.UNDERPOWERED: "There are too few pairs for a verdict.",
    ClaimOutcome.NOT_TESTED: (
        "The models do not beat a predictor without an architecture at this scale, so their "
        "difference is shown, but it is no evidence about architectures; or a speedup lies outside "
        "the measured budgets."
    ),
    ClaimOutcome.INVALID: (
        "A measurement that the claim depends on is missing, failed or cannot be evaluated."
    ),
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a claim.

    A page prints `sentence`, then `details` one after the other. The other fields are for tables; a
    field that is None or empty was not computed, and must not be shown as a zero.

    Attributes:
        outcome: The outcome.
        advantage: How much better `a` is than `b`, with its 95 % interval; in the metric's unit, or
            the natural logarithm of how many times as fast if `is_ratio`, or of a speedup, whose
            interval may have an infinite end. It is also given if the outcome is not tested for
            want of a model that has learnt the task.
        statement: The claim, without a full stop.
        kind: The outcome in words, with ``exploratory`` if the claim was stated in this form after
            some of its results, with ``indicative`` if the scale is small.
        finding: The finding, without a full stop.
        basis: A sentence on the seeds, the interval and the claimed size, or the whole finding if
            there is no interval; another on how many seeds would settle an open verdict.
        effect: The advantage with its interval, such as ``+0.031 bit (+0.010 to +0.051)``; empty if
            it was not computed.
        details: Whole sentences: probability of improvement, sign-flip p, how many seeds would
            settle it.
        is_ratio: Whether the advantage is the logarithm of a ratio.
        p: The two-sided p of the paired t test against no difference, for a speedup at equal
            budgets, or None if there is no test.
        q: The q-value of the claim among those of an overview, or None; see `with_q_values`.
        sign_flip: Test against no difference; its `p` is None if the seeds are too few.
        improvement: How often `a` was better, with its interval.
        num_seeds_to_settle: The number of seeds that would settle an open verdict, or None for
            others and if more than 1,000 are needed.
        smallest_effect: The effect that the same number of seeds detects four times in five; for a
            speedup in the unit of the score, at equal budgets.
        is_check: Whether the claim holds by construction.
        is_exploratory: Whether some results were known when the claim was stated in this form, or
            an earlier edition tested it with other settings.
        remark: A whole sentence on why it is exploratory; else empty.
        diverged: The counts of both sides if a seed of either diverged; else empty.
    """

    outcome: ClaimOutcome
    advantage: Estimate
    statement: str
    kind: str
    finding: str
    basis: str = ""
    effect: str = ""
    details: tuple[str, ...] = ()
    is_ratio: bool = False
    p: float | None = None
    q: float | None = None
    sign_flip: SignFlip | None = None
    improvement: Improvement | None = None
    num_seeds_to_settle: int | None = None
    smallest_effect: float | None = None
    is_check: bool = False
    is_exploratory: bool = False
    remark: str = ""
    diverged: tuple[Divergence, ...] = ()

    @property
    def sentence(self) -> str:
        """The whole answer, for a reader."""
        return f"{self.statement}: {self.kind}; {self.finding}."


def verdict(about: About, measured: Sequence[Series]) -> Verdict | None:
    """Return the verdict on the ablation's claim, or None if it makes no claim."""
    found = evidence(about, measured)
    if found is None:
        return None
    advantage = found.advantage
    outcome = _outcome(found, advantage)
    if found.is_equal and not found.is_same_computation:  # equal numbers give no interval
        advantage = Estimate(n=advantage.n, point=advantage.point)
    is_open = outcome in (ClaimOutcome.INCONCLUSIVE, ClaimOutcome.UNDERPOWERED)
    strong = strength(found)
    why_exploratory = _why_exploratory(about)
    return Verdict(
        outcome=outcome,
        advantage=advantage,
        statement=found.claim.statement.strip().rstrip("."),
        kind=_kind(about, outcome, is_exploratory=bool(why_exploratory)),
        finding=_finding(found, advantage, outcome),
        basis=_rests_on(found, advantage, outcome) + _would_settle(found, strong, is_open=is_open),
        effect=_effect(found, advantage),
        details=() if found.is_exact else tuple(details(found, strong, is_open=is_open)),
        is_ratio=found.is_ratio,
        p=p_of_no_difference(found),
        sign_flip=strong.sign_flip,
        improvement=strong.improvement,
        num_seeds_to_settle=strong.num_seeds_to_settle if is_open else None,
        smallest_effect=strong.smallest_effect,
        is_check=found.claim.is_check,
        is_exploratory=bool(why_exploratory),
        remark=why_exploratory,
        diverged=found.diverged,
    )


def judge(advantage: Estimate, by: float) -> ClaimOutcome:
    """Return the outcome for an interval of the advantage and a claimed size.

    Args:
        advantage: The advantage, signed so that positive is better.
        by: The claimed size, not negative; the claim is that the advantage is at least as large.
    """
    low, high, point = advantage.low, advantage.high, advantage.point
    if advantage.n < MIN_PAIRS or low is None or high is None or point is None:
        return ClaimOutcome.UNDERPOWERED
    if low > 0:
        return ClaimOutcome.SMALLER if high < by else ClaimOutcome.SUPPORTED
    if high < 0:
        return ClaimOutcome.REFUTED
    if -by < low and high < by:
        return ClaimOutcome.EQUIVALENT
    return ClaimOutcome.REFUTED if high < by else ClaimOutcome.INCONCLUSIVE


_DIRECTED = (ClaimOutcome.SUPPORTED, ClaimOutcome.SMALLER, ClaimOutcome.REFUTED)


def _outcome(found: Evidence, advantage: Estimate) -> ClaimOutcome:
    if found.why_invalid:
        return ClaimOutcome.INVALID
    if found.why_not_tested:
        return ClaimOutcome.NOT_TESTED
    if found.diverged:
        return (
            ClaimOutcome.UNDERPOWERED if found.num_pairs < MIN_PAIRS else ClaimOutcome.INCONCLUSIVE
        )
    if found.is_equal:
        same, alike = ClaimOutcome.IDENTICAL, ClaimOutcome.NO_DIFFERENCE
        return same if found.is_same_computation else alike
    if found.is_exact:
        advantage = replace(advantage, n=max(advantage.n, MIN_PAIRS))
    outcome = judge(advantage, found.by)
    if found.is_unresolved and outcome in _DIRECTED:
        return ClaimOutcome.INCONCLUSIVE
    is_hasty = outcome is ClaimOutcome.EQUIVALENT and found.is_mostly_noisy
    return ClaimOutcome.INCONCLUSIVE if is_hasty else outcome


def _kind(about: About, outcome: ClaimOutcome, *, is_exploratory: bool) -> str:
    is_check = about.claim is not None and about.claim.is_check
    remarks = {
        "a check": is_check,
        "exploratory": is_exploratory and not is_check,
        "indicative": about.is_indicative and not is_check,
    }
    return ", ".join([outcome, *(word for word, holds in remarks.items() if holds)])


def _why_exploratory(about: About) -> str:
    """Return why the test is exploratory; empty if it is confirmatory or has no known history."""
    earlier = [each for each in about.editions if each.is_earlier_test]
    earlier.sort(key=lambda each: (each.started_seconds, each.number))
    tested = [
        f"{in_words(each, about)} (edition {each.number}: {each.verdict or 'no verdict'})"
        for each in earlier
    ]
    return " ".join(
        filter(
            None,
            (
                f"Edition {about.edition} of this ablation: the claim was already tested with "
                f"{listed(tested)}, so this verdict is exploratory."
                if tested
                else "",
                _what_was_seen(about.registration) if about.registration else "",
            ),
        )
    )


def _what_was_seen(registration: Registration) -> str:
    """Return a sentence on results measured before the claim was stated; empty without any."""
    if registration.is_confirmatory:
        return ""
    n = registration.num_pairs_before
    text = (
        f"Exploratory, because {n} seed{' was' if n == 1 else 's were'} measured before the claim "
        "was stated in its present form"
    )
    changes = ", ".join(registration.changes)
    return f"{text}; changed since it was first stated: {changes}." if changes else f"{text}."


def _finding(found: Evidence, advantage: Estimate, outcome: ClaimOutcome) -> str:
    if found.why_invalid:
        return f"no verdict, since {found.why_invalid}"
    if found.claim.counted_by and found.why_not_tested and advantage.point is None:
        return f"no verdict, since {found.why_not_tested}"
    verb, size = _against_claimed(found, advantage, outcome)
    remark = f"; the interval {verb} {size}" if verb == "contains" else f", {size}" if size else ""
    remark = remark or _remark(found, outcome)
    return f"{_difference(found, advantage)}{remark}{_why_not_tested(found)}"


def _rests_on(found: Evidence, advantage: Estimate, outcome: ClaimOutcome) -> str:
    """Return `Verdict.basis`."""
    if found.why_invalid or found.diverged or advantage.low is None:
        return f"{capitalized(_finding(found, advantage, outcome))}."
    verb, size = _against_claimed(found, advantage, outcome)
    remark = f" and {verb} {size}" if size else _remark(found, outcome)
    if found.is_exact:
        return f"Both numbers are exact{f'; their difference {verb} {size}' if size else ''}."
    seeds = found.count(advantage.n, "paired")
    return f"The 95 % interval is that of {seeds}{remark}{_why_not_tested(found)}."


def _would_settle(found: Evidence, strong: Strength, *, is_open: bool) -> str:
    if not is_open or strong.num_seeds_to_settle is None:
        return ""
    return f" About {found.count(strong.num_seeds_to_settle)} would settle it."


def _why_not_tested(found: Evidence) -> str:
    if not found.why_not_tested:
        return ""
    return (
        "; this does not show which is better once the task is learnt, since "
        f"{found.why_not_tested}"
    )


def _effect(found: Evidence, advantage: Estimate) -> str:
    if advantage.point is None:
        return ""
    if found.speedup is not None:
        size, interval = speedup_in_words(found.speedup)
        unit = COUNTED[found.claim.counted_by]
        return f"{size} times the {unit}{f' ({interval})' if interval else ''}"
    notation = found.notation(advantage)
    write = as_times if found.is_ratio else notation.write_signed
    size = write(advantage.point)
    if found.is_ratio:
        size = f"{size} times as fast"
    elif notation.unit:
        size = notation.with_unit(size)
    else:
        size = f"{size} in {readable(found.claim.metric)}"
    if advantage.low is None or advantage.high is None or found.is_exact:
        return size
    return f"{size} ({write(advantage.low)} to {write(advantage.high)})"


def _difference(found: Evidence, advantage: Estimate) -> str:
    if found.diverged:
        sides = " and ".join(str(side) for side in found.diverged)
        return (
            f"seeds diverged, {sides}; a diverged run has no score, and a mean over the others "
            "would be biased"
        )
    if found.is_equal and not found.is_same_computation:
        return what_was_equal(found)
    if found.speedup is not None:
        return _comparison_of_budgets(found, advantage, found.speedup)
    return (_comparison_of_times if found.is_ratio else _comparison)(found, advantage)


def _comparison(found: Evidence, advantage: Estimate) -> str:
    """Return the size of the advantage as text, with its sign if the interval includes zero."""
    assert advantage.point is not None, "a claim with no pair is invalid"
    notation, (a, b) = found.notation(advantage), found.names
    if not advantage.excludes_zero:
        size = notation.with_unit(notation.write_signed(advantage.point))
        basis = _basis(found, advantage, notation.write_signed)
        return f"the advantage of {a} over {b} is {size} {basis}"
    word = "worse" if advantage.point < 0 else "better"
    size = notation.with_unit(notation.write(abs(advantage.point)))
    basis = _basis(found, advantage, lambda end: notation.write(abs(end)))
    return f"{a} is {word} than {b} by {size} {basis}"


def _comparison_of_times(found: Evidence, advantage: Estimate) -> str:
    assert advantage.point is not None, "a claim with no pair is invalid"
    word = "slower" if advantage.point < 0 else "faster"
    verb = "is" if advantage.excludes_zero and not found.is_unresolved else "came out"
    a, b = found.names
    text = f"{a} {verb} {word} than {b}, {as_times(advantage.point)}"
    return f"{text} times as fast {_basis(found, advantage, as_times)}"


def _comparison_of_budgets(found: Evidence, advantage: Estimate, speedup: Speedup) -> str:
    needs = what_is_needed(found, *found.names)
    by_means = "" if advantage.excludes_zero and not found.is_unresolved else "by the means, "
    _, interval = speedup_in_words(speedup)
    count = found.count(advantage.n, "paired")
    basis = f"{100 * (1 - ALPHA):.4g} % interval {interval}, {count}" if interval else count
    return f"{by_means}{needs} ({basis})"


def _basis(found: Evidence, advantage: Estimate, write: Callable[[float], str]) -> str:
    """Return the interval, if there is one, and the number of pairs, in parentheses."""
    if found.is_exact:
        return "(exact)"
    count = found.count(advantage.n, "paired")
    if advantage.low is None or advantage.high is None:
        return f"({count})"
    ends = [write(end) for end in (advantage.low, advantage.high)]
    if advantage.high < 0 and not found.is_ratio:  # sizes: the smaller end comes first
        ends.reverse()
    return f"({100 * (1 - ALPHA):.4g} % interval {ends[0]} to {ends[1]}, {count})"


def _claimed(found: Evidence) -> str:
    """Return the claimed size as text, such as ``the 0.02 bit claimed``."""
    if found.claim.counted_by:
        return f"the factor of {found.claim.by:g} claimed"
    unit = "" if found.series is None or found.series.unit == "1" else f" {found.series.unit}"
    return f"the {found.claim.by:g}{unit} claimed"


def _against_claimed(
    found: Evidence, advantage: Estimate, outcome: ClaimOutcome
) -> tuple[str, str]:
    """Return what the interval does, ``contains`` or ``is``, and the claimed size; else nothing."""
    by, low, claimed = found.by, advantage.low, _claimed(found)
    match outcome:
        case _ if found.diverged:
            return "", ""
        case ClaimOutcome.SUPPORTED if by and low is not None:
            return ("contains", claimed) if by > low else ("is", f"at least {claimed}")
        case ClaimOutcome.SMALLER:
            return "is", f"less than {claimed}"
        case ClaimOutcome.REFUTED if by and not advantage.excludes_zero:
            return "is", f"less than {claimed}"
        case ClaimOutcome.INCONCLUSIVE if by and not (found.is_unresolved or found.is_mostly_noisy):
            return "contains", f"both {1 if found.is_ratio else 0} and {claimed}"
        case _:
            return "", ""


def _remark(found: Evidence, outcome: ClaimOutcome) -> str:
    """Return a clause on the outcome, where it does not depend on the claimed size alone."""
    if found.diverged:
        return ""
    match outcome:
        case ClaimOutcome.UNDERPOWERED:
            return f"; at least {MIN_PAIRS} pairs are needed for a verdict"
        case ClaimOutcome.EQUIVALENT:
            return f"; either way it is less than {_claimed(found)}"
        case ClaimOutcome.INCONCLUSIVE if found.is_unresolved:
            ratio = as_ratio(math.exp(found.resolution))
            return f"; repeated measurements of the baseline differ by a ratio of up to {ratio}"
        case ClaimOutcome.INCONCLUSIVE if found.is_mostly_noisy:
            return "; most of the timings are noisy"
        case _:
            return ""


def with_q_values(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Return the verdicts of an overview with their q-values; no other claim moves a verdict.

    Checks, which hold by construction, and claims without a test are not counted.
    """
    ps = {
        name: each.p for name, each in verdicts.items() if each.p is not None and not each.is_check
    }
    qs = q_values(ps)
    return {name: replace(each, q=qs.get(name)) for name, each in verdicts.items()}
