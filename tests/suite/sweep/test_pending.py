"""Tests for the remaining work: each trial once, timings per environment, and the order."""

from dataclasses import replace

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.probe import PROBES, probe
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import TIMING_PROBES, Plan, Resources
from bakeoff.suite.spec import vary
from bakeoff.suite.sweep.pending import (
    Pending,
    distinct_work,
    environment_of_most,
    fixed_environment,
    is_done,
    pending_work,
    split_by_seed,
)
from tests.suite.small_ablation import make_ablation


@pytest.fixture(scope="module")
def planned() -> Plan:
    axes = [vary("depth", [1, 4, 2])]
    return plan(make_ablation(axes=axes, probes=["quality", "parameters", "step_time"]), seeds=2)


def test_everything_is_missing_at_first_and_each_trial_stands_in_one_phase(planned: Plan) -> None:
    missing = pending_work([planned], {})
    assert missing.num_trials == len(planned.trials) == 11
    assert missing.num_done == 0
    assert {trial.probe for trial, _ in missing.alone} == {"step_time"}
    assert {trial.probe for trial, _ in missing.packed} == {"quality", "parameters"}


def test_every_timing_probe_is_one() -> None:
    assert set(PROBES) >= TIMING_PROBES
    assert {name for name in PROBES if probe(name).is_timing} == TIMING_PROBES


def test_the_shortest_of_a_kind_comes_first_then_a_seed_of_each_variant_the_largest_first(
    planned: Plan,
) -> None:
    trained = [
        (trial.seed, trial.subjects[0].depth)
        for trial, _ in pending_work([planned], {}).packed
        if trial.probe == "quality"
    ]
    assert trained == [(0, 1), (0, 4), (0, 2), (1, 4), (1, 2), (1, 1)]


def test_a_trial_that_two_plans_share_is_run_once(planned: Plan) -> None:
    other = replace(planned, about=replace(planned.about, ablation="other"))
    assert pending_work([planned, other], {}).num_trials == len(planned.trials)
    assert [trial for trial, _ in distinct_work([planned, other])] == list(planned.trials)


def test_a_quality_trial_is_done_by_a_result_from_anywhere(planned: Plan) -> None:
    done = {trial.trial_id: {"elsewhere"} for trial in planned.trials}
    missing = pending_work([planned], done)
    assert missing.packed == ()
    assert len(missing.alone) == 2
    assert missing.num_done == 9


def test_a_timing_is_done_by_a_result_from_here(planned: Plan) -> None:
    here = provenance(planned.resources).environment_id
    done = {trial.trial_id: {"elsewhere", here} for trial in planned.trials}
    assert pending_work([planned], done).num_trials == 0
    timing = next(trial for trial in planned.trials if trial.probe == "step_time")
    other_threads = Resources(num_cpus=7, num_threads=7)
    assert is_done(timing, planned.resources, done)
    assert not is_done(timing, other_threads, done)


def test_a_sweep_on_a_cluster_keeps_to_the_environment_of_its_timings(planned: Plan) -> None:
    first, second = [trial.trial_id for trial in planned.trials if trial.probe == "step_time"]
    done = {trial.trial_id: {"anywhere"} for trial in planned.trials} | {
        first: {"gpu", "cpu"},
        second: {"gpu"},
    }
    assert environment_of_most([planned], done, planned.resources) == "gpu"
    assert environment_of_most([planned], done, Resources(num_cpus=7)) == ""
    assert pending_work([planned], done, fixed_environment("gpu")).num_trials == 0
    left = pending_work([planned], done, fixed_environment("cpu"))
    assert [trial.trial_id for trial, _ in left.alone] == [second]


def test_before_there_are_timings_no_environment_is_kept_to(planned: Plan) -> None:
    trained = {t.trial_id: {"anywhere"} for t in planned.trials if t.probe == "quality"}
    assert environment_of_most([planned], trained, planned.resources) == ""
    assert len(pending_work([planned], trained, fixed_environment("")).alone) == 2


def test_a_timing_that_two_plans_give_other_threads_is_one_for_each(
    planned: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check both thread counts, because a comparison must not mix their timings."""
    monkeypatch.setattr("bakeoff.suite.provenance.cpu_model", lambda: "a CPU")
    two = replace(planned, resources=Resources(num_cpus=2, num_threads=2))
    plans = [planned, two]
    missing = pending_work(plans, {})
    timings = {t.trial_id for t in planned.trials if t.probe == "step_time"}
    assert {(trial.trial_id, asked) for trial, asked in missing.alone} == {
        (trial_id, plan.resources) for trial_id in timings for plan in plans
    }
    assert len(missing.packed) == 9
    here = provenance(planned.resources).environment_id
    done = {trial.trial_id: {here} for trial in planned.trials}
    left = pending_work(plans, done)
    assert {(trial.trial_id, asked) for trial, asked in left.alone} == {
        (trial_id, two.resources) for trial_id in timings
    }
    assert environment_of_most(plans, done, planned.resources) == here
    assert environment_of_most(plans, done, two.resources) == here  # only a preference of a cluster


# --- the order, if a sweep may be cut ------------------------------------------------------------


@pytest.fixture(scope="module")
def missing() -> Pending:
    ablation = make_ablation(
        axes=[vary("depth", [1, 4, 2])], probes=["quality", "parameters", "step_time"]
    )
    return pending_work([plan(ablation, seeds=3)], {})


def test_without_a_limit_all_is_one_stage(missing: Pending) -> None:
    assert list(split_by_seed(missing, may_be_cut=False)) == [(missing, None)]


def test_where_it_may_be_cut_a_seed_of_everything_comes_before_the_next(missing: Pending) -> None:
    found = list(split_by_seed(missing, may_be_cut=True))
    assert [last_seed for _, last_seed in found] == [0, 1, None]
    for seed, (stage, _) in enumerate(found):
        depths = [t.subjects[0].depth for t, _ in stage.packed if t.probe == "quality"]
        assert depths == ([4, 2, 1] if seed else [1, 4, 2])
        assert {trial.seed for trial, _ in (*stage.packed, *stage.alone)} == {seed}
        assert [trial.probe for trial, _ in stage.alone] == ["step_time"]
    assert {t.probe for t, _ in found[0][0].packed} == {"quality", "parameters"}
    assert sum(stage.num_trials for stage, _ in found) == missing.num_trials


def test_the_last_stage_with_timings_takes_all_that_are_left_by_then(missing: Pending) -> None:
    """Check that it has no last seed, as a cluster with other nodes may need more timings."""
    timings = tuple(work for work in missing.alone if work[0].seed == 0)
    part = Pending(packed=missing.packed, alone=timings, num_done=0)
    assert [last_seed for _, last_seed in split_by_seed(part, may_be_cut=True)] == [
        None,
        None,
        None,
    ]
    assert [len(stage.alone) for stage, _ in split_by_seed(part, may_be_cut=True)] == [1, 0, 0]


def test_nothing_left_is_no_stage() -> None:
    assert list(split_by_seed(Pending(packed=(), alone=(), num_done=3), may_be_cut=True)) == []
