"""Tests for `bakeoff status`, with output folders in various states."""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bakeoff.suite.commands import status
from bakeoff.suite.commands.status import (
    HOW_TO_LOOK,
    print_status,
    show_status,
    status_of,
    status_of_plans,
    with_money,
)
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.status_message import SweepStatus
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Measurement, Plan, Price, Result, Status, Trial
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.folder_lock import lock_folder
from bakeoff.suite.text import command
from tests.suite.heads_sweep import HEADS
from tests.workplace import Workplace


def result(trial: Trial, status: Status = Status.OK, seconds: float = 2.0) -> Result:
    number = Measurement(metric="accuracy", value=0.5, unit="1", better="higher")
    return Result(
        trial_id=trial.trial_id,
        status=status,
        provenance=HEADS.place,
        seconds=seconds,
        measurements=(number,) if status is Status.OK else (),
        reason="" if status is Status.OK else "[bold]it[/bold] went wrong",
    )


@pytest.fixture
def sweep(tmp_path: Path) -> Plan:
    return plan(Workplace(tmp_path).ablation(values=[1e-3, 2e-3, 1e-2], probes=["quality"]))


@pytest.fixture
def out(tmp_path: Path, sweep: Plan) -> Path:
    """Return an output folder of six trials: 2 ok, 1 failed, 1 diverged, 1 begun, 1 not begun."""
    folder = tmp_path / "out"
    folder.mkdir()
    with Journal(folder / "journal.db") as journal:
        journal.keep_plan(sweep)
        first, second, third, fourth, fifth, _ = sweep.trials
        journal.commit(result(first), journal.begin(first.trial_id, "p1"))
        journal.commit(result(second, seconds=4.0), journal.begin(second.trial_id, "p1"))
        journal.commit(result(third, Status.ERROR), journal.begin(third.trial_id, "p1"))
        journal.commit(result(fourth, Status.DIVERGED), journal.begin(fourth.trial_id, "p1"))
        journal.begin(fifth.trial_id, "node 1, process 2")
    return folder


