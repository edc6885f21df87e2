"""Each trial of a plan is done, failed, missing or skipped; finding out only reads."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.journal.journal import Journal
from suite.planning.plan import plan
from suite.provenance import provenance
from suite.schema import Plan, Result, Status, Trial
from suite.spec import Ablation, vary
from suite.states import TrialState, count_states, read_journal, trial_states

MakeAblation = Callable[..., Ablation]


@pytest.fixture(scope="module")
def planned(make_ablation: MakeAblation) -> Plan:
    axes = [vary("heads", [1, 3, 4])]
    return plan(make_ablation(axes=axes, probes=["quality", "step_time"]), seeds=2)


def _commit(out: Path, plan: Plan, trial: Trial, status: Status, reason: str = "") -> None:
    result = Result(
        trial_id=trial.trial_id, status=status, provenance=provenance(plan.resources),
        seconds=1.0, reason=reason,
    )  # fmt: skip
    with Journal(out / "journal.db") as journal:
        journal.commit(result, journal.begin(trial.trial_id, "here"))


def _of(states: list[TrialState], trial: Trial) -> TrialState:
    (found,) = [state for state in states if state.trial_id == trial.trial_id]
    return found


def test_without_a_journal_all_is_missing_or_skipped(planned: Plan, tmp_path: Path) -> None:
    states = trial_states(planned, tmp_path / "nothing")
    assert count_states(states) == {"missing": 6, "skipped": 4}
    assert not (tmp_path / "nothing").exists()
    skipped = [state for state in states if state.state == "skipped"]
    assert {state.variant for state in skipped} == {"heads=3"}
    assert {state.reason for state in skipped} == {"attention: heads=3 does not divide dim=16"}


def test_a_comparison_is_one_entry_that_names_its_variants(planned: Plan, tmp_path: Path) -> None:
    timings = [s for s in trial_states(planned, tmp_path) if s.probe == "step_time"]
    assert [s.variant for s in timings if s.state == "missing"] == ["heads=1 | heads=4"] * 2


@pytest.mark.parametrize("status", list(Status))
def test_a_finding_is_done_and_a_failure_is_failed(
    status: Status, planned: Plan, tmp_path: Path
) -> None:
    trial = planned.trials[0]
    _commit(tmp_path, planned, trial, status, "because")
    state = _of(trial_states(planned, tmp_path), trial)
    if status in (Status.TIMEOUT, Status.CRASHED, Status.ERROR):
        assert (state.state, state.reason) == ("failed", f"{status.value}: because")
    else:
        assert (state.state, state.reason) == ("done", "")


def test_a_timing_from_elsewhere_is_missing_here(planned: Plan, tmp_path: Path) -> None:
    timing = next(trial for trial in planned.trials if trial.probe == "step_time")
    elsewhere = replace(planned, resources=replace(planned.resources, num_threads=7))
    _commit(tmp_path, elsewhere, timing, Status.OK)
    assert _of(trial_states(planned, tmp_path), timing).state == "missing"
    assert _of(trial_states(elsewhere, tmp_path), timing).state == "done"


def test_reading_changes_nothing(planned: Plan, tmp_path: Path) -> None:
    _commit(tmp_path, planned, planned.trials[0], Status.OK)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    trial_states(planned, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_journal_is_opened_to_read_only(planned: Plan, tmp_path: Path) -> None:
    _commit(tmp_path, planned, planned.trials[0], Status.OK)
    journal = read_journal(tmp_path)
    assert journal is not None
    with journal, pytest.raises(sqlite3.OperationalError, match="readonly"):
        journal.begin("x", "y")


def test_a_folder_name_that_is_too_long_has_no_journal(planned: Plan) -> None:
    assert read_journal(Path("a" * 300)) is None
