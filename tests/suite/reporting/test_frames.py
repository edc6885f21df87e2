"""Tests for the rows of plans and results, with a row for each failure and impossible cell."""

from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.reports.render import render
from bakeoff.reports.results.frame import CURVE_COLUMNS, RESULT_COLUMNS, RESULT_KEY
from bakeoff.reports.view import read_sweep
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.reporting.frames import (
    CURVES_FILE,
    RESULTS_FILE,
    about_with_provenance,
    by_trial,
    curve_rows,
    result_rows,
    sweep_files,
    sweep_of,
)
from bakeoff.suite.schema import Measurement, Plan, Point, Provenance, Result, Sample, Status, Trial
from bakeoff.suite.spec import vary
from bakeoff.suite.tasks.sequence_metrics import Bleu
from bakeoff.suite.tasks.shakespeare_characters import ShakespeareCharacters
from tests.suite.small_ablation import make_ablation

HERE = Provenance(
    commit="abc",
    device="a CPU",
    num_threads=1,
    num_cpus=1.0,
    num_gpus=0.0,
    versions={"torch": "2.11"},
)
BLEU = Measurement(metric="bleu", value=0.0, unit="BLEU", better="higher")
THERE = replace(HERE, device="another CPU")


@pytest.fixture(scope="module")
def planned() -> Plan:
    axes = [vary("heads", [1, 3, 4])]
    return plan(make_ablation(axes=axes, probes=["quality", "step_time"]), seeds=1)


def _trial(planned: Plan, probe: str, heads: int | None = None) -> Trial:
    return next(
        trial
        for trial in planned.trials
        if trial.probe == probe and heads in (None, trial.subjects[0].knobs["heads"])
    )


def _quality(trial: Trial, value: float, **changes: object) -> Result:
    measurement = Measurement(metric="bits_per_character", value=value, unit="bit", better="lower")
    point = Point(
        metric="validation_bits_per_character",
        step=2,
        flops=1e6,
        value=3.0,
        unit="bit",
        better="lower",
    )
    result = Result(
        trial_id=trial.trial_id,
        status=Status.OK,
        provenance=HERE,
        seconds=1.0,
        measurements=(measurement,),
        points=(point,),
    )
    return replace(result, **changes)  # type: ignore[arg-type]


STEP_TIMES = (
    "forward_seconds",
    "forward_backward_seconds",
    "training_step_seconds",
    "training_tokens_per_second",
    "prefill_tokens_per_second",
)


def _timing(trial: Trial, provenance: Provenance, *seconds: float) -> Result:
    return Result(
        trial_id=trial.trial_id,
        status=Status.OK,
        provenance=provenance,
        seconds=1.0,
        measurements=tuple(
            Measurement(
                metric="training_step_seconds",
                value=value,
                unit="s",
                better="lower",
                subject=index,
                at="length=8",
                spread_low=value / 2,
                spread_high=value * 2,
            )
            for index, value in enumerate(seconds)
        ),
    )


def test_every_row_has_every_column(planned: Plan) -> None:
    results = by_trial([_quality(_trial(planned, "quality", 1), 2.5)])
    assert all(tuple(row) == RESULT_COLUMNS for row in result_rows(planned, results))
    assert [tuple(row) for row in curve_rows(planned, results)] == [CURVE_COLUMNS]


def test_an_impossible_cell_is_there_before_anything_ran(planned: Plan) -> None:
    rows = list(result_rows(planned, {}))
    assert [(row["variant"], row["metric"], row["status"]) for row in rows] == [
        ("heads=3", "bits_per_character", "skipped"),
        *(("heads=3", metric, "skipped") for metric in STEP_TIMES),
    ]
    assert {row["reason"] for row in rows} == {"attention: heads=3 does not divide dim=16"}
    assert {(row["value"], row["environment_id"], row["unit"]) for row in rows} == {
        (None, "", "bit"),
        (None, "", "s"),
        (None, "", "tokens/s"),
    }


def test_a_number_stands_at_its_variant(planned: Plan) -> None:
    results = by_trial([_quality(_trial(planned, "quality", 1), 2.5)])
    rows = {row["variant"]: row for row in result_rows(planned, results) if row["value"]}
    assert set(rows) == {"heads=1"}
    row = rows["heads=1"]
    assert (row["value"], row["unit"], row["better"], row["status"], row["seed"]) == (
        2.5,
        "bit",
        "lower",
        "ok",
        0,
    )
    assert (row["device"], row["commit"]) == ("a CPU", "abc")
    assert row["environment_id"] == HERE.environment_id


