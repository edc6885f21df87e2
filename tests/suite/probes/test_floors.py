"""Test the probe of floors: one trial per task, without subjects, through every code path."""

from dataclasses import replace

import pytest

from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.journal.plans import labels_of
from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.floors import Floors
from bakeoff.suite.reporting.frames import by_trial
from bakeoff.suite.reporting.frames import result_rows as rows_of
from bakeoff.suite.schema import Cell, Measurement, Plan, Resources, Result, Status, Trial
from bakeoff.suite.spec import Ablation, Claim, SpecError, vary
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tracking.run_fields import (
    result_rows,
    result_tags,
    trial_description,
    trial_name,
    trial_params,
    trial_tags,
)
from tests.suite.heads_sweep import HEADS
from tests.suite.small_ablation import make_ablation

LABELS = ("uniform", "unigram", "3-gram", "5-gram")


def _floors(found: Plan) -> tuple[list[Trial], list[Cell]]:
    trials = [trial for trial in found.trials if trial.probe == "floors"]
    return trials, [cell for cell in found.cells if cell.probe == "floors"]


def _planned(**fields: object) -> Plan:
    return plan(make_ablation(**{"probes": ["quality", "floors"], **fields}), seeds=3)


def test_one_trial_a_task_without_subjects_fills_a_cell_a_floor() -> None:
    found = _planned(tasks=["shakespeare_characters", "parity"])
    trials, cells = _floors(found)
    assert [(trial.task, trial.subjects, trial.seed) for trial in trials] == [
        ("shakespeare_characters", (), 0),
        ("parity", (), 0),
    ]
    assert [(cell.task, cell.variant, cell.subject) for cell in cells] == [
        *(("shakespeare_characters", label, index) for index, label in enumerate(LABELS)),
        ("parity", "uniform", 0),
        ("parity", "majority", 1),
    ]
    assert {cell.metrics[0].name for cell in cells} == {"bits_per_character", "accuracy"}
    assert found.about.floors == {
        "shakespeare_characters": LABELS,
        "parity": ("uniform", "majority"),
    }
    assert not set(found.about.variants) & set(LABELS)
    assert found.about.labels == (*found.about.variants, *LABELS, "majority")


def test_where_the_task_is_an_axis_each_has_its_floors() -> None:
    axes = [vary("task", ["shakespeare_characters", "parity"])]
    trials, cells = _floors(_planned(axes=axes))
    assert [trial.task for trial in trials] == ["shakespeare_characters", "parity"]
    assert len(cells) == len({(cell.task, cell.variant) for cell in cells}) == 6


def test_nothing_but_task_length_and_definitions_moves_the_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ids(**fields: object) -> set[str]:
        return {trial.trial_id for trial in _floors(_planned(**fields))[0]}

    first = ids()
    assert len(first) == 1
    assert ids(axes=[vary("depth", [1, 2])], scale={"steps": 9, "batch": 4}) == first
    assert ids(axes=[vary("length", [16, 8])]) == first  # at the baseline's length, 8
    assert ids(scale={"length": 9}).isdisjoint(first)
    monkeypatch.setattr(FLOORS["trigram"], "version", 2)
    assert ids().isdisjoint(first)


def test_other_trials_keep_their_ids() -> None:
    with_floors, without = _planned(), plan(make_ablation(), seeds=3)
    kept = [trial for trial in with_floors.trials if trial.subjects]
    assert [t.trial_id for t in kept] == [t.trial_id for t in without.trials]


def test_floors_without_a_score_are_refused() -> None:
    with pytest.raises(SpecError, match=r"^ABLATION: probes: 'floors' is shown beside a score;"):
        plan(make_ablation(probes=["floors", "parameters"]))


def test_no_claim_is_about_a_floor() -> None:
    claim = Claim(
        "better", metric="bits_per_character", a="heads=4", b="5-gram", by=0, source="none"
    )
    with pytest.raises(SpecError, match="no variant '5-gram'"):
        _planned(claim=claim)


def test_it_measures_each_floor_as_the_task_scores() -> None:
    (trial,), _ = _floors_of("kernel_regression")
    measured = list(Floors().measure(trial, "cpu"))
    task = build_task("kernel_regression", 8)
    known = [FLOORS[name].score(task) for name in ("mean", "nadaraya_watson")]
    assert [m.value for m in measured if isinstance(m, Measurement)] == known
    assert [m.subject for m in measured if isinstance(m, Measurement)] == [0, 1]


