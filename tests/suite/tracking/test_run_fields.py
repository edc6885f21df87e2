from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bakeoff.suite.schema import Measurement, Parallel, Point, Status
from bakeoff.suite.tracking.client import MetricRow
from bakeoff.suite.tracking.run_fields import (
    not_finite_tags,
    point_rows,
    result_rows,
    result_tags,
    sweep_description,
    sweep_tags,
    trial_description,
    trial_name,
    trial_params,
    trial_tags,
)
from tests.suite.heads_sweep import HEADS

START = 1_000_000


def _point(value: float, step: int = 0, metric: str = "loss") -> Point:
    return Point(metric=metric, step=step, flops=None, value=value, unit="nat", better="lower")


def _seconds(value: float | None, subject: int = 0, status: Status = Status.OK) -> Measurement:
    return Measurement(
        metric="step_seconds",
        value=value,
        unit="s",
        better="lower",
        subject=subject,
        at="length=128",
        status=status,
        reason="" if status is Status.OK else "too loud",
    )


def test_names_say_what_ran() -> None:
    one, all_of_them = HEADS.trial(4, seed=1), HEADS.timing(process=2)
    assert trial_name(one, HEADS.cells(one)) == "heads=4 · shakespeare_characters · seed 1"
    assert (
        trial_name(all_of_them, HEADS.cells(all_of_them))
        == "step_time · 2 variants · shakespeare_characters · length 128 · process 2"
    )


@pytest.mark.parametrize(
    ("status", "measured", "name"),
    [
        (Status.OK, Status.OK, None),
        (Status.OK, Status.NOISY, "noisy: heads=4"),
        (Status.DIVERGED, Status.OK, "diverged: heads=4"),
    ],
)
def test_the_name_says_how_a_trial_ended(status: Status, measured: Status, name: str) -> None:
    trial = HEADS.trial(4)
    result = replace(HEADS.result(trial, status), measurements=(_seconds(0.1, 0, measured),))
    shown = result_tags(trial, HEADS.cells(trial), result).get("mlflow.runName")
    assert shown == (name and f"{name} · shakespeare_characters · seed 0")


def test_a_trial_is_found_again_by_its_tags() -> None:
    trial = HEADS.timing()
    tags = trial_tags(HEADS.key, trial, HEADS.cells(trial))
    assert tags["bakeoff.trial_id"] == trial.trial_id
    assert (tags["bakeoff.ablation"], tags["bakeoff.scale"]) == HEADS.key
    assert tags["bakeoff.variant"] == "heads=1 | heads=8"
    ours = [name for name in tags if not name.startswith("mlflow.")]
    assert all(name.startswith("bakeoff.") for name in ours)


def test_cells_of_other_trials_name_nothing_here() -> None:
    trial, other = HEADS.trial(4), HEADS.trial(8)
    assert trial_params(trial, [*HEADS.cells(trial), *HEADS.cells(other)])["variant"] == "heads=4"


def test_parameters_are_flat_and_complete() -> None:
    trial = HEADS.trial(4, seed=2)
    params = trial_params(trial, HEADS.cells(trial))
    assert params["mixer.heads"] == "4"
    assert params["model.dim"] == "64"
    assert params["training.learning_rate"] == "0.001"
    assert (params["seed"], params["variant"]) == ("2", "heads=4")
    assert all(isinstance(value, str) for value in params.values())


def test_how_a_step_is_spread_is_a_parameter_where_it_is() -> None:
    trial = HEADS.trial()
    spread = Parallel(workers=2, zero=3, precision="bf16", accumulation=4)
    params = trial_params(replace(trial, parallel=spread), HEADS.cells(trial))
    assert {k: v for k, v in params.items() if k.startswith("parallel.")} == {
        "parallel.workers": "2",
        "parallel.zero": "3",
        "parallel.precision": "bf16",
        "parallel.accumulation": "4",
    }
    assert not any(k.startswith("parallel.") for k in trial_params(trial, HEADS.cells(trial)))


def test_of_several_models_only_what_they_share_is_a_parameter() -> None:
    trial = HEADS.timing()
    params = trial_params(trial, HEADS.cells(trial))
    assert "mixer.heads" not in params
    assert params["mixer.dropout"] == "0.0"
    assert not [name for name in params if name.startswith("training.")]
    assert "precision" not in params
    assert trial_params(replace(trial, precision="bf16"), ())["precision"] == "bf16"


def test_points_are_stamped_by_their_step() -> None:
    rows = point_rows(HEADS.points((0, 10)))
    assert [(row.timestamp_ms, row.step) for row in rows] == [(0, 0), (10, 10)]
    assert [row.from_start(START).timestamp_ms for row in rows] == [START, START + 10]


def test_what_is_not_finite_is_a_tag_and_no_number() -> None:
    points = [_point(1.0), _point(math.inf, 10), _point(math.nan, 20)]
    assert [row.value for row in point_rows(points)] == [1.0]
    assert not_finite_tags(points) == {"bakeoff.not_finite.loss": "inf from step 10"}


def test_measurements_stand_by_name_and_those_of_a_curve_under_final() -> None:
    trial = HEADS.trial()
    rows = result_rows(trial, HEADS.cells(trial), HEADS.result(trial))
    by_name: dict[str, list[MetricRow]] = {}
    for row in rows:
        by_name.setdefault(row.key, []).append(row)
    assert len(by_name["bits_per_character"]) == 3
    # The measurement, not the last point of the curve.
    assert by_name["final/bits_per_character"][0].value == 2.5
    assert by_name["best/bits_per_character"][0].value == HEADS.points()[-1].value
    assert by_name["parameters"][0].value == 100_000.0
    assert by_name["trial_seconds"][0].value == 12.5
    assert "trial_joules" not in by_name
    told = result_rows(trial, HEADS.cells(trial), replace(HEADS.result(trial), joules=3e3))
    assert [row.value for row in told if row.key == "trial_joules"] == [3000.0]


