"""What is done first where a sweep may be cut: one seed of everything, then the next."""

from collections.abc import Callable

import pytest

from suite.missing import Missing, missing_work
from suite.planning.plan import plan
from suite.spec import Ablation, vary
from suite.stages import stages

MakeAblation = Callable[..., Ablation]


@pytest.fixture(scope="module")
def missing(make_ablation: MakeAblation) -> Missing:
    ablation = make_ablation(
        axes=[vary("depth", [1, 4, 2])], probes=["quality", "parameters", "step_time"]
    )
    return missing_work([plan(ablation, seeds=3)], {})


def test_without_a_limit_all_is_one_stage_the_largest_first(missing: Missing) -> None:
    assert list(stages(missing, may_be_cut=False)) == [(missing, None)]
    depths = [t.subjects[0].depth for t, _ in missing.packed if t.probe == "quality"]
    assert depths == [4] * 3 + [2] * 3 + [1] * 3


def test_where_it_may_be_cut_a_seed_of_everything_comes_before_the_next(missing: Missing) -> None:
    found = list(stages(missing, may_be_cut=True))
    assert [last_seed for _, last_seed in found] == [0, 1, None]
    for seed, (stage, _) in enumerate(found):
        depths = [t.subjects[0].depth for t, _ in stage.packed if t.probe == "quality"]
        assert depths == [4, 2, 1]
        assert {trial.seed for trial, _ in (*stage.packed, *stage.alone)} == {seed}
        assert [trial.probe for trial, _ in stage.alone] == ["step_time"]
    assert {t.probe for t, _ in found[0][0].packed} == {"quality", "parameters"}
    assert sum(stage.num_trials for stage, _ in found) == missing.num_trials


def test_the_last_stage_with_timings_takes_all_that_are_left_by_then(missing: Missing) -> None:
    """On a cluster whose nodes have changed those are more than were missing at first."""
    timings = tuple(work for work in missing.alone if work[0].seed == 0)
    part = Missing(packed=missing.packed, alone=timings, num_done=0)
    assert [last_seed for _, last_seed in stages(part, may_be_cut=True)] == [None, None, None]
    assert [len(stage.alone) for stage, _ in stages(part, may_be_cut=True)] == [1, 0, 0]


def test_nothing_left_is_no_stage() -> None:
    assert list(stages(Missing(packed=(), alone=(), num_done=3), may_be_cut=True)) == []
