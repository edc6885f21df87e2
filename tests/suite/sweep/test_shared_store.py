"""Tests for people who share one MLflow store, and rename, delete and add things in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import mlflow
import pytest

from bakeoff.suite import cli
from bakeoff.suite.errors import UNAVAILABLE, USAGE, exit_code_of
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.driver import Options, run
from bakeoff.suite.sweep.finish import SweepOutcome
from bakeoff.suite.sweep.verify import differences, repaired
from bakeoff.suite.tracking.experiments import TrashedExperiment
from bakeoff.suite.tracking.location import store_of
from tests.workplace import Workplace

pytestmark = [pytest.mark.usefixtures("plain_figures"), pytest.mark.whole]

EXP = '''"""A net."""
from bakeoff import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question={question!r},
    baseline=Model(mixer="attention", position="none"),
    axes=[vary({axis!r}, {values!r})],
    tasks=["parity"],
    probes=["quality"],
    scales={{
        "quick": Scale(
            dim=8, depth=1, length=4, steps=2, batch=4, num_evaluations=1, warmup_steps=1,
            learning_rate=1e-2, seeds={seeds},
        )
    }},
)
'''


ROLES = ("sweep", "trial", "variant")


class Person:
    """A user with a folder, an ``exp.py`` in it, and the address of the team's store."""

    def __init__(self, folder: Path, uri: str | None, question: str, axis: str) -> None:
        self.folder, self.uri, self.question, self.axis = folder, uri, question, axis
        self.out = folder / "out"
        folder.mkdir(exist_ok=True)

    def run(self, seeds: int = 1, values: tuple[int, ...] = (1, 2)) -> SweepOutcome:
        file = self.folder / "exp.py"
        file.write_text(
            EXP.format(question=self.question, axis=self.axis, values=values, seeds=seeds)
        )
        options = Options(out=self.out, tracking_uri=self.uri, executor="inline")
        outcome = run(str(file), options=options)
        assert outcome.error == ""
        return outcome

    def agrees(self) -> bool:
        return differences(self.out, self.uri).differences == ()

    def report(self, capsys: pytest.CaptureFixture[str]) -> str:
        argv = ["report", "exp", "--out", str(self.out)]
        argv += ["--tracking-uri", self.uri] if self.uri else []
        assert call(argv) == 0
        capsys.readouterr()
        return (self.out / "reports/exp/report.md").read_text()


def call(argv: list[str]) -> int:
    with pytest.raises(SystemExit) as end:
        cli.app(argv)
    return int(str(end.value.code or 0))


def client_of(uri: str) -> mlflow.MlflowClient:
    return mlflow.MlflowClient(uri)


def runs(uri: str, name: str, role: str) -> list[mlflow.entities.Run]:
    client = client_of(uri)
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], f"tags.`bakeoff.role` = '{role}'"))


@pytest.fixture
def team(work: Workplace) -> str:
    """Return the address of a store outside all output folders."""
    shutil.move(work.out / "mlflow.db", work.path / "team.db")
    return f"sqlite:///{work.path}/team.db"


