"""What is left to run: each trial once, largest first, timings apart and per environment."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from suite.missing import at, distinct_work, environment_of_most, is_done, missing_work
from suite.planning.plan import plan
from suite.provenance import provenance
from suite.schema import Plan, Resources
from suite.spec import Ablation, vary

MakeAblation = Callable[..., Ablation]


@pytest.fixture(scope="module")
def planned(make_ablation: MakeAblation) -> Plan:
    axes = [vary("depth", [1, 4, 2])]
    return plan(make_ablation(axes=axes, probes=["quality", "parameters", "step_time"]), seeds=2)


def test_everything_is_missing_at_first_and_each_trial_stands_in_one_phase(planned: Plan) -> None:
    missing = missing_work([planned], {})
    assert missing.num_trials == len(planned.trials) == 11
    assert missing.num_done == 0
    assert {trial.probe for trial, _ in missing.alone} == {"step_time"}
    assert {trial.probe for trial, _ in missing.packed} == {"quality", "parameters"}


def test_the_largest_trials_come_first(planned: Plan) -> None:
    depths = [
        trial.subjects[0].depth
        for trial, _ in missing_work([planned], {}).packed
        if trial.probe == "quality"
    ]
    assert depths == [4, 4, 2, 2, 1, 1]


def test_a_trial_that_two_plans_share_is_run_once(planned: Plan) -> None:
    other = replace(planned, about=replace(planned.about, ablation="other"))
    assert missing_work([planned, other], {}).num_trials == len(planned.trials)
    assert [trial for trial, _ in distinct_work([planned, other])] == list(planned.trials)


def test_a_quality_trial_is_done_by_a_result_from_anywhere(planned: Plan) -> None:
    done = {trial.trial_id: {"elsewhere"} for trial in planned.trials}
    missing = missing_work([planned], done)
    assert missing.packed == ()
    assert len(missing.alone) == 2
    assert missing.num_done == 9


def test_a_timing_is_done_by_a_result_from_here(planned: Plan) -> None:
    here = provenance(planned.resources).environment_id
    done = {trial.trial_id: {"elsewhere", here} for trial in planned.trials}
    assert missing_work([planned], done).num_trials == 0
    timing = next(trial for trial in planned.trials if trial.probe == "step_time")
    other_threads = Resources(num_cpus=7, num_threads=7)
    assert is_done(timing, planned.resources, done)
    assert not is_done(timing, other_threads, done)


def test_a_sweep_on_a_cluster_keeps_to_the_environment_of_its_timings(planned: Plan) -> None:
    first, second = [trial.trial_id for trial in planned.trials if trial.probe == "step_time"]
    done = {trial.trial_id: {"anywhere"} for trial in planned.trials} | {
        first: {"gpu", "cpu"}, second: {"gpu"},
    }  # fmt: skip
    assert environment_of_most([planned], done, planned.resources) == "gpu"
    assert environment_of_most([planned], done, Resources(num_cpus=7)) == ""
    assert missing_work([planned], done, at("gpu")).num_trials == 0
    left = missing_work([planned], done, at("cpu"))
    assert [trial.trial_id for trial, _ in left.alone] == [second]


def test_before_there_are_timings_no_environment_is_kept_to(planned: Plan) -> None:
    trained = {t.trial_id: {"anywhere"} for t in planned.trials if t.probe == "quality"}
    assert environment_of_most([planned], trained, planned.resources) == ""
    assert len(missing_work([planned], trained, at("")).alone) == 2


def test_a_timing_that_two_plans_give_other_threads_is_one_for_each(
    planned: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each comparison would else be filled from the threads of both."""
    monkeypatch.setattr("suite.provenance.cpu_model", lambda: "a CPU")
    two = replace(planned, resources=Resources(num_cpus=2, num_threads=2))
    plans = [planned, two]
    missing = missing_work(plans, {})
    timings = {t.trial_id for t in planned.trials if t.probe == "step_time"}
    assert {(trial.trial_id, asked) for trial, asked in missing.alone} == {
        (trial_id, plan.resources) for trial_id in timings for plan in plans
    }
    assert len(missing.packed) == 9
    here = provenance(planned.resources).environment_id
    done = {trial.trial_id: {here} for trial in planned.trials}
    left = missing_work(plans, done)
    assert {(trial.trial_id, asked) for trial, asked in left.alone} == {
        (trial_id, two.resources) for trial_id in timings
    }
    assert environment_of_most(plans, done, planned.resources) == here
    assert environment_of_most(plans, done, two.resources) == here  # a cluster's preference only
