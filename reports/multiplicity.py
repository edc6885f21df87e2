"""At which level is each of several claims judged, so that all of them together err seldom?

Holm's step-down rule (Scandinavian Journal of Statistics 6, 1979): the clearest claim is judged at
alpha / m; each one that is found to differ leaves the family, and the next is judged at alpha over
those that remain; the first that stays open ends it.

One thing is stricter here. A claim leaves the family only where its interval excludes zero. Holm's
proof needs that what left had no more chance to err; a claim that was found equivalent, or too
small, may well be one of no difference, and keeps its share. Then, however the claims depend on
each other, the chance that the interval of any claim of no difference leaves zero out is at most
alpha. docs/statistics.md has the argument, and what is known of errors of direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class SmallestLevels:
    """How clear a claim is, in levels: the smallest that says something; 1 where none does.

    Attributes:
        decides: The smallest level whose interval decides the claim.
        excludes_zero: The smallest level whose interval leaves zero out.
    """

    decides: float = 1.0
    excludes_zero: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Family:
    """The claims that are judged together, seen from one of them.

    Attributes:
        level: The level at which this one is judged; its interval is that of 1 - level.
        num_claims: In the family.
        alpha: Of all of them together.
    """

    level: float = ALPHA
    num_claims: int = 1
    alpha: float = ALPHA


def holm(claims: Mapping[str, SmallestLevels], alpha: float = ALPHA) -> dict[str, Family]:
    """The level at which each claim is judged, and the size of its family.

    Those after the first that stays open are judged at the level at which it was.
    """
    num_remaining, is_open = len(claims), False
    families: dict[str, Family] = {}
    for name in sorted(claims, key=lambda name: (claims[name].decides, name)):
        level = alpha / num_remaining
        families[name] = Family(level=level, num_claims=len(claims), alpha=alpha)
        is_open = is_open or claims[name].decides >= level
        if not is_open and claims[name].excludes_zero < level:
            num_remaining -= 1
    return families
