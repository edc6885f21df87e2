"""Which trainings a law is fitted to, which it predicts, and what best sizes follow."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reports.analysis.iso_flops import flops_budgets, frontier
from reports.analysis.scaling_data import LawGroup, law_groups
from reports.results.frame import Sweep
from reports.results.series import all_series
from tests.reports.made_scaling_law import (
    DIMS,
    HELD_OUT,
    STEPS,
    TASK,
    TRUTH,
    num_parameters,
    sweep,
)

LARGER = "mixer=lstm, dim=96, steps=4000"


def groups(of: Sweep) -> tuple[LawGroup, ...]:
    return law_groups(of.about, all_series(of.about, of.results), TASK)


@pytest.fixture(scope="module")
def made() -> tuple[LawGroup, ...]:
    return groups(sweep())


def test_a_group_a_mixer_without_what_is_held_out(made: tuple[LawGroup, ...]) -> None:
    assert [group.name for group in made] == ["mixer=attention", "mixer=lstm"]
    assert [group.short_name for group in made] == ["attention", "lstm"]
    for group in made:
        assert len(group.seen) == len(DIMS) * len(STEPS)
        assert [one.variant for one in group.held_out] == [f"{group.name}, dim=96, steps=4000"]
        assert not {one.variant for one in group.seen} & {one.variant for one in group.held_out}
        assert group.law is not None
        assert len(group.law.points) == len(group.seen)


def test_parameters_are_of_the_model_and_tokens_of_the_training(made: tuple[LawGroup, ...]) -> None:
    (larger,) = made[1].held_out
    assert larger.point.num_parameters == num_parameters(96)
    assert larger.point.num_tokens == 4000 * 32 * 64
    assert larger.flops == 3 * 2 * num_parameters(96) * larger.point.num_tokens
    assert len(larger.point.losses) == 3


def test_a_law_predicts_what_follows_it(made: tuple[LawGroup, ...]) -> None:
    for group in made:
        (one,) = group.predictions
        assert one.is_inside
        low, high = one.ends
        assert low < one.larger.mean < high


@pytest.mark.parametrize(("off", "sign"), [(0.2, 1), (-0.2, -1)])
def test_what_is_off_the_law_is_missed_and_the_side_is_told(off: float, sign: int) -> None:
    first, second = groups(sweep(off=off))
    assert first.predictions[0].is_inside
    (one,) = second.predictions
    assert not one.is_inside
    assert one.miss * sign == pytest.approx(0.2, abs=0.05)


def test_what_was_held_out_moves_no_law(made: tuple[LawGroup, ...]) -> None:
    for here, there in zip(made, groups(sweep(off=0.2)), strict=True):
        assert here.law is not None
        assert there.law is not None
        assert here.law.best.theta.tobytes() == there.law.best.theta.tobytes()


def test_the_order_of_rows_moves_nothing(made: tuple[LawGroup, ...]) -> None:
    of = sweep()
    shuffled = replace(of, results=of.results.sample(frac=1, random_state=3))
    for here, there in zip(made, groups(shuffled), strict=True):
        assert here.law is not None
        assert there.law is not None
        assert here.law.best.theta.tobytes() == there.law.best.theta.tobytes()
        assert here.predictions[0].predicted == there.predictions[0].predicted
        assert here.predictions[0].larger.loss == there.predictions[0].larger.loss


def test_what_diverged_is_left_out_and_counted() -> None:
    of = sweep()
    rows = of.results.copy()
    lost = rows["variant"].eq("mixer=lstm, dim=16, steps=250") & rows["probe"].eq("quality")
    one = rows["variant"].eq("mixer=lstm, dim=16, steps=500") & rows["seed"].eq(2)
    rows.loc[lost | one, ["value", "status"]] = [math.nan, "diverged"]
    _, group = groups(replace(of, results=rows))
    assert (group.num_lost, group.num_missing) == (1, 1)
    assert group.law is not None
    assert len(group.law.points) == 19


def test_too_few_sizes_have_no_law_but_a_reason() -> None:
    for group in groups(sweep(dims=(16, 32))):
        assert group.law is None
        assert group.predictions == ()
        assert group.why_no_law == "2 different sizes, where a law needs 3"
        assert flops_budgets(group) == ()
        assert frontier(group, [1e12]) == {}


def test_without_being_asked_there_is_no_law() -> None:
    assert groups(sweep(held_out={})) == ()


def test_the_best_size_for_a_budget_is_that_of_the_formula() -> None:
    """With 6 N FLOPs a token: Hoffmann et al. 2022, equation 4."""
    for group in groups(sweep(noise=1e-5)):
        _, a, alpha, b, beta = TRUTH[group.short_name]
        a, b = a * num_parameters(32) ** alpha, b * (1000 * 32 * 64) ** beta
        budgets = flops_budgets(group)
        assert len(budgets) == 4
        for one in budgets:
            ratio = (alpha * a / (beta * b)) ** (1 / (alpha + beta))
            best = ratio * (one.flops / 6) ** (beta / (alpha + beta))
            assert one.best_size.point == pytest.approx(best, rel=0.04)
            assert len(one.measured) >= 3
            for size, loss in one.measured.items():
                assert group.law is not None
                fitted = group.law.loss(size, one.flops / (6 * size))
                assert loss == pytest.approx(fitted, rel=0.01)  # straight between two trainings
            assert min(one.curve.values()) == pytest.approx(one.best_loss, rel=1e-3)


def test_no_size_is_measured_beyond_its_own_trainings(made: tuple[LawGroup, ...]) -> None:
    for one in flops_budgets(made[0]):
        for size in one.measured:
            spent = [v.flops for v in made[0].seen if v.point.num_parameters == size]
            assert min(filter(None, spent)) <= one.flops <= max(filter(None, spent))


def test_the_frontier_is_below_every_fitted_point(made: tuple[LawGroup, ...]) -> None:
    for group in made:
        law = group.law
        assert law is not None
        for one in group.seen:
            assert one.flops is not None
            (lowest,) = frontier(group, [one.flops]).values()
            assert lowest <= law.loss(one.point.num_parameters, one.point.num_tokens) * 1.0001


def test_what_is_held_out_is_named_by_all_its_axes() -> None:
    """A variant with one of the held-out values alone is a point like others."""
    (first, _) = groups(sweep(held_out={**HELD_OUT, "dim": 64}))
    assert [one.variant for one in first.held_out] == []
    assert len(first.seen) == 21