def test_a_comparison_is_taken_apart_by_subject_and_by_environment(planned: Plan) -> None:
    trial = _trial(planned, "step_time")
    heads = [subject.knobs["heads"] for subject in trial.subjects]
    results = by_trial([_timing(trial, HERE, 0.1, 0.2), _timing(trial, THERE, 0.3, 0.4)])
    rows = [row for row in result_rows(planned, results) if row["status"] == "ok"]
    found = {(row["variant"], row["environment_id"]): row["value"] for row in rows}
    assert found == {
        (f"heads={heads[0]}", HERE.environment_id): 0.1,
        (f"heads={heads[1]}", HERE.environment_id): 0.2,
        (f"heads={heads[0]}", THERE.environment_id): 0.3,
        (f"heads={heads[1]}", THERE.environment_id): 0.4,
    }
    assert rows[0]["spread_low"] == pytest.approx(rows[0]["value"] / 2)  # type: ignore[operator]
    keys = [tuple(row[key] for key in RESULT_KEY) for row in rows]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_a_failure_owes_a_row_under_every_metric(planned: Plan, status: Status) -> None:
    quality, timing = _trial(planned, "quality", 4), _trial(planned, "step_time")
    failed = [
        _quality(quality, 9.9, status=status, reason="because"),
        replace(_timing(timing, HERE, 9.9, 9.9), status=status, reason="because"),
    ]
    rows = [row for row in result_rows(planned, by_trial(failed)) if row["reason"] == "because"]
    assert [(row["variant"], row["metric"], row["value"]) for row in rows] == [
        ("heads=4", "bits_per_character", None),
        *((label, metric, None) for label in ("heads=1", "heads=4") for metric in STEP_TIMES),
    ]
    assert {row["status"] for row in rows} == {status.value}


def test_what_is_known_of_environments_is_said(planned: Plan) -> None:
    trial = _trial(planned, "step_time")
    about = about_with_provenance(
        planned, by_trial([_timing(trial, THERE, 1.0, 1.0), _timing(trial, HERE, 1.0, 1.0)])
    )
    assert about.provenances == {HERE.environment_id: HERE, THERE.environment_id: THERE}
    assert list(about.provenances) == sorted(about.provenances)


def test_the_same_results_give_the_same_bytes_in_whatever_order_they_came(planned: Plan) -> None:
    results = [_quality(_trial(planned, "quality", heads), 2.0 + heads) for heads in (1, 4)]
    one, other = (sweep_files(planned, by_trial(r)) for r in (results, results[::-1]))
    assert set(one) == {RESULTS_FILE, CURVES_FILE}
    assert one == other


def _seen(value: str) -> tuple[Sample, ...]:
    return (Sample(kind="text", title="continuation", text=value),)


def test_samples_of_the_first_seed_stand_at_their_variants_in_the_plans_order() -> None:
    planned = plan(make_ablation(axes=[vary("heads", [1, 2, 4])]), seeds=2)
    done = [
        _quality(trial, 2.0, samples=_seen(f"{trial.subjects[0].knobs['heads']} {trial.seed}"))
        for trial in planned.trials
        if trial.subjects[0].knobs["heads"] != 2
    ]
    expected = {"heads=1": _seen("1 0"), "heads=4": _seen("4 0")}
    for results in (done, done[::-1]):
        shown = about_with_provenance(planned, by_trial(results)).samples
        assert shown == {"shakespeare_characters": expected}
        assert list(shown["shakespeare_characters"]) == list(expected)


def test_samples_of_several_probes_stand_together() -> None:
    planned = plan(
        make_ablation(axes=[vary("heads", [1, 4])], probes=["quality", "training_score"])
    )
    done = [
        Result(
            trial_id=trial.trial_id,
            status=Status.OK,
            provenance=HERE,
            seconds=1.0,
            samples=_seen(trial.probe),
        )
        for trial in planned.trials
        if trial.seed == 0
    ]
    (shown,) = about_with_provenance(planned, by_trial(done)).samples.values()
    both = (*_seen("quality"), *_seen("training_score"))
    assert shown == {"heads=1": both, "heads=4": both}


