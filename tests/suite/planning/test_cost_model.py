"""Tests for the order of cost estimates: more work takes longer, more resources less."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bakeoff.suite.planning.cost_model import planned_work, seconds_of
from bakeoff.suite.planning.gpu_specs import GPU_SPECS
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Parallel, Plan, Resources, Trial
from bakeoff.suite.spec import Model, vary
from tests.suite.small_ablation import make_ablation

ONE = Resources()
SECONDS_TO_START = 1.6  # of a training on a GPU, and to record its step


@pytest.fixture(scope="module")
def planned() -> Plan:
    ablation = make_ablation(
        axes=[vary("depth", [1, 2])],
        probes=["quality", "parameters", "step_time"],
        scale={"steps": 1000, "batch": 64},
    )
    return plan(ablation, seeds=2)


def test_more_work_takes_longer_and_more_resources_less(planned: Plan) -> None:
    small, large = (
        next(t for t in planned.trials if t.probe == "quality" and t.subjects[0].depth == depth)
        for depth in (1, 2)
    )
    assert seconds_of(small, ONE) < seconds_of(large, ONE)
    assert seconds_of(large, Resources(num_threads=2)) < seconds_of(large, ONE)
    assert seconds_of(large, Resources(num_gpus=1.0)) < seconds_of(large, ONE)
    assert small.training is not None
    longer = replace(small, training=replace(small.training, steps=2000))
    assert seconds_of(longer, ONE) == pytest.approx(2 * seconds_of(small, ONE), rel=0.1)


def test_the_timing_of_steps_takes_a_number_of_turns_and_no_longer_than_both_trainings() -> None:
    def seconds(batch: int, steps: int) -> tuple[float, float]:
        ablation = make_ablation(
            axes=[vary("depth", [1, 2])], scale={"equal": "seconds", "batch": batch, "steps": steps}
        )
        pace = next(t for t in plan(ablation, seeds=1).trials if t.reference is not None)
        assert pace.reference is not None
        return seconds_of(pace, ONE), seconds_of(pace.reference, ONE)

    assert seconds(8, 100)[0] == pytest.approx(3.2, abs=1)  # 16 turns of twice a tenth of a second
    assert seconds(8, 100_000)[0] == pytest.approx(51.2, abs=1)  # 256 turns
    slow, training = seconds(100_000, 100_000)  # a step takes longer than a tenth of a second
    assert 51.2 < slow < training


def test_training_is_packed_and_timing_is_not(planned: Plan) -> None:
    training = [t for t in planned.trials if t.probe == "quality"]
    timing = [t for t in planned.trials if t.probe == "step_time"]
    start = planned_work([], ONE).seconds(1)
    on_two, on_one = (planned_work(training, ONE).seconds(cpus) - start for cpus in (2, 1))
    assert on_two == pytest.approx(on_one / 2)
    assert planned_work(timing, ONE).seconds(2) == planned_work(timing, ONE).seconds(1)
    two = Resources(num_cpus=2)
    assert planned_work(training, two).seconds(2) == planned_work(training, two).seconds(1)


def test_one_trial_lasts_as_long_as_those_that_have_run(planned: Plan) -> None:
    one = [t for t in planned.trials if t.probe == "quality"][:1]
    start = planned_work([], ONE).seconds(2)
    found = planned_work(one, ONE, measured={one[0].trial_id: 7200.0})
    assert found.seconds(2) - start == 7200.0


def test_estimating_leaves_the_random_numbers_alone(planned: Plan) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    large = replace(planned.trials[0].subjects[0], depth=3)  # not estimated before
    seconds_of(replace(planned.trials[0], subjects=(large,)), ONE)
    assert torch.equal(torch.rand(3), expected)


def test_a_users_mixer_without_a_formula_has_an_estimate(
    write_ablation: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "own_data.py").write_text(
        "import torch\nfrom bakeoff.models import Mixer\n\n\nclass Mine(Mixer):\n"
        "    supports_causal = True\n\n    def __init__(self, **fields):\n"
        "        super().__init__(**fields)\n        self.scale = torch.ones(2).sum().item()\n\n"
        "    def forward(self, x, mask=None, context=None, context_mask=None):\n"
        "        return self.scale * x\n"
    )
    path = write_ablation(baseline='Model(mixer="own_data:Mine")', axes='[vary("depth", [1, 2])]')
    found = plan(str(path), seeds=1)
    seconds = planned_work(found.trials, found.resources).seconds(1)
    assert math.isfinite(seconds)
    assert seconds > 0


def test_workers_share_the_training_and_take_as_many_places(planned: Plan) -> None:
    trial = next(t for t in planned.trials if t.probe == "quality")
    assert trial.training is not None
    long = replace(trial, training=replace(trial.training, steps=100_000_000))
    two, four = (
        replace(long, parallel=Parallel(workers=n, zero=0, precision="float32", accumulation=1))
        for n in (2, 4)
    )
    assert seconds_of(two, ONE) == pytest.approx(seconds_of(long, ONE) / 2, rel=0.01)
    assert seconds_of(four, ONE) == pytest.approx(seconds_of(long, ONE) / 4, rel=0.01)
    both_twos, both_fours = (planned_work([t, t], ONE).seconds(4) for t in (two, four))
    assert both_twos == pytest.approx(both_fours, rel=0.01)
    assert planned_work([two], ONE).seconds(4) >= seconds_of(two, ONE)  # not less than by itself


def test_a_faster_card_takes_less_and_one_card_takes_one_trial_at_a_time(planned: Plan) -> None:
    training = [t for t in planned.trials if t.probe == "quality"]
    long = [replace(t, batch=1_000_000) for t in training]
    whole = Resources(num_gpus=1.0)
    a100, t4 = (planned_work(long, whole, rates(name)).seconds(64) for name in ("a100", "t4"))
    assert t4 > 2 * a100
    one_cpu = planned_work(long, whole, rates("a100")).seconds(1)
    assert a100 == one_cpu  # independent of the number of cores


def rates(name: str) -> Mapping[str, float]:
    return GPU_SPECS[name].flops_per_second


def test_trainings_that_share_a_gpu_take_about_as_long_as_one_after_the_other(
    planned: Plan,
) -> None:
    training = [t for t in planned.trials if t.probe == "quality"]
    long = [replace(t, batch=1_000_000) for t in training]
    whole, half = (Resources(num_gpus=share) for share in (1.0, 0.5))
    start = planned_work([], whole).seconds(1)
    shared, alone = (planned_work(long, each).seconds(1) - start for each in (half, whole))
    assert 0.9 * alone < shared < alone


def test_timings_and_measurements_of_memory_have_a_whole_gpu(planned: Plan) -> None:
    eighth = Resources(num_gpus=0.125)
    found = {t.probe: eighth.for_trial(t).num_gpus for t in planned.trials}
    assert found["quality"] == 0.125
    assert found["step_time"] == 1.0
    memory = replace(planned.trials[0], probe="peak_memory")
    assert eighth.for_trial(memory).num_gpus == 1.0
    assert Resources().for_trial(memory).num_gpus == 0.0


def test_precision_counts_on_a_card(planned: Plan) -> None:
    trial = next(t for t in planned.trials if t.probe == "quality")
    assert trial.training is not None
    exact, mixed = (
        replace(trial, batch=1_000_000, training=replace(trial.training, precision=precision))
        for precision in ("float32", "bf16")
    )
    on = Resources(num_gpus=1.0)
    assert seconds_of(mixed, on) < 0.2 * seconds_of(exact, on)


@pytest.mark.parametrize("on", [ONE, Resources(num_gpus=1.0)])
def test_playing_counts_by_the_length_of_an_episode_and_the_number_of_evaluations(
    on: Resources,
) -> None:
    """Check trainings of so few steps that evaluation episodes take most of the time."""
    ablation = make_ablation(
        baseline=Model("decision_transformer", mixer="attention", position="none"),
        axes=[vary("depth", [1, 2])],
        tasks=["windy_grid_mixed", "cart_pole_mixed"],
        probes=["quality"],
        scale={"length": 20, "steps": 6, "batch": 32, "num_evaluations": 2},
    )
    last = {trial.task: trial for trial in plan(ablation, seeds=1).trials}
    grid, pole = last["windy_grid_mixed"], last["cart_pole_mixed"]

    def acting(trial: Trial) -> float:
        return seconds_of(trial, on) - (SECONDS_TO_START if on.num_gpus else 0.0)

    assert acting(pole) / acting(grid) == pytest.approx(100 / 40, rel=0.1)  # steps of an episode
    assert grid.training is not None
    more = replace(grid, training=replace(grid.training, num_evaluations=6))
    assert acting(more) / acting(grid) == pytest.approx((6 + 4) / (2 + 4), rel=0.1)


def test_tokens_of_a_recurrent_architecture_wait_for_one_another_on_a_gpu() -> None:
    """Check that token loops cost more than recurrent layers, which cost more than convolutions."""
    models = [
        Model("conv_seq2seq"),
        Model("seq2seq"),
        Model("seq2seq", cell="cho_gru"),
        Model("attentive_seq2seq", form="luong", score="dot"),
        Model("attentive_seq2seq"),
    ]
    ablation = make_ablation(
        baseline=models[0], axes=[vary("model", models)], tasks=["reversal"], scale={"length": 65}
    )
    on = Resources(num_gpus=1.0)
    trials = plan(ablation, seeds=1).trials
    conv, lstm, cho, luong, bahdanau = (seconds_of(t, on) for t in trials if t.probe == "quality")
    assert conv < lstm < cho < bahdanau
    assert lstm == pytest.approx(luong, rel=0.1)
