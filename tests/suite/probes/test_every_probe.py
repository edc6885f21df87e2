"""Check that only the final scoring reads the test split."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from bakeoff import Ablation, Model, Scale, vary
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes import training_score
from bakeoff.suite.probes.probe import PROBES, probe
from bakeoff.suite.schema import MIXER_ALONE, PACE_OF_STEPS, Measurement, Plan, Trial
from bakeoff.suite.tasks import registry
from bakeoff.suite.tasks.mqar import MqarSmall
from bakeoff.suite.tasks.task import Batch, Split
from bakeoff.suite.training.checkpoint import Checkpointer
from tests.suite.probes.conftest import said_after_training

pytestmark = pytest.mark.whole

ROOT = Path(__file__).parents[3]
# Probes that fill the tables of scores, or compare alignments on a task with words.
SCORING = {
    "quality",
    "floors",
    "score_by_position",
    "written_scores",
    "alignment_error",
    "localisation",
}
STEPS = 3
QUICK = Scale(
    dim=8,
    depth=1,
    length=32,
    steps=STEPS,
    batch=250,
    test_lengths=[64],
    lengths=[16],
    num_evaluations=2,
    seeds=1,
)


class Spied(MqarSmall):
    """A task that records the order in which its splits are read."""

    name = "spied"
    num_held_out: ClassVar[dict[Split, int]] = {"validation": 250, "test": 250}
    read: ClassVar[list[str]] = []

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        self.read.append("training")
        return super().training_batch(step, batch, seed)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        self.read.append(split)
        return super().held_out(split, batch)


@pytest.fixture(autouse=True)
def _spied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TASKS, Spied.name, f"{Spied.__module__}:Spied")
    monkeypatch.setattr(Spied, "read", [])
    monkeypatch.setattr(training_score, "NUM_BATCHES", 2)


def planned(name: str) -> Plan:
    is_pace = name == PACE_OF_STEPS  # which runs before trainings of equal seconds only
    scale = QUICK.model_copy(update={"equal": "seconds"}) if is_pace else QUICK
    return plan(
        Ablation(
            question="What does it read?",
            baseline=Model(mixer="attention"),
            axes=[vary("heads", [2, 4])],
            tasks=[Spied.name],
            probes=["quality" if is_pace else name],
            scales={"quick": scale},
        )
    )


def trial_of(name: str) -> Trial:
    return next(trial for trial in planned(name).trials if trial.probe == name)


def measured(name: str, folder: Path) -> list[Measurement]:
    """Return the measurements, without the reads of the training run that the probe depends on."""
    trial = trial_of(name)
    said = said_after_training(trial, folder)
    if trial.trained is not None:
        Spied.read.clear()
        said = list(probe(name).measure_resuming(trial, "cpu", Checkpointer(folder / "x", 1e9)))
    return [each for each in said if isinstance(each, Measurement)]


# Timing probes take seconds each; the syntax tree test below covers them too.
UNTIMED = [name for name in PROBES if not probe(name).is_timing]


@pytest.mark.parametrize("name", [name for name in UNTIMED if name not in SCORING])
def test_a_probe_that_does_not_score_never_asks_for_the_test_split(
    name: str, tmp_path: Path
) -> None:
    """Compare metrics with those announced, in order; a search adds each rate's score."""
    found, trial = measured(name, tmp_path), trial_of(name)
    assert "test" not in Spied.read
    found = [each for each in found if "learning_rate=" not in each.at]
    assert [(m.metric, m.unit, m.better, m.at) for m in found] == [
        (spec.name, spec.unit, spec.better, spec.at)
        for spec in probe(name).metrics(Spied, trial.length)
    ]


def test_quality_asks_for_it_after_its_last_step_and_chooses_nothing_then(
    tmp_path: Path,
) -> None:
    of_test, *_ = measured("quality", tmp_path)
    assert (of_test.metric, of_test.unit, of_test.better) == ("accuracy", "1", "higher")
    found = Spied.read
    first = found.index("test")
    assert found[:first] == ["training", "training", "validation", "training", "validation"]
    assert found[first : first + 2] == ["test", "test"]  # at 32 and at 64 tokens
    assert not {"training", "test"} & set(found[first + 2 :])  # pictures use validation data


def test_what_scores_may_be_named_in_few_files() -> None:
    """Check that only scoring code and the tasks, which split the data, contain "test".

    Only files with the word in double quotes, which the formatter writes, are parsed.
    """
    found = {
        str(file.relative_to(ROOT))
        for folder in ("suite", "models", "reports")
        for file in (ROOT / folder).rglob("*.py")
        if '"test"' in (text := file.read_text())
        and any(
            isinstance(node, ast.Constant) and node.value == "test"
            for node in ast.walk(ast.parse(text))
        )
    }
    elsewhere = {f for f in found if not f.startswith(("suite/tasks/", "suite/floors/"))}
    assert elsewhere == {
        "suite/execution/run_task.py",
        "suite/planning/task_examination.py",  # before anything is trained
        "suite/probes/attention/alignment_error.py",
        "suite/probes/attention/localisation.py",
        "suite/probes/quality.py",
        "suite/probes/score_by_position.py",
        "suite/probes/written_scores.py",
    }


def test_timings_of_the_mixer_alone_meet_no_task() -> None:
    assert {trial.task for trial in planned("mixer_time").trials} == {MIXER_ALONE}
