"""Tests for sweeps of the mixer alone: lengths at one width, and widths at one length."""

import pytest

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.planning.variants import coordinates
from bakeoff.suite.probes.probe import PROBES, probe
from bakeoff.suite.schema import MIXER_ALONE, Plan
from bakeoff.suite.spec import Axis, Claim, Model, Scale, SpecError, vary
from tests.suite.small_ablation import SCALE, make_ablation

SWEEP = {"lengths": [8, 16, 32], "dims": [8, 16], "dims_length": 16}
SWEPT = [name for name in PROBES if probe(name).is_swept]


def swept(*, probes: list[str], **fields: object) -> Plan:
    axes = [vary("mixer", ["attention", "conv", "fnet"])]
    return plan(make_ablation(**{"axes": axes, "scale": SWEEP, "probes": probes, **fields}))


def test_the_coordinates_of_a_scale() -> None:
    found = coordinates(Scale(**{**SCALE, **SWEEP}))
    assert [each.at for each in found] == [
        "length=8",
        "length=16",
        "length=32",
        "dim=8",
        "dim=16",
    ]
    assert [each.changes["length"] for each in found] == [8, 16, 32, 16, 16]
    assert ["dim" in each.changes for each in found] == [False] * 3 + [True] * 2


def test_widths_are_swept_at_the_middle_length_unless_told() -> None:
    found = coordinates(Scale(**{**SCALE, "lengths": [8, 16, 32], "dims": [4]}))
    assert found[-1].changes == {"dim": 4, "length": 16}


def test_batches_and_thread_counts_are_swept_at_one_length_by_times_alone() -> None:
    """Check that the first batch size and thread count add no trials and change no ids."""
    loads = {**SWEEP, "batches": [1, 8], "thread_counts": [1, 2]}
    before, after = (swept(probes=["mixer_time"], scale=scale) for scale in (SWEEP, loads))
    assert before.trials == after.trials[: len(before.trials)]
    more = after.trials[len(before.trials) :]
    assert {(t.length, t.batch, t.threads) for t in more} == {(16, 8, None), (16, 1, 2)}
    named = {cell.at: cell.trial_id for cell in after.cells if cell.seed == 0}
    assert named["batch=1"] == named["threads=1"] == named["length=16"]
    assert len({named["batch=8"], named["threads=2"], named["length=16"]}) == 3
    ats = {cell.at for cell in swept(probes=["mixer_flops"], scale=loads).cells}
    assert ats == {"length=8", "length=16", "length=32", "dim=8", "dim=16"}
    assert after.about.settings["batches"] == "1, 8"


@pytest.mark.parametrize("name", SWEPT)
def test_a_swept_probe_meets_no_task_and_both_directions(name: str) -> None:
    found = swept(probes=[name])
    assert {cell.task for cell in found.cells} == {MIXER_ALONE}
    assert found.about.tasks == (MIXER_ALONE,)
    assert found.about.data_sets == {}
    for trial in found.trials:
        assert trial.task == MIXER_ALONE
        assert trial.batch == 1
        assert trial.training is None
        for model in trial.subjects:
            assert (model.architecture, model.depth, model.position) == ("mixer_alone", 1, "none")
            assert (model.length, model.input_size) == (trial.length, model.dim)
    assert not [cell for cell in found.cells if cell.reason], "FNet too stands alone"


@pytest.mark.parametrize("name", SWEPT)
def test_every_cell_has_its_coordinate_and_its_metrics_bear_it(name: str) -> None:
    for cell in swept(probes=[name]).cells:
        assert cell.at
        assert {metric.at for metric in cell.metrics} == {cell.at}


def test_a_trial_that_two_coordinates_share_is_planned_once() -> None:
    found = swept(probes=["mixer_flops"])
    conv = {cell.at: cell.trial_id for cell in found.cells if cell.variant == "mixer=conv"}
    assert conv["length=16"] == conv["dim=16"], "16 tokens at width 16, both times"
    assert len(found.trials) == 3 * 4


def test_probes_of_models_and_of_mixers_stand_side_by_side() -> None:
    found = swept(probes=["flops", "mixer_flops"])
    assert found.about.tasks == ("shakespeare_characters", MIXER_ALONE)
    assert set(found.about.data_sets) == {"shakespeare_characters"}
    skipped = {(cell.variant, cell.task) for cell in found.cells if cell.reason}
    assert skipped == {("mixer=fnet", "shakespeare_characters")}


def test_a_relative_position_acts_inside_a_mixer_alone() -> None:
    found = swept(
        probes=["mixer_flops"],
        axes=[vary("position", ["sinusoidal", "rope"])],
        baseline=Model(mixer="attention", heads=4),
    )
    assert {model.position for trial in found.trials for model in trial.subjects} == {
        "none",
        "rope",
    }