def test_two_people_with_unlike_files_of_one_name_keep_their_own(
    work: Workplace, team: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ada = Person(work.path / "ada", team, "Is deeper better?", "depth")
    bob = Person(work.path / "bob", team, "Do heads help?", "heads")
    ada.run()
    before = {run.info.run_id for run in runs(team, "exp", "variant")}
    capsys.readouterr()
    bob.run()
    said = capsys.readouterr().err
    assert "the store has an experiment named 'exp' from another file" in said
    assert {run.info.run_id for run in runs(team, "exp", "variant")} == before
    assert len(runs(team, "exp", "trial")) == 2
    assert ada.agrees()
    page = ada.report(capsys)
    assert ada.question in page
    assert bob.question not in page
    # A user who has run neither of them is not shown either.
    with pytest.raises(SpecError, match="several ablations named 'exp'") as refused:
        Person(work.path / "eve", team, "", "").report(capsys)
    assert exit_code_of(refused.value) == USAGE


@pytest.mark.slow
def test_of_one_file_that_two_people_edit_apart_each_is_shown_his_own_edition(
    work: Workplace, team: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that they share one experiment, which shows the edition recorded last."""
    ada, bob = (Person(work.path / name, team, "Is it better?", "depth") for name in ("a", "b"))
    ada.run()
    bob.run(values=(1, 2))
    bob.run(values=(1, 3))
    for person, own, foreign in ((ada, "depth=2", "depth=3"), (bob, "depth=3", "depth=2")):
        file, where = str(person.folder / "exp.py"), ["--out", str(person.out)]
        where += ["--tracking-uri", team]
        assert call(["report", file, *where]) == 0
        page = (person.out / "reports/exp/report.md").read_text()
        table = page.partition("## ")[0] + page.partition("| variant")[2].partition("\n\n")[0]
        assert own in table
        assert foreign not in table
        assert call(["verify", file, *where]) == 0
        assert person.agrees()
    capsys.readouterr()
    with pytest.raises(SpecError, match="nothing is recorded for 'other'"):
        call(["verify", "other", "--out", str(ada.out), "--tracking-uri", team])


@pytest.mark.slow
def test_a_renamed_experiment_goes_on_and_one_in_the_trash_is_said(work: Workplace) -> None:
    ada = Person(work.path, None, "Is deeper better?", "depth")
    ada.run()
    uri = store_of(ada.out, None).uri
    client = client_of(uri)
    experiment = client.get_experiment_by_name("exp")
    assert experiment is not None
    client.rename_experiment(experiment.experiment_id, "exp-final")
    ada.run(seeds=2)
    assert ada.agrees()
    assert client.get_experiment_by_name("exp") is None
    assert len(runs(uri, "exp-final", "trial")) == 4
    client.delete_experiment(experiment.experiment_id)
    argv = ["--out", str(ada.out)]
    for command in (
        ["report", "exp"],
        ["run", str(work.path / "exp.py"), "--seeds", "3"],
        ["verify"],
    ):
        with pytest.raises(TrashedExperiment, match="is in the trash") as refused:
            call([*command, *argv])
        assert exit_code_of(refused.value) == UNAVAILABLE
    found = client.get_experiment(experiment.experiment_id)
    assert found.lifecycle_stage == "deleted"


@pytest.mark.slow
def test_an_experiment_without_our_tag_is_never_written_into(
    work: Workplace, team: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client = client_of(team)
    foreign = client.create_experiment("exp", str(work.path / "elsewhere"))
    ada = Person(work.path / "ada", team, "Is deeper better?", "depth")
    ada.run()
    assert "this one is recorded as 'exp (" in capsys.readouterr().err
    assert client.search_runs([foreign]) == []
    assert client.get_experiment(foreign).tags == {}
    assert "Is deeper better?" in ada.report(capsys)


def test_what_people_add_to_runs_stays_whatever_is_run_repaired_or_reported_later(
    work: Workplace,
) -> None:
    ada = Person(work.path, None, "Is deeper better?", "depth")
    ada.run()
    uri = store_of(ada.out, None).uri
    client = client_of(uri)
    experiment = client.get_experiment_by_name("exp")
    assert experiment is not None
    client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "of the team")
    first = [each for role in ROLES for each in runs(uri, "exp", role)]
    assert len(first) == 5
    for each in first:
        client.set_tag(each.info.run_id, "mlflow.note.content", "look here")
        client.set_tag(each.info.run_id, "owner", "Ada")
        client.update_run(each.info.run_id, name="the best")
    ada.run(seeds=2)  # the means change, so the variants are written again
    (trial, *_) = runs(uri, "exp", "trial")
    client.log_metric(trial.info.run_id, "accuracy", 7.0)  # wrong: the trial is written again
    assert not ada.agrees()
    assert repaired(ada.out, None).differences == ()
    left = [each for role in ROLES for each in runs(uri, "exp", role)]
    named = [each.data.tags for each in left if each.info.run_name == "the best"]
    assert len(named) == 5
    for tags in named:
        assert (tags["owner"], tags["mlflow.note.content"]) == ("Ada", "look here")
    found = client.get_experiment(experiment.experiment_id)
    assert found.tags["mlflow.note.content"] == "of the team"