@pytest.mark.parametrize(("better", "best"), [("lower", 1.0), ("higher", 3.0), ("none", None)])
def test_best_and_final_of_a_curve(better: str, best: float | None) -> None:
    trial = HEADS.trial()
    points = [replace(_point(v, s), better=better) for s, v in ((20, 2.0), (0, 3.0), (10, 1.0))]
    result = replace(HEADS.result(trial), measurements=(), points=tuple(points))
    rows = {row.key: row.value for row in result_rows(trial, [], result)}
    assert rows["final/loss"] == 2.0  # at the last step, in any order
    assert rows.get("best/loss") == best


def test_each_variant_of_a_comparison_has_its_own_metric() -> None:
    trial = HEADS.timing()
    measured = (_seconds(0.1, 0), _seconds(None, 1, Status.OUT_OF_MEMORY))
    result = replace(HEADS.result(trial), measurements=measured, points=())
    rows = {row.key: row.value for row in result_rows(trial, HEADS.cells(trial), result)}
    assert rows["step_seconds/heads:1/length:128"] == 0.1
    assert "step_seconds/heads:8/length:128" not in rows
    tags = result_tags(trial, HEADS.cells(trial), result)
    assert tags["bakeoff.status.step_seconds/heads:8/length:128"] == "out_of_memory: too loud"


def test_the_hash_of_the_result_is_the_last_tag() -> None:
    trial = HEADS.trial()
    result = HEADS.result(trial)
    tags = result_tags(trial, HEADS.cells(trial), result)
    assert list(tags)[-1] == "bakeoff.result_sha256"
    assert tags["bakeoff.result_sha256"] == result.sha256
    assert tags["bakeoff.environment_id"] == result.provenance.environment_id


def test_a_reason_is_told_without_its_secrets() -> None:
    trial = HEADS.trial()
    reason = "GET http://me:CANARY_2@host/x failed"
    result = replace(HEADS.result(trial, Status.ERROR), reason=reason)
    tags = result_tags(trial, HEADS.cells(trial), result)
    assert tags["bakeoff.reason"] == "GET http://***@host/x failed"
    assert "CANARY_2" not in "".join(tags.values())


def test_a_description_shows_units_and_runs_no_markup() -> None:
    trial = HEADS.timing()
    evil = "<img src=x onerror=alert(1)> | a\nb"
    cells = [replace(cell, variant=evil) for cell in HEADS.cells(trial)]
    spread = replace(_seconds(0.1), spread_low=0.09, spread_high=0.12)
    result = replace(HEADS.result(trial), measurements=(spread,) * 60, points=())
    text = trial_description(trial, cells, result)
    assert "<img" not in text
    assert "| step_seconds length=128 | 0.1 (0.09 to 0.12) | s | ok |" in text
    assert text.count("onerror=alert(1)&gt; \\| a b |") == 40
    assert "20 more are in the sweep's `results.parquet`" in text


def test_the_parent_says_what_is_asked_found_and_where_to_look() -> None:
    assert sweep_tags(HEADS.about)["mlflow.runName"] == "heads · quick"
    early = sweep_description(HEADS.about, "1", "abc", has_report=False, finding="")
    for part in (HEADS.about.question, HEADS.about.note, "8 heads beat one", "bakeoff run heads"):
        assert part in early
    assert "Verdict: none yet" in early
    assert "report/index.html" not in early
    late = sweep_description(HEADS.about, "1", "abc", has_report=True, finding="8 > 1: supported.")
    assert "Verdict: 8 &gt; 1: supported." in late
    assert "[The report](#/experiments/1/runs/abc/artifacts/report/index.html?workflowType=" in late
    assert "](#/experiments/1/runs?viewStateShareKey=quick&compareRunsMode=CHART" in late
    assert "[The variants side by side](" in early
    assert "viewStateShareKey=quick.trials" in early
    assert "edition" not in early


def test_a_question_without_a_claim_has_no_verdict_to_wait_for() -> None:
    about = replace(HEADS.about, claim=None)
    text = sweep_description(about, "1", "abc", has_report=False, finding="")
    assert "Verdict" not in text
    assert "Claim" not in text


def test_what_is_varied_stands_under_its_own_name() -> None:
    trial = HEADS.trial(4)
    params = trial_params(trial, HEADS.cells(trial), ("heads", "dim", "learning_rate", "unheard"))
    assert (params["heads"], params["dim"], params["learning_rate"]) == ("4", "64", "0.001")
    assert "unheard" not in params
    comparison = HEADS.timing()
    assert "heads" not in trial_params(comparison, HEADS.cells(comparison), ("heads",))


def test_a_trial_says_what_it_is() -> None:
    one, both = HEADS.trial(8, seed=2), HEADS.timing(process=1)
    text = trial_description(one, HEADS.cells(one), HEADS.result(one))
    assert text.startswith(
        "quality of heads=8 on shakespeare_characters, trained for 300 steps of 32 x 128 tokens, "
        "seed 2."
    )
    text = trial_description(both, HEADS.cells(both), HEADS.result(both))
    assert "step_time of 2 variants (heads=1, heads=8), on shakespeare_characters" in text
