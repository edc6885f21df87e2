"""The strength of a claim's data, and how many more seeds would settle it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from reports.analysis.claim_data import Evidence
from reports.stats.aggregate import Improvement, improvement
from reports.stats.intervals import mean_interval, smallest_level, standard_deviation
from reports.stats.number_format import as_ratio
from reports.stats.significance import (
    MIN_PAIRS,
    MOST_SEEDS,
    Family,
    SignFlip,
    SmallestLevels,
    num_seeds_to_settle,
    sign_flip,
    smallest_effect,
)


@dataclass(frozen=True, kw_only=True)
class Strength:
    """What is said of a claim beside its verdict.

    Attributes:
        sign_flip: Of no difference; None where a seed is lost or diverged.
        improvement: Of `a` over `b`, diverged seeds counted; None where a seed is lost.
        spread: Standard deviation of the paired differences; NaN of fewer than two.
        num_seeds_to_settle: None where it takes more than 1,000.
        smallest_effect: Told from zero four times in five by as many seeds with that spread.
    """

    sign_flip: SignFlip | None = None
    improvement: Improvement | None = None
    spread: float = math.nan
    num_seeds_to_settle: int | None = None
    smallest_effect: float | None = None


def smallest_levels(found: Evidence) -> SmallestLevels:
    """How clear the claim is; not at all where a seed is lost or diverged, or pairs are too few."""
    if not found.is_whole or found.num_pairs < MIN_PAIRS:
        return SmallestLevels()
    return SmallestLevels(
        decides=smallest_level(found.differences, _boundary(found)) if _gap(found) > 0 else 1.0,
        excludes_zero=smallest_level(found.differences),
    )


def strength(found: Evidence, family: Family) -> Strength:
    """Of the evidence, at the level at which it is judged."""
    if found.trouble:
        return Strength()
    if found.diverged:
        return Strength(improvement=improvement(found.ordered))
    spread, n = standard_deviation(found.differences), len(found.differences)
    is_known = not math.isnan(spread)
    return Strength(
        sign_flip=sign_flip(found.differences, family.level),
        improvement=improvement(found.ordered),
        spread=spread,
        num_seeds_to_settle=num_seeds_to_settle(_gap(found), spread, family.level)
        if is_known
        else None,
        smallest_effect=smallest_effect(spread, n, family.level) if is_known else None,
    )


def details(found: Evidence, strong: Strength, family: Family, *, is_open: bool) -> Iterator[str]:
    """Whole sentences, the most telling first.

    Args:
        found: What the claim rests on.
        strong: Its strength.
        family: In which it was judged.
        is_open: Whether more seeds could still settle it.
    """
    if strong.improvement:
        yield _improvement(found, strong.improvement)
    if strong.sign_flip:
        yield from _sign_flip(found, strong.sign_flip)
    if is_open and found.is_whole:
        yield _to_settle(found, strong)
    if found.is_whole and found.num_pairs >= MIN_PAIRS:
        yield _family(family)


def _boundary(found: Evidence) -> float:
    """What the interval must leave out: zero, or the claimed size where the mean falls short."""
    mean = math.fsum(found.differences) / len(found.differences)
    return 0.0 if mean >= found.claim.by else found.claim.by


def _gap(found: Evidence) -> float:
    return abs(math.fsum(found.differences) / len(found.differences) - _boundary(found))


def _improvement(found: Evidence, made: Improvement) -> str:
    chance = made.probability
    equal = f", equal in {made.num_equal}" if made.num_equal else ""
    text = (
        f"{found.claim.a} was better in {made.num_better} of {found.count(chance.n)}{equal}: "
        f"probability of improvement {chance.point:.2f} "
        f"(95 % interval {chance.low:.2f} to {chance.high:.2f})."
    )
    rule = "A diverged seed counted as worse than any score, "
    return rule + text if found.diverged else text


def _sign_flip(found: Evidence, test: SignFlip) -> Iterator[str]:
    if test.p is not None:
        yield (
            f"Without supposing a normal distribution: exact sign-flip p = {test.p:.2g} "
            f"(two-sided, {found.count(test.n)})."
        )
    elif test.n < test.num_pairs_needed:
        yield (
            f"An exact sign-flip test cannot go below p = {test.least_p:.2g} with "
            f"{found.count(test.n)}; it takes {test.num_pairs_needed} to reach {test.alpha:.3g}."
        )


def _to_settle(found: Evidence, strong: Strength) -> str:
    n = found.num_pairs
    if math.isnan(strong.spread):
        return "One pair shows no spread, so nobody can say how many would settle it."
    needed = strong.num_seeds_to_settle
    about = f"more than {MOST_SEEDS:,}" if needed is None else f"about {needed:,}"
    text = f"If mean and spread stay as they are, {found.count(about)} would settle it"
    if n < MIN_PAIRS or not strong.smallest_effect:
        return f"{text}."
    effect = _size(found, strong.smallest_effect)
    return f"{text}; these {n} find a true difference of {effect} four times in five."


def _size(found: Evidence, effect: float) -> str:
    """A difference, written as the advantage is."""
    if found.is_ratio:
        return f"a factor of {as_ratio(math.exp(min(effect, 700.0)))}"
    written = found.notation(mean_interval(found.differences))
    return written.with_unit(written.write(effect))


def _family(family: Family) -> str:
    level = f"{100 * family.level:.3g} %"
    if family.num_claims == 1:
        return (
            f"The verdict is that of Student's t interval of paired differences at the {level} "
            "level, which supposes errors close to normal: the one claim of this ablation; every "
            "other comparison is exploratory."
        )
    return (
        f"Judged by Student's t interval at the {level} level: Holm keeps the chance of any false "
        f"verdict among the {family.num_claims} claims of this overview at "
        f"{100 * family.alpha:.3g} %."
    )
