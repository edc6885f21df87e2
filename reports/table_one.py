"""Table 1 of "Attention Is All You Need" (arXiv:1706.03762), every column measured, beside theory.

Time is that of the forward and backward pass, FLOPs are those of the forward pass by formula,
memory is the peak of the forward and backward pass. Theory's powers are slopes of its formulas
over the same places as the measured ones, so that both are a stretch of the same curve; it says
nothing of memory. Where the two disagree, `reports.disagreements` says so and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from reports.disagreements import Case, Power, disagreements
from reports.growth import Axis, Growth, environments, find
from reports.scaling import Exponent, exponent, slope_over
from reports.stats.intervals import Estimate
from reports.utilisation import FLOPS, TIME, utilisation
from suite.schema import About, MixerFacts

__all__ = ["PathLength", "Power", "TableOneRow", "table_one", "utilisation"]

AXES: tuple[Axis, ...] = get_args(Axis)
MEMORY = "forward_backward_peak_bytes"
STEPS, PATH = "sequential_operations", "maximum_path_length"
_THEORY: Mapping[str, str] = {
    TIME: "theory_operations",
    FLOPS: "theory_operations",
    STEPS: "theory_sequential_operations",
    PATH: "theory_maximum_path_length",
}


@dataclass(frozen=True, kw_only=True)
class PathLength:
    """The longest way between two positions, at the largest length it was measured at.

    Attributes:
        place: Tokens.
        measured: Layers and dependent steps.
        by_theory: The formula's value there, without constant factors; None where it has none.
    """

    place: int
    measured: float
    by_theory: float | None


@dataclass(frozen=True, kw_only=True)
class TableOneRow:
    """One variant, in one environment.

    Attributes:
        mixer: Its name; empty where nothing is known of it.
        environment_id: Where times and memory were measured; empty where none were.
        theory: Its row of Table 1, as formulas.
        time: By axis: measured and theory's power, of forward and backward.
        flops: The same, of the forward pass.
        memory: The same; theory has none.
        sequential_operations: Measured and theory's power, along lengths.
        maximum_path_length: None where it was not measured.
        disagreements: Sentences, each with its reason.
    """

    variant: str
    mixer: str
    environment_id: str
    theory: MixerFacts
    time: Mapping[Axis, Power]
    flops: Mapping[Axis, Power]
    memory: Mapping[Axis, Power]
    sequential_operations: Power
    maximum_path_length: PathLength | None
    disagreements: tuple[str, ...]


def table_one(about: About, growths: Sequence[Growth]) -> tuple[TableOneRow, ...]:
    """One row a variant and environment, in the order of the ablation.

    Args:
        about: Names the variants, their mixers and the formulas.
        growths: As `reports.growth.growths` gives them.
    """
    seen = {variant for growth in growths for variant in growth.variants}
    return tuple(
        _row(about, growths, variant, environment_id)
        for environment_id in environments(growths) or ("",)
        for variant in about.variants
        if variant in seen
    )


def _row(about: About, growths: Sequence[Growth], variant: str, environment_id: str) -> TableOneRow:
    facts = about.subjects.get(variant, MixerFacts(mixer=""))
    here = tuple(g for g in growths if g.environment_id in ("", environment_id))
    powers = {
        metric: {axis: _power(here, metric, axis, variant) for axis in AXES}
        for metric in (TIME, FLOPS, MEMORY, STEPS, PATH)
    }
    case = Case(growths=here, variant=variant, environment_id=environment_id, powers=powers)
    return TableOneRow(
        variant=variant,
        mixer=facts.mixer,
        environment_id=environment_id,
        theory=facts,
        time=powers[TIME],
        flops=powers[FLOPS],
        memory=powers[MEMORY],
        sequential_operations=powers[STEPS]["length"],
        maximum_path_length=_path_length(here, variant),
        disagreements=tuple(disagreements(case)),
    )


def _power(growths: Sequence[Growth], metric: str, axis: Axis, variant: str) -> Power:
    growth = find(growths, metric, axis)
    if growth is None:
        nothing = Exponent(estimate=Estimate(n=0), is_pre_asymptotic=True, reason="not measured")
        return Power(measured=nothing, theory=None)
    measured = exponent(growth, variant)
    formula = find(growths, _THEORY.get(metric, ""), axis)
    theory = slope_over(formula, variant, measured.places).point if formula else None
    return Power(measured=measured, theory=theory)


def _path_length(growths: Sequence[Growth], variant: str) -> PathLength | None:
    growth, formula = find(growths, PATH), find(growths, _THEORY[PATH])
    measured = growth.measured(variant) if growth else ()
    if growth is None or not measured:
        return None
    value = growth.point(variant, measured[-1])
    assert value is not None, "a measured place has a number"
    by_theory = formula.point(variant, measured[-1]) if formula else None
    return PathLength(place=measured[-1], measured=value, by_theory=by_theory)
