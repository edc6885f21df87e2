"""Tests for whole sweeps in this process with a real store: trials, records, and messages."""

from __future__ import annotations

import csv
import errno
import hashlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.suite.commands import run as run_command
from bakeoff.suite.errors import DONE, FAILED, UNAVAILABLE, exit_code_of
from bakeoff.suite.events import Checkpoints, Event, Unavailable
from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.schema import Resources, Status, Trial
from bakeoff.suite.sweep.driver import Options, record_journal, run
from bakeoff.suite.sweep.folder_lock import FolderUnavailable
from bakeoff.suite.sweep.interruption import checkpoint_folder
from bakeoff.suite.sweep.verify import differences
from bakeoff.suite.tracking.client import StoreUnavailable
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.heads_sweep import LocalStore
from tests.workplace import Workplace

pytestmark = [pytest.mark.usefixtures("plain_figures"), pytest.mark.whole]


def inline(work: Workplace, **changes: object) -> Options:
    return Options(out=work.out, executor="inline", **changes)  # type: ignore[arg-type]


def exit_code(work: Workplace, *names: str, **changes: object) -> int:
    return run_command.run(names, scale="quick", seeds=None, options=inline(work, **changes))


def rows(work: Workplace, name: str = "small") -> list[dict[str, str]]:
    with (work.out / "reports" / name / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def attempts(work: Workplace) -> dict[str, int]:
    with Journal(work.out / "journal.db", read_only=True) as journal:
        return {attempt.trial_id: attempt.attempt for attempt in journal.attempts()}


def statuses(work: Workplace) -> Counter[str]:
    with Journal(work.out / "journal.db", read_only=True) as journal:
        trials = [trial.trial_id for plan in journal.plans() for trial in plan.trials]
        return Counter(result.status for result in journal.results(dict.fromkeys(trials)))


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def agrees(work: Workplace) -> bool:
    found = differences(work.out, None)
    assert found.differences == (), found.differences
    return "agree" in found.summary


def test_a_sweep_ends_in_a_journal_a_store_and_a_report_that_agree(work: Workplace) -> None:
    outcome = run(work.ablation(), options=inline(work))
    # Two learning rates with two seeds, and the number of parameters, which is the same for both.
    assert outcome.by_status == {Status.OK: 5}
    assert (outcome.num_run, outcome.num_missing, outcome.error) == (5, 0, "")
    assert outcome.reports == (work.out / "reports" / "small" / "index.html",)
    quality = [row for row in rows(work) if row["probe"] == "quality"]
    assert {(row["variant"], row["seed"]) for row in quality} == {
        (f"learning_rate={rate}", seed) for rate in ("0.001", "0.01") for seed in "01"
    }
    assert agrees(work)


def test_a_second_run_runs_nothing_and_leaves_every_byte_of_the_reports(work: Workplace) -> None:
    file = work.ablation()
    assert exit_code(work, file, file) == DONE  # named twice, it runs once
    assert set(attempts(work).values()) == {1}
    before, counted = tree(work.out / "reports"), attempts(work)
    assert len(before) > 5
    shutil.rmtree(work.out / "reports")
    outcome = run(file, options=inline(work))
    assert outcome.num_run == 0
    assert tree(work.out / "reports") == before
    assert attempts(work) == counted


def test_a_trial_that_two_ablations_share_runs_once(work: Workplace) -> None:
    first = work.ablation("first", values=[1e-3, 1e-2])
    second = work.ablation("second", values=[1e-2, 1e-1])
    outcome = run(first, second, options=inline(work))
    assert set(attempts(work).values()) == {1}
    # Three learning rates with two seeds; the number of parameters is the same for all of them.
    assert outcome.num_run == len(attempts(work)) == 3 * 2 + 1
    for name in ("first", "second"):
        assert len([row for row in rows(work, name) if row["probe"] == "quality"]) == 4
    assert agrees(work)


def test_a_seed_that_is_added_trains_only_the_new_trials(work: Workplace) -> None:
    file = work.ablation(probes=["quality"])
    assert run(file, seeds=2, options=inline(work)).num_run == 4
    before = attempts(work)
    assert run(file, seeds=3, options=inline(work)).num_run == 2
    assert {trial_id: attempts(work)[trial_id] for trial_id in before} == before
    assert {row["seed"] for row in rows(work)} == {"0", "1", "2"}
    assert agrees(work)
    assert run(file, seeds=1, options=inline(work)).num_run == 0  # fewer seeds than before
    assert {row["seed"] for row in rows(work)} == {"0"}
    assert agrees(work)


@pytest.mark.slow
def test_an_axis_that_is_added_shows_in_what_was_recorded_before(work: Workplace) -> None:
    file = work.ablation(probes=["quality"], seeds=1)
    assert run(file, options=inline(work)).num_run == 2
    text = Path(file).read_text()
    assert "axes=[" in text
    Path(file).write_text(text.replace("axes=[", 'axes=[vary("depth", [1, 2]), '))
    outcome = run(file, options=inline(work))
    assert outcome.num_run < sum(outcome.by_status.values())
    assert agrees(work)  # including the names and parameters of earlier runs


FAULTS = {
    "Raises": (Status.ERROR, "the mixer has a fault"),
    "Leaves": (Status.ERROR, "SystemExit: gone"),
    "NotANumber": (Status.DIVERGED, "the training loss is nan at step 1"),
    "RunsOut": (Status.OUT_OF_MEMORY, "CUDA out of memory. Tried to allocate 20.00 GiB"),
}


@pytest.mark.parametrize(
    ("faults", "code"), [(["Raises", "Leaves"], FAILED), (["NotANumber", "RunsOut"], DONE)]
)
def test_a_variant_that_fails_is_a_row_and_disturbs_nobody(
    work: Workplace, faults: list[str], code: int
) -> None:
    mixers = work.mixers(f"mixers_{faults[0].lower()}")
    file = work.ablation(
        mixer=f"{mixers}:Good",
        axis="mixer",
        values=[f"{mixers}:{name}" for name in (*faults, "Good")],
        probes=["quality"],
        seeds=1,
    )
    assert exit_code(work, file) == code
    assert statuses(work) == Counter([FAULTS[fault][0] for fault in faults] + [Status.OK])
    for fault in faults:
        status, reason = FAULTS[fault]
        failed = [row for row in rows(work) if row["variant"].endswith(fault)]
        assert {(row["status"], row["metric"], row["value"]) for row in failed} == {
            (status.value, "accuracy", "")
        }
        assert all(reason in row["reason"] for row in failed)
    assert {row["status"] for row in rows(work) if row["variant"].endswith("Good")} == {"ok"}
    assert agrees(work)


def test_a_failure_runs_again_and_a_finding_does_not(work: Workplace) -> None:
    mixers = work.mixers("mixers_again")
    values = [f"{mixers}:Raises", f"{mixers}:NotANumber", f"{mixers}:Good"]
    file = work.ablation(
        mixer=f"{mixers}:Good", axis="mixer", values=values, probes=["quality"], seeds=1
    )
    assert run(file, options=inline(work)).num_run == 3
    assert run(file, options=inline(work)).num_run == 1
    assert sorted(attempts(work).values()) == [1, 1, 2]
    assert agrees(work)


def test_fail_fast_stops_and_the_next_run_continues(work: Workplace) -> None:
    mixers = work.mixers("mixers_fast")
    file = work.ablation(
        mixer=f"{mixers}:Raises",
        axis="mixer",
        values=[f"{mixers}:Raises", f"{mixers}:Good"],
        probes=["quality"],
        seeds=2,
    )
    outcome = run(file, options=inline(work, fail_fast=True))
    assert (outcome.num_run, outcome.num_failed, outcome.num_missing) == (1, 1, 3)
    assert outcome.num_failed_beside == 0
    assert exit_code(work, file, fail_fast=True) == FAILED
    assert exit_code(work, file) == FAILED
    assert statuses(work) == {Status.ERROR: 2, Status.OK: 2}


@pytest.mark.bad_input(38)
def test_a_store_that_is_away_costs_neither_results_nor_the_report(
    work: Workplace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = work.ablation(probes=["quality"])

    def unreachable(*arguments: object) -> RunWriter:
        raise StoreUnavailable("The MLflow store is not available: nobody answers.")

    monkeypatch.setattr("bakeoff.suite.sweep.driver.RunWriter", unreachable)
    assert exit_code(work, file) == UNAVAILABLE
    said = capsys.readouterr()
    assert "nobody answers" in said.err
    *table, page = said.out.splitlines()
    assert page == f"report:    {work.out / 'reports' / 'small' / 'index.html'}"
    assert table[0].startswith("small, quick, fashion_mnist_patches  accuracy")
    assert len(table) == 3
    assert statuses(work) == {Status.OK: 4}
    before = tree(work.out / "reports")
    monkeypatch.undo()
    outcome = run(file, options=inline(work))
    assert outcome.num_run == 0
    assert tree(work.out / "reports") == before
    assert agrees(work)


def test_an_interruption_leaves_nothing_shown_as_running_and_is_continued(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = work.ablation(probes=["quality"])
    measure, left = "bakeoff.suite.probes.quality.evaluate_in_parts", iter(range(5))
    from bakeoff.suite.probes import quality

    original = quality.evaluate_in_parts

    def interrupted(*arguments: object) -> dict[str, float]:
        if next(left) == 2:  # the test score of the third trial
            raise KeyboardInterrupt
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(measure, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(file, options=inline(work))
    assert statuses(work) == {Status.OK: 2}
    store, key = LocalStore(work.out), ("small", "quick")
    assert Counter(run.status for run in store.trials(key)) == {"FINISHED": 2, "KILLED": 1}
    monkeypatch.undo()
    assert run(file, options=inline(work)).num_run == 2
    assert sorted(attempts(work).values()) == [1, 1, 1, 2]
    assert Counter(run.status for run in store.trials(key)) == {"FINISHED": 4}
    assert agrees(work)


def test_without_mlflow_and_ray_it_trains_and_is_recorded_later(
    work: Workplace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Compare the reports; test_lone_box.py covers machines with fewer packages."""
    file, away = work.ablation(probes=["quality"]), tmp_path / "away"
    with monkeypatch.context() as patch:
        for absent in ("mlflow", "ray"):
            patch.setitem(sys.modules, absent, None)
        elsewhere = replace(inline(work), out=away)
        assert run_command.run([file], scale="quick", seeds=None, options=elsewhere) == DONE
    said = capsys.readouterr().err.replace("\n", "")
    assert str(away / "journal.db") in said
    assert "bakeoff record" in said
    assert (away / "reports" / "small" / "index.html").is_file()
    assert not (away / "mlflow.db").exists()
    outcome = record_journal(away / "journal.db", inline(work))
    assert (outcome.num_run, outcome.by_status) == (4, {Status.OK: 4})
    assert tree(work.out / "reports") == tree(away / "reports")
    assert agrees(work)
    again = record_journal(away / "journal.db", inline(work))
    assert again.num_run == 0
    assert agrees(work)


def test_without_ray_it_is_said_what_runs_without_it(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("connect", "execute"):  # earlier tests may have imported either
        monkeypatch.setitem(sys.modules, f"bakeoff.suite.cluster.{name}", None)
    with pytest.raises(Unavailable, match=r"Ray is not installed .*--executor inline"):
        run(work.ablation(probes=["parameters"]), options=Options(out=work.out))


def test_missing_data_are_refused_before_anything_is_made(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bakeoff.suite.tasks.task import TaskError

    def missing(source: object) -> bytes:
        raise TaskError("fashion_mnist: the data file is missing")

    file, fresh = work.ablation(), work.path / "fresh"
    monkeypatch.setattr("bakeoff.suite.sweep.driver.refuse_damaged", missing)
    with pytest.raises(TaskError, match="missing"):
        run(file, options=Options(out=fresh, executor="inline"))
    assert not fresh.exists()


def test_timings_run_last_with_the_store_at_rest(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bakeoff.suite.execution import inline as inline_module
    from bakeoff.suite.sweep.mlflow_sync import MlflowSync

    order: list[str] = []
    paused = MlflowSync.paused

    @contextmanager
    def noted_pause(self: MlflowSync) -> Iterator[None]:
        with paused(self):
            order.append("pause")
            yield
        order.append("resume")

    monkeypatch.setattr(MlflowSync, "paused", noted_pause)

    def noted_run(
        trial: Trial, resources: Resources, *rest: object, **named: object
    ) -> Iterator[Event]:
        order.append(trial.probe)
        return run_trial(trial, resources, "here")

    for name in ("run_trial", "run_in_subprocess"):  # in this process, and in a fresh one
        monkeypatch.setattr(inline_module, name, noted_run)
    file = work.ablation(
        axis="depth", values=[1, 2], probes=["step_time", "parameters", "quality"], seeds=1, batch=8
    )
    assert run(file, options=inline(work)).num_missing == 0
    assert sorted(order[:4]) == ["parameters", "parameters", "quality", "quality"]
    assert order[4:7] == ["pause", "step_time", "resume"]
    assert agrees(work)


@pytest.mark.slow
def test_a_folder_may_have_a_space_in_its_name(tmp_path: Path) -> None:
    work = Workplace(tmp_path / "a place")
    work.path.mkdir()
    assert exit_code(work, work.ablation(probes=["parameters"])) == DONE
    assert (work.out / "reports" / "small" / "index.html").is_file()
    assert not differences(work.out, None).differences


def test_a_file_in_place_of_the_checkpoints_is_told_and_stays(work: Workplace) -> None:
    folder = work.out / "checkpoints"
    folder.write_text("in the way")
    with pytest.raises(FolderUnavailable) as refused:
        run(work.ablation(probes=["parameters"]), options=inline(work))
    assert (
        str(refused.value)
        == f"{folder}: no checkpoints can be kept here: a file with this name exists."
    )
    assert exit_code_of(refused.value) == UNAVAILABLE
    assert folder.read_text() == "in the way"


@pytest.mark.parametrize("effect", ["mkdir", "iterdir"])
def test_a_full_disk_is_told(effect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_full(self: Path, *arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, effect, refuse_full)
    with (
        pytest.raises(FolderUnavailable, match=r"checkpoints: .*: No space left on device\."),
        checkpoint_folder(Checkpoints(folder=tmp_path / "checkpoints"), {}),
    ):
        pass


def test_only_checkpoints_of_what_is_done_are_removed(tmp_path: Path) -> None:
    checkpoints = Checkpoints(folder=tmp_path / "checkpoints")
    with (
        pytest.raises(PermissionError, match="of something else"),
        checkpoint_folder(checkpoints, {}),
    ):
        raise PermissionError("of something else")  # not attributed to the folder
    assert not checkpoints.folder.exists()
    for name in ("done", "begun"):
        (checkpoints.folder / name).mkdir(parents=True)
    with checkpoint_folder(checkpoints, {"done"}):
        assert [path.name for path in checkpoints.folder.iterdir()] == ["begun"]