def test_images_that_variants_share_stand_at_the_first_of_them_alone() -> None:
    planned = plan(make_ablation(axes=[vary("heads", [1, 2, 4])]), seeds=1)
    images = Sample(kind="images", title="pixels", levels="AAAA")
    others = {1: images, 2: images, 4: replace(images, levels="BBBB")}
    done = [
        _quality(trial, 2.0, samples=(others[heads], *_seen("x")))
        for trial in planned.trials
        for heads in [trial.subjects[0].knobs["heads"]]
    ]
    (shown,) = about_with_provenance(planned, by_trial(done)).samples.values()
    assert shown == {
        "heads=1": (images, *_seen("x")),
        "heads=2": _seen("x"),
        "heads=4": (others[4], *_seen("x")),
    }


def test_of_two_environments_one_is_shown_and_always_the_same(planned: Plan) -> None:
    trial = _trial(planned, "quality", 1)
    both = [
        _quality(trial, 2.0, provenance=place, samples=_seen(place.device))
        for place in (HERE, THERE)
    ]
    first, second = (
        about_with_provenance(planned, by_trial(some)).samples for some in (both, both[::-1])
    )
    assert first == second
    assert len(first["shakespeare_characters"]["heads=1"]) == 1


def test_of_many_variants_a_few_are_shown_and_the_baseline_among_them() -> None:
    rates = [index / 1000 for index in range(1, 41)]
    wide = plan(
        make_ablation(axes=[vary("learning_rate", rates)], scale={"learning_rate": 0.04}),
        seeds=1,
    )
    done = by_trial(_quality(trial, 2.0, samples=_seen("x")) for trial in wide.trials)
    shown = about_with_provenance(wide, done).samples["shakespeare_characters"]
    assert list(shown) == [*wide.about.variants[:23], wide.about.baseline]


def test_a_page_gives_the_signature_of_its_metric(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Follow the signature from the plan through the stored files to both formats of the page."""
    monkeypatch.setattr(ShakespeareCharacters, "metric", Bleu(text=str))
    planned = plan(make_ablation(), seeds=1)
    results = [
        _quality(trial, 27.5, points=(), measurements=(replace(BLEU, value=27.5),))
        for trial in planned.trials
    ]
    for name, content in sweep_files(planned, by_trial(results)).items():
        (tmp_path / name).write_bytes(content)
    sweep = read_sweep(tmp_path / RESULTS_FILE, tmp_path / CURVES_FILE)
    render(sweep.about.ablation, [sweep], tmp_path)
    for file in ("report.md", "index.html"):
        page = (tmp_path / "own" / file).read_text().replace("\\|", "|")
        assert "BLEU: the overlap" in page
        assert "case:mixed|eff:no|tok:13a|smooth:exp|version:" in page


def test_other_metrics_have_no_signature(planned: Plan) -> None:
    assert planned.about.signatures == {}


def test_of_trainings_as_long_as_the_baselines_one_machine_is_kept() -> None:
    """Each machine found its own number of steps, so that their mean would be of no training."""
    axes = [vary("mixer", ["attention", "lstm"])]
    ablation = make_ablation(axes=axes, probes=["quality"], scale={"equal": "seconds"})
    planned = plan(ablation, seeds=4)
    steps = {HERE.environment_id: 40, THERE.environment_id: 160}
    results: list[Result] = []
    for trial in planned.trials:
        for made in (HERE, THERE):
            if trial.probe == "pace":
                found = float(steps[made.environment_id])
                spec = Measurement(metric="training_steps", value=found, unit="1", better="none")
                results.append(replace(_quality(trial, 0.0), provenance=made, measurements=(spec,)))
            elif trial.probe == "quality" and (made is THERE or trial.seed < 2):
                results.append(replace(_quality(trial, 2.0), provenance=made))
    sweep = sweep_of(planned, by_trial(results))
    lstm = sweep.results.query("variant == 'mixer=lstm' and metric == 'bits_per_character'")
    assert set(lstm["environment_id"]) == {THERE.environment_id}
    assert sorted(lstm["seed"]) == [0, 1, 2, 3]
    assert [of["mixer=lstm"] for of in sweep.about.training_steps.values()] == [160]
    others = sweep.results.query("variant == 'mixer=attention' and metric == 'bits_per_character'")
    assert len(others) == 6  # the baseline trains for the same steps everywhere