def test_what_a_mixer_cannot_take_is_a_skipped_cell_at_that_coordinate() -> None:
    axes = [vary("mixer", ["attention", "linformer"])]  # 32 projected tokens
    found = swept(probes=["mixer_flops"], axes=axes)
    skipped = {cell.at: cell.reason for cell in found.cells if cell.reason}
    assert set(skipped) == {"length=8", "length=16", "dim=8", "dim=16"}
    assert "projected_length=32" in skipped["length=8"]
    assert len({cell.trial_id for cell in found.cells if cell.reason}) == 4


def test_the_baseline_is_the_first_subject_of_a_comparison() -> None:
    baseline = Model(mixer="fnet")
    tasks = ["fashion_mnist_patches"]  # a task that FNet supports
    found = swept(probes=["mixer_time"], baseline=baseline, tasks=tasks)
    assert {trial.subjects[0].mixer for trial in found.trials} == {"fnet"}
    assert len(found.trials) == 4 * 3, "places that differ, times processes"


def test_theory_travels_with_the_plan() -> None:
    found = swept(probes=["mixer_flops"]).about.subjects
    assert found["mixer=conv"].mixer == "conv"
    assert found["mixer=conv"].time == "k * n * d**2"
    assert set(found) == {"mixer=attention", "mixer=conv", "mixer=fnet"}


class TestRefused:
    def test_a_sweep_without_lengths(self) -> None:
        with pytest.raises(SpecError, match=r"lengths=\[64, 128"):
            plan(make_ablation(probes=["mixer_flops"]))

    @pytest.mark.parametrize("lengths", [[16, 8], [8, 8], [0, 8], [8.0], ["8"]])
    def test_lengths_that_do_not_ascend_or_are_none(self, lengths: list[object]) -> None:
        with pytest.raises(SpecError, match="lengths"):
            Scale(**{**SCALE, "lengths": lengths})

    def test_an_axis_along_what_is_swept(self) -> None:
        with pytest.raises(SpecError, match="'lengths'"):
            swept(probes=["mixer_flops"], axes=[Axis(name="lengths", values=[8])])

    def test_where_no_mixer_can_stand(self) -> None:
        axes = [vary("projected_length", [100, 200])]
        with pytest.raises(SpecError, match=r"no mixer can be measured alone at length=8"):
            swept(
                probes=["mixer_flops"],
                axes=axes,
                tasks=["fashion_mnist_pixels"],
                baseline=Model(mixer="linformer", projected_length=300),
            )

    def test_a_sweep_that_is_too_large_is_counted_with_its_places(self) -> None:
        axes = [vary("learning_rate", [1e-5 * step for step in range(1, 5_001)])]
        with pytest.raises(SpecError, match=r"1 tasks and 5 places of a sweep x 10 seeds are 300"):
            plan(make_ablation(axes=axes, scale=SWEEP, probes=["mixer_time"]), seeds=10)


CLAIM = {"metric": "forward_flops", "a": "mixer=conv", "b": "mixer=attention", "by": 0.0}


class TestClaims:
    def test_a_claim_about_mixers_alone_names_its_coordinate(self) -> None:
        claim = Claim("cheaper", **CLAIM, at="length=32")
        found = swept(probes=["mixer_flops"], claim=claim).about.claim
        assert found is not None
        assert (found.task, found.at) == (MIXER_ALONE, "length=32")

    @pytest.mark.parametrize("at", ["", "length=64"])
    def test_another_coordinate_is_refused(self, at: str) -> None:
        claim = Claim("cheaper", **CLAIM, at=at)
        with pytest.raises(
            SpecError, match=r"not a coordinate of forward_flops; allowed: length=8, length=16"
        ):
            swept(probes=["mixer_flops"], claim=claim)

    def test_a_coordinate_where_nothing_is_swept_is_refused(self) -> None:
        claim = Claim("cheaper", **CLAIM, at="length=9")
        with pytest.raises(SpecError, match="allowed: length=8"):  # the task's own length
            swept(probes=["flops"], claim=claim)
        claim = Claim("cheaper", **{**CLAIM, "metric": "num_parameters"}, at="length=8")
        with pytest.raises(SpecError, match="the metric has no coordinates"):
            swept(probes=["parameters"], claim=claim)


class TestAxesOfAScale:
    def test_quick_keeps_to_some_of_the_values(self) -> None:
        scales = {"quick": Scale(**SCALE), "standard": Scale(**SCALE)}
        axes = [vary("mixer", ["attention", "conv", "lstm"], quick=["attention", "lstm"])]
        ablation = make_ablation(axes=axes, scales=scales)
        assert plan(ablation).about.variants == ("mixer=attention", "mixer=lstm")
        assert len(plan(ablation, scale="standard").about.variants) == 3

    def test_a_value_of_quick_is_one_of_all(self) -> None:
        with pytest.raises(SpecError, match=r"quick='lstm' is not among its values"):
            vary("mixer", ["attention", "conv"], quick=["lstm"])
