"""Reads off a sweep the trainings that a scaling law is fitted to, and those that it predicts.

An ablation names the axes along which size and data grow, and the values that it holds out. The
variants that are alike on all other axes make a group, with a law of its own. What is held out is
never among the points that a law is fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from reports.analysis.cost import setting, variant_costs
from reports.analysis.scaling_law import FittedLaw, ScalingPoint, TooFewPoints, fitted_law
from reports.results.axis_values import as_text, number, values_of
from reports.results.series import Series, num_expected
from reports.stats.intervals import Estimate, mean_interval
from suite.schema import About
from suite.schema.old_labels import Value, named_values

_UNIT = "bit"
_PARAMETERS, _FLOPS, _LENGTH = "num_parameters", "forward_flops", "length"
ALL_TRAININGS = "all trainings"


@dataclass(frozen=True, kw_only=True)
class LawVariant:
    """A variant of which size, data and loss are known.

    Attributes:
        flops: Of one training; None where they are not known.
        num_missing: Planned seeds without a loss.
    """

    variant: str
    point: ScalingPoint
    flops: float | None
    num_missing: int

    @property
    def loss(self) -> Estimate:
        """Mean over seeds, and its interval."""
        return mean_interval(sorted(self.point.losses))

    @property
    def mean(self) -> float:
        """Of the losses."""
        return math.fsum(self.point.losses) / len(self.point.losses)


@dataclass(frozen=True, kw_only=True)
class LawPrediction:
    """What a law says of a larger training, beside what came out.

    Attributes:
        predicted: With the interval that 95 % of such trainings fall into, if the law goes on.
    """

    larger: LawVariant
    predicted: Estimate

    @property
    def ends(self) -> tuple[float, float]:
        """Of the interval."""
        low, high = self.predicted.low, self.predicted.high
        assert low is not None, "a prediction has an interval"
        assert high is not None, "and that has two ends"
        return low, high

    @property
    def is_inside(self) -> bool:
        """Whether the measured mean lies within the interval."""
        low, high = self.ends
        return low <= self.larger.mean <= high

    @property
    def miss(self) -> float:
        """Measured less predicted: below zero where it came out better."""
        assert self.predicted.point is not None, "a prediction has a number"
        return self.larger.mean - self.predicted.point


@dataclass(frozen=True, kw_only=True)
class LawGroup:
    """Variants that differ in size and data alone.

    Attributes:
        name: As ``mixer=attention``.
        others: The values on the axes that the law does not run along.
        index: Its place among the groups.
        seen: What the law is fitted to, in the order of the ablation.
        held_out: What it predicts.
        num_lost: Variants of which no seed has a loss.
    """

    name: str
    others: Mapping[str, Value]
    index: int
    seen: tuple[LawVariant, ...]
    held_out: tuple[LawVariant, ...]
    num_lost: int

    @property
    def short_name(self) -> str:
        """As ``attention``: without the axes, which a heading names."""
        return ", ".join(map(as_text, self.others.values())) or self.name

    @cached_property
    def _law_or_reason(self) -> FittedLaw | str:
        try:
            return fitted_law([one.point for one in self.seen], self.name)
        except TooFewPoints as reason:
            return str(reason)

    @property
    def law(self) -> FittedLaw | None:
        """None where `why_no_law` says why."""
        found = self._law_or_reason
        return None if isinstance(found, str) else found

    @property
    def why_no_law(self) -> str:
        """One phrase; empty where there is a law."""
        found = self._law_or_reason
        return found if isinstance(found, str) else ""

    @property
    def predictions(self) -> tuple[LawPrediction, ...]:
        """One a held-out variant; none without a law."""
        law = self.law
        if law is None:
            return ()
        return tuple(
            LawPrediction(
                larger=one, predicted=law.predicted(one.point.num_parameters, one.point.num_tokens)
            )
            for one in self.held_out
        )

    @property
    def num_missing(self) -> int:
        """Seeds of variants that have others."""
        return sum(one.num_missing for one in (*self.seen, *self.held_out))

    def flops_per_token(self) -> Callable[[float], float] | None:
        """Training FLOPs of a token by parameters, between sizes as a power; None if unknown."""
        known = {
            one.point.num_parameters: one.flops / one.point.num_tokens
            for one in (*self.seen, *self.held_out)
            if one.flops
        }
        return _power_between(dict(sorted(known.items()))) if len(known) > 1 else None


def law_groups(about: About, measured: Sequence[Series], task: str) -> tuple[LawGroup, ...]:
    """A group for each combination of the other axes; none where no law is asked for.

    Args:
        about: Names the axes and what is held out.
        measured: All of the sweep.
        task: Scored by a loss in bits.
    """
    scores = [s for s in measured if s.task == task and s.is_whole_score and s.unit == _UNIT]
    if not about.held_out or not scores:
        return ()
    found = {one.variant: one for one in _variants(about, measured, scores[0])}
    groups: dict[tuple[tuple[str, Value], ...], list[str]] = {}
    for variant in about.variants:
        named = values_of(about, variant)
        if about.held_out.keys() <= named.keys():
            rest = tuple((n, v) for n, v in named.items() if n not in about.held_out)
            groups.setdefault(rest, []).append(variant)
    return tuple(
        _group(about, dict(rest), index, variants, found)
        for index, (rest, variants) in enumerate(groups.items())
    )


def _group(
    about: About,
    others: Mapping[str, Value],
    index: int,
    variants: Sequence[str],
    found: Mapping[str, LawVariant],
) -> LawGroup:
    name = ", ".join(f"{axis}={as_text(value)}" for axis, value in others.items())
    here = [found[variant] for variant in variants if variant in found]
    return LawGroup(
        name=name or ALL_TRAININGS,
        others=others,
        index=index,
        seen=tuple(one for one in here if not _is_held_out(about, one.variant)),
        held_out=tuple(one for one in here if _is_held_out(about, one.variant)),
        num_lost=len(variants) - len(here),
    )


def _is_held_out(about: About, variant: str) -> bool:
    named = values_of(about, variant)
    return all(number(named[name]) == value for name, value in about.held_out.items())


def _variants(about: About, measured: Sequence[Series], score: Series) -> Iterator[LawVariant]:
    """Those that have parameters, tokens and a positive loss."""
    sizes = _first(measured, score.task, _PARAMETERS)
    counted = _first(measured, score.task, _FLOPS)
    costs = {cost.key: cost.amounts for cost in variant_costs(about, measured, score.task)}
    for variant in about.variants:
        parameters = sizes.values(variant) if sizes else {}
        steps, batch = (setting(about, variant, name) for name in ("steps", "batch"))
        num_tokens = steps * batch * _length(about, variant, counted)
        losses = {seed: loss for seed, loss in score.values(variant).items() if loss > 0}
        if not (parameters and num_tokens and losses):
            continue
        yield LawVariant(
            variant=variant,
            flops=costs.get("flops", {}).get(variant),
            num_missing=max(0, num_expected(score, about) - len(losses)),
            point=ScalingPoint(
                num_parameters=float(min(parameters.values())),
                num_tokens=float(num_tokens),
                losses=tuple(losses[seed] for seed in sorted(losses)),
            ),
        )


def _first(measured: Sequence[Series], task: str, metric: str) -> Series | None:
    return next((s for s in measured if (s.task, s.metric) == (task, metric)), None)


def _length(about: About, variant: str, counted: Series | None) -> int:
    """Tokens of a sequence: where FLOPs were counted, else as the scale says."""
    at = [named_values(reading.at) for reading in counted.of(variant)] if counted else []
    known = [named[_LENGTH] for named in at if named.get(_LENGTH, "").isdigit()]
    return int(known[0]) if known else setting(about, variant, _LENGTH)


def _power_between(known: Mapping[float, float]) -> Callable[[float], float]:
    """Through all of them, straight on logarithmic axes; beyond the ends as next to them."""
    logs = [(math.log(x), math.log(y)) for x, y in known.items()]

    def found(x: float) -> float:
        at = math.log(x)
        pairs = list(pairwise(logs))
        inside = [pair for pair in pairs if at <= pair[1][0]]
        (x0, y0), (x1, y1) = inside[0] if inside else pairs[-1]
        return math.exp(y0 + (y1 - y0) * (at - x0) / (x1 - x0))

    return found