def test_a_trial_without_subjects_ends_like_any_other() -> None:
    (trial,), cells = _floors_of("parity")
    *_, finished = run_trial(trial, Resources(), "here")
    result = finished.result  # type: ignore[union-attr]
    assert result.status is Status.OK
    assert next(m.value for m in result.measurements) == 0.5
    assert len(result.measurements) == len(cells) == 2


def test_a_floor_that_does_not_suit_is_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (trial,), _ = _floors_of("parity")
    monkeypatch.setattr(task_class("parity"), "floors", ("uniform", "trigram"))
    fitting, skipped = (m for m in Floors().measure(trial, "cpu") if isinstance(m, Measurement))
    assert fitting.status is Status.OK
    assert (skipped.status, skipped.value) == (Status.SKIPPED, None)
    assert skipped.reason == "3-gram does not suit parity"


def _floors_of(task: str) -> tuple[list[Trial], list[Cell]]:
    from bakeoff.suite.spec import Model, Scale

    ablation = Ablation(
        question="?",
        baseline=Model(mixer="conv"),
        axes=[vary("depth", [1, 2])],
        tasks=[task],
        probes=["quality", "floors"],
        scales={"quick": Scale(dim=8, depth=1, length=8, steps=1, batch=2)},
    )
    return _floors(plan(ablation))


def finished() -> tuple[Plan, Trial, list[Cell], Result]:
    found = _planned()
    (trial,), cells = _floors(found)
    measured = [
        Measurement(
            metric="bits_per_character",
            value=4.0 - index,
            unit="bit",
            better="lower",
            subject=index,
        )
        for index in range(3)
    ]
    lacking = replace(measured[0], subject=3, value=None, status=Status.SKIPPED, reason="no such")
    result = Result(
        trial_id=trial.trial_id,
        status=Status.OK,
        provenance=HEADS.place,
        seconds=1.0,
        measurements=(*measured, lacking),
    )
    return found, trial, cells, result


def test_a_row_has_the_floors_label_for_its_variant() -> None:
    found, _, _, result = finished()
    rows = [row for row in rows_of(found, by_trial([result])) if row["probe"] == "floors"]
    assert [(row["variant"], row["value"], row["status"]) for row in rows] == [
        ("uniform", 4.0, "ok"),
        ("unigram", 3.0, "ok"),
        ("3-gram", 2.0, "ok"),
        ("5-gram", None, "skipped"),
    ]
    assert {row["seed"] for row in rows} == {0}


def test_a_trial_that_failed_owes_a_row_a_floor() -> None:
    found, _, _, result = finished()
    failed = replace(result, status=Status.ERROR, reason="it broke", measurements=())
    rows = [row for row in rows_of(found, by_trial([failed])) if row["probe"] == "floors"]
    assert [(row["variant"], row["status"]) for row in rows] == [(one, "error") for one in LABELS]


def test_how_the_store_shows_it() -> None:
    _, trial, cells, result = finished()
    assert trial_name(trial, cells) == "floors · shakespeare_characters · length 8"
    assert trial_params(trial, cells)["variant"] == " | ".join(LABELS)
    assert trial_tags(("a", "quick"), trial, cells)["bakeoff.variant"] == " | ".join(LABELS)
    rows = {row.key: row.value for row in result_rows(trial, cells, result)}
    assert rows["bits_per_character/uniform"] == 4.0
    assert len(rows) == 4  # three floors and the duration of the trial
    said = trial_description(trial, cells, result)
    assert "floors of shakespeare_characters at 8 tokens: uniform, unigram" in said
    assert "| 3-gram | bits_per_character | 2 | bit | ok |" in said
    assert result_tags(trial, cells, result)["bakeoff.status.bits_per_character/5-gram"] == (
        "skipped: no such"
    )


def test_how_a_person_reads_of_it() -> None:
    found, trial, _, _ = finished()
    assert labels_of(found)[trial.trial_id] == "floors, shakespeare_characters"
    assert seconds_of(trial, Resources()) > 1.0


def test_a_sheet_gives_the_same_trial_at_any_number_of_seeds() -> None:
    few, many = (plan(make_ablation(probes=["quality", "floors"]), seeds=n) for n in (1, 5))
    assert _floors(few) == _floors(many)
