"""Tests for students of a teacher, run to the end: order, results, curves, kills and failures."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bakeoff.models import build_shapes
from bakeoff.suite.events import Event, Finished
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Plan, Resources, Result, Status, Trial
from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.sweep.driver import Display, Options, run
from bakeoff.suite.sweep.starts import StartWeights
from bakeoff.suite.training.weights import FINAL

pytestmark = pytest.mark.usefixtures("plain_figures")

ABLATION = Ablation(
    name="own",
    question="Does a teacher help?",
    baseline=Model(mixer="local_attention", window=2),
    axes=[vary("distillation", ["none", "soft", "hard"])],
    tasks=["parity"],
    probes=["quality"],
    teacher=Model(mixer="attention", heads=2),
    scales={
        "quick": Scale(
            dim=8,
            depth=1,
            length=8,
            steps=6,
            batch=100,
            num_evaluations=1,
            learning_rate=1e-2,
            seeds=1,
            teacher_steps=4,
        )
    },
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the store and the reports, which take seconds."""
    monkeypatch.setattr("bakeoff.suite.sweep.driver.mlflow_is_installed", lambda: False)
    monkeypatch.setattr("bakeoff.suite.sweep.driver.conclude", lambda outcome, *_, **__: outcome)
    torch.set_num_threads(1)


@pytest.fixture
def planned() -> Plan:
    return plan(ABLATION)


def _teacher(planned: Plan) -> Trial:
    (found,) = [t for t in planned.trials if t.subjects[0].mixer == "attention"]
    return found


def _options(out: Path) -> Options:
    return Options(out=out, executor="inline")


def _results(out: Path, planned: Plan) -> dict[str, Result]:
    with Journal(out / "journal.db", read_only=True) as journal:
        return {each.trial_id: each for each in journal.results(t.trial_id for t in planned.trials)}


class Killed(BaseException):
    """An exception that simulates a kill."""


@pytest.mark.whole
def test_killed_after_its_teacher_it_ends_with_the_same_numbers(
    planned: Plan, tmp_path: Path
) -> None:
    teacher = _teacher(planned)

    class Watching(Display):
        def show(self, event: Event) -> None:
            if isinstance(event, Finished) and event.trial_id == teacher.trial_id:
                raise Killed

    outcome = run(ABLATION, options=_options(tmp_path / "undisturbed"))
    assert (outcome.by_status, outcome.error) == ({Status.OK: 4}, "")
    assert not (tmp_path / "undisturbed" / "checkpoints").exists()
    with pytest.raises(Killed):
        run(ABLATION, options=_options(tmp_path / "killed"), display_for=lambda *_: Watching())
    weights = tmp_path / "killed" / "checkpoints" / teacher.trial_id / FINAL
    (weights / "model.safetensors").unlink()  # a lost file, so the teacher runs again
    run(ABLATION, options=_options(tmp_path / "killed"))
    found, wanted = (_results(tmp_path / n, planned) for n in ("killed", "undisturbed"))
    assert {k: r.finding_sha256 for k, r in found.items()} == {
        k: r.finding_sha256 for k, r in wanted.items()
    }
    assert not weights.exists()
    _curves_count_the_teacher(planned, wanted)


def _curves_count_the_teacher(planned: Plan, results: dict[str, Result]) -> None:
    """Check that curves count the teacher's forward pass at each step, and that results differ."""
    teacher = _teacher(planned)
    students = [t for t in planned.trials if t != teacher]
    assert len({results[t.trial_id].state_sha256 for t in students}) == 3
    own, other = (
        build_shapes(each.subjects[0]).flops(8, batch=100) for each in (students[0], teacher)
    )
    for student in students:
        last = results[student.trial_id].points[-1]
        assert last.flops == 6 * (3 * own + (other if student.teacher else 0.0))


def test_a_student_of_a_failed_teacher_is_a_row_that_says_so(planned: Plan, tmp_path: Path) -> None:
    teacher = _teacher(planned)
    with Journal(tmp_path / "journal.db") as journal:
        journal.keep_plan(planned)
        result = Result(
            trial_id=teacher.trial_id,
            status=Status.DIVERGED,
            reason="it was so",
            seconds=1.0,
            provenance=provenance(Resources()),
        )
        journal.commit(result, journal.begin(teacher.trial_id, "here"))
        starts = StartWeights([planned], journal.done(), tmp_path)
        works = [(trial, planned.resources) for trial in planned.trials]
        _, ended = starts.partition_ready(works, journal)
    assert [each.result.status for each in ended] == [Status.SKIPPED] * 2
    assert {each.result.reason for each in ended} == {
        f"trial {teacher.trial_id[:8]}, of its teacher, ended as diverged: it was so"
    }


def test_a_plan_says_what_the_teacher_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bakeoff.suite.commands import plan as command

    monkeypatch.setattr(command, "plans_of", lambda *_, **__: [plan(ABLATION)])
    command.show(command.Asked(["own"], "quick", 1), tmp_path)
    said = capsys.readouterr().out.splitlines()
    (line,) = [line.split() for line in said if "teacher" in line and "missing" in line][:1]
    assert line[:3] == ["missing", "quality", "parity"]
    assert line[-1] == "teacher"
    assert "(teacher: about " in said[-2]