def test_while_a_driver_works(out: Path, sweep: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    with lock_folder(out):
        found = status_of(out)
        show_status(out, as_json=False)
    assert found.counts == {"diverged": 1, "error": 1, "missing": 1, "ok": 2, "running": 1}
    assert found.running == {sweep.trials[4].trial_id: "node 1, process 2"}
    assert found.failed == {sweep.trials[2].trial_id: "error: [bold]it[/bold] went wrong"}
    said = capsys.readouterr().out
    assert "1 diverged, 1 error, 1 missing, 2 ok, 1 running" in said
    assert "on node 1, process 2" in said.replace("\n", " ")
    assert "[bold]it[/bold] went wrong" in said.replace("\n", " ")


@pytest.mark.parametrize("num_reported", [1, 6])
def test_what_waits_and_why_while_a_driver_works(
    num_reported: int, out: Path, sweep: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that no more trials wait than are missing, whatever number the driver reported."""
    with Journal(out / "journal.db") as journal:
        journal.note_waiting(num_reported, "asks for [1] CPU")
    with lock_folder(out):
        found = status_of(out)
        show_status(out, as_json=False)
    assert found.waiting == {"num_trials": 1, "reason": "asks for [1] CPU"}
    assert found.counts["missing"] == 1
    assert sum(found.counts.values()) == len(sweep.trials)
    assert "1 of the missing waits for a place: asks for [1] CPU" in capsys.readouterr().out
    assert status_of(out).waiting is None


def test_the_last_words_of_an_older_driver_are_not_those_of_the_new_one(
    out: Path, sweep: Plan
) -> None:
    with Journal(out / "journal.db") as journal:
        journal.note_waiting(1, "no node is free")
        journal.keep_plan(sweep)  # a new driver starts
    with lock_folder(out):
        found = status_of(out)
    assert found.waiting is None
    assert found.running == {}
    assert found.counts["missing"] == 2


def test_a_failed_trial_that_is_tried_again_runs(out: Path, sweep: Plan) -> None:
    failed = sweep.trials[2].trial_id
    with Journal(out / "journal.db") as journal:
        journal.begin(failed, "p2")
    with lock_folder(out):
        found = status_of(out)
    assert found.running[failed] == "p2"
    assert found.failed == {}
    assert found.counts == {"diverged": 1, "missing": 1, "ok": 2, "running": 2}


def test_a_trial_that_two_sweeps_share_is_counted_once(out: Path, sweep: Plan) -> None:
    other = replace(sweep, about=replace(sweep.about, ablation="other"))
    with Journal(out / "journal.db") as journal:
        journal.keep_plan(other)
    found = status_of(out)
    assert sum(found.counts.values()) == len(sweep.trials)
    assert found.by_ablation == {"other, quick": found.counts, "small, quick": found.counts}
    assert found.cpu_hours_spent == pytest.approx((2 + 4 + 2 + 2) / 3600, abs=1e-6)


def test_after_a_killed_driver_nothing_runs_and_its_hours_are_known(out: Path) -> None:
    """Check the estimate: two trials of 8/3 s remain, one to two at a time."""
    found = status_of(out)
    assert found.counts == {"diverged": 1, "error": 1, "missing": 2, "ok": 2}
    assert found.running == {}
    assert found.eta_seconds is not None
    assert 8 / 3 <= found.eta_seconds <= 2 * (8 / 3)
    assert found.cpu_hours_spent == pytest.approx(10 / 3600, abs=1e-6)
    assert found.cpu_hours_wasted == pytest.approx(2 / 3600, abs=1e-6)
    assert found.cpu_hours_left == pytest.approx(2 * (8 / 3) / 3600, abs=1e-6)
    assert (found.gpu_hours_spent, found.gpu_hours_wasted, found.gpu_hours_left) == (0, 0, 0)
    assert (found.num_lost, found.lost_cpu_hours_at_most) == (1, None)


def test_a_retry_keeps_the_waste_of_the_failure_in_mind(out: Path, sweep: Plan) -> None:
    failed = sweep.trials[2]
    with Journal(out / "journal.db") as journal:
        journal.commit(result(failed), journal.begin(failed.trial_id, "p1"))
    found = status_of(out)
    assert found.counts["ok"] == 3
    assert found.failed == {}
    assert found.cpu_hours_spent == pytest.approx(12 / 3600, abs=1e-6)
    assert found.cpu_hours_wasted == pytest.approx(2 / 3600, abs=1e-6)


def test_a_journal_of_format_2_says_the_same(out: Path) -> None:
    now = status_of(out)
    with closing(sqlite3.connect(out / "journal.db")) as db, db:
        db.executescript(
            "DROP TABLE statements; DROP TABLE ends; DROP TABLE trials; DROP TABLE driver; "
            "PRAGMA user_version = 2;"
        )
    old = status_of(out)
    for name in ("counts", "failed", "labels", "by_ablation", "cpu_hours_spent", "num_lost"):
        assert getattr(old, name) == getattr(now, name)
    with lock_folder(out):
        assert list(status_of(out).running.values()) == ["node 1, process 2"]
    with Journal(out / "journal.db"):  # opening it to write migrates the file
        pass
    with Journal(out / "journal.db", read_only=True) as journal:
        assert len(journal.ends()) == 4


def test_a_sweep_at_its_end_stands_by_its_own_trials(
    out: Path, sweep: Plan, tmp_path: Path
) -> None:
    """Check that another sweep in the same folder is not counted."""
    other = plan(Workplace(tmp_path).ablation("other", values=[0.5, 0.6], probes=["quality"]))
    with Journal(out / "journal.db") as journal:
        journal.keep_plan(other)
    found = status_of_plans([sweep], out)
    assert found.counts == {"diverged": 1, "error": 1, "missing": 2, "ok": 2}
    assert list(found.failed) == [sweep.trials[2].trial_id]
    assert found.out == str(out)
    assert found.labels[sweep.trials[2].trial_id].startswith("learning_rate=")
    assert list(found.by_ablation) == ["small, quick"]


def test_an_empty_folder_has_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = status_of(tmp_path / "never")
    assert (found.counts, found.eta_seconds) == ({}, None)
    show_status(tmp_path, as_json=False)
    assert "nothing has been run in" in capsys.readouterr().out
    with pytest.raises(SpecError, match="no such folder"):
        show_status(tmp_path / "never", as_json=True)
    assert not (tmp_path / "never").exists()


def test_it_is_followed_until_no_driver_works(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    works = iter([True, True, False])
    monkeypatch.setattr(status, "_SECONDS_BETWEEN_LOOKS", (0.0, 0.0))
    monkeypatch.setattr(status, "is_held", lambda out: next(works, False))
    assert status.follow_status(out) == 0
    said = capsys.readouterr().out
    assert said.count("2 ok") == 2  # an unchanged status is not printed again
    assert "1 running" in said.split("\n\n")[0]


def test_without_a_finished_trial_there_is_no_estimate(tmp_path: Path, sweep: Plan) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        journal.keep_plan(sweep)
    found = status_of(tmp_path)
    assert (found.counts, found.eta_seconds) == ({"missing": 6}, None)


def test_a_program_reads_json(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_status(out, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert {"counts", "running", "waiting", "failed", "eta_seconds"} <= set(found)
    assert {
        f"{kind}_hours_{what}" for kind in ("cpu", "gpu") for what in ("spent", "wasted", "left")
    } <= set(found)
    assert found["throughput_per_minute"] > 0
    assert found["counts"]["missing"] == 2


def test_it_answers_without_torch() -> None:
    code = """
import sys
from pathlib import Path
from bakeoff.suite.commands.status import status_of
status_of(Path("nowhere"))
print([name for name in ("torch", "ray", "mlflow", "pandas") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- output --------------------------------------------------------------------------------------


def printed(standing: SweepStatus) -> str:
    out = io.StringIO()
    print_status(standing, Console(file=out, width=40))
    return out.getvalue()


def test_a_sweep_under_way() -> None:
    assert printed(
        SweepStatus(
            counts={"error": 1, "missing": 4, "ok": 3, "running": 1},
            running={"a": "node 1 at 10.0.0.7, process 3"},
            labels={"a": "heads=4, seed 0"},
            waiting={"num_trials": 3, "reason": "no node is free"},
            failed={"b": "error: x"},
            eta_seconds=90.0,
            throughput_per_minute=1.25,
            cpu_hours_spent=2.5,
            cpu_hours_wasted=0.5,
            cpu_hours_left=12.0,
            gpu_hours_spent=0.0,
            gpu_hours_wasted=0.0,
            gpu_hours_left=0.0,
            num_lost=2,
            lost_cpu_hours_at_most=0.25,
        )
    ).splitlines() == [
        "1 error, 4 missing, 3 ok, 1 running",
        "running heads=4, seed 0 on node 1 at 10.0.0.7, process 3",
        "3 of the missing wait for a place: no node is free",
        "failed 1: error: x (b; trial b)",
        HOW_TO_LOOK.format(logs=command("logs", "TRIAL")),
        "1.25 trials a minute lately; 1 min 30 s left",
        "2.50 CPU-hours spent, 0.50 of them on failures and retries; 12.0 remaining",
        "2 attempts were interrupted, or lost with a driver or node, and not counted, at most 0.25 "
        "CPU-hours",
    ]


def test_a_sweep_at_its_end_says_nothing_of_what_is_left() -> None:
    said = printed(
        SweepStatus(
            counts={"ok": 3},
            eta_seconds=0.0,
            throughput_per_minute=20.0,
            cpu_hours_spent=1234.5,
            cpu_hours_wasted=0.0,
            cpu_hours_left=0.0,
            gpu_hours_spent=0.001,
            gpu_hours_wasted=0.0,
            gpu_hours_left=0.0,
        )
    )
    assert said.splitlines() == [
        "3 ok",
        "20 trials a minute at its last run",
        "1,234.5 CPU-hours spent",
        "less than 0.01 GPU-hours spent",
    ]


@pytest.mark.parametrize(
    ("hours", "said"),
    [
        (
            {"gpu_hours_spent": 12.0, "gpu_hours_left": 2.0, "cpu_hours_spent": 96.0},
            "30.00 USD spent; 5.00 USD remaining",
        ),
        (
            {"cpu_hours_spent": 4.0, "gpu_hours_spent": 0.0, "gpu_hours_left": 0.0},
            "10.00 USD spent",
        ),
    ],
)
def test_a_price_is_of_gpus_or_of_cpus_where_there_are_none(
    hours: dict[str, float], said: str
) -> None:
    found = SweepStatus(counts={"missing": 1, "ok": 1}, joules_spent=1.2e7, **hours)  # type: ignore[arg-type]
    lines = printed(with_money(found, Price(amount=2.5, currency="USD"))).splitlines()
    assert lines[-2:] == ["3.33 kWh used by GPUs", said]


def test_joules_and_money_are_summed_from_the_journal(
    out: Path, sweep: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the sums over two attempts in succession, as numbers in the JSON output."""
    place = replace(HEADS.place, num_gpus=1.0)
    with Journal(out / "journal.db") as journal:
        for trial, joules in zip(sweep.trials[4:], (400.0, 800.0), strict=True):
            made = replace(result(trial, seconds=1800.0), provenance=place, joules=joules)
            journal.commit(made, journal.begin(trial.trial_id, "p1"))
    show_status(out, as_json=True, price="2.50 USD")
    found = json.loads(capsys.readouterr().out)
    assert (found["joules_spent"], found["gpu_hours_spent"]) == (1200.0, 1.0)
    assert (found["money_spent"], found["money_left"], found["currency"]) == (2.5, 0.0, "USD")
    assert (status_of(out).money_spent, status_of(out).currency) == (None, "")


def test_several_ablations_have_a_line_each() -> None:
    said = printed(
        SweepStatus(
            counts={"ok": 3, "missing": 2, "error": 1},
            by_ablation={"heads, quick": {"ok": 3}, "my own, paper": {"missing": 2, "error": 1}},
        )
    )
    assert "  heads, quick        3 of 3 done\n" in said
    assert "  my own, paper       0 of 3 done; 1 error\n" in said


def test_failures_are_grouped_by_their_reason() -> None:
    failed = {f"t{k}": f"timeout: it took {k}.5 seconds" for k in range(500)}
    failed |= {"u": "error: it raised"}
    lines = printed(SweepStatus(counts={"timeout": 500, "error": 1}, failed=failed)).splitlines()
    assert lines[1:] == [
        "failed 500: timeout: it took 0.5 seconds (t0; t1; t2; and 497 more; trial t0)",
        "failed 1: error: it raised (u; trial u)",
        HOW_TO_LOOK.format(logs=command("logs", "TRIAL")),
    ]


def test_many_reasons_are_cut_and_counted() -> None:
    failed = {f"t{k}": f"error: {'x' * k}" for k in range(50)}
    lines = printed(SweepStatus(counts={"error": 50}, failed=failed)).splitlines()
    assert len(lines) == 13
    assert lines[-2] == "failed 40: for 40 other reasons; --json lists them all"


def test_many_places_are_told_by_node() -> None:
    running = {f"t{k}": f"node {k % 2} at h, process {k}" for k in range(20)}
    lines = printed(SweepStatus(counts={"running": 20}, running=running)).splitlines()
    assert lines[1] == "running 10 on node 0 at h: t0; t2; t4; and 7 more"
    assert lines[2].startswith("running 10 on node 1 at h: ")


def test_nothing_of_a_strangers_is_markup_or_a_control_code() -> None:
    said = printed(
        SweepStatus(
            counts={"error": 1},
            failed={"t": "error: [red]x[/red]\x1b[31m\nnext"},
            labels={"t": ":smile: \u202e"},
        )
    )
    assert "[red]x[/red]\\x1b[31m\\nnext (:smile: \\u202e; trial t)" in said
    assert "\x1b" not in said
