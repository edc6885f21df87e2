"""Tests of estimated steps on a GPU against those that were measured."""

from collections.abc import Mapping
from typing import Any

import pytest

from bakeoff.models import ModelSpec
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.gpu_steps import launched_seconds, step_seconds
from bakeoff.suite.probes.probe import forward_flops, lengths_of
from bakeoff.suite.schema import QUALITY, Trial
from bakeoff.suite.spec import Model, vary
from tests.suite.small_ablation import make_ablation

PEAK = 7.7e14
# Milliseconds of a step of the baseline of `heads` at standard, by batch and by how it is run:
# recorded, and compiled and recorded; docs/gpu/README.md, H200.
MEASURED = {(64, False): 3.53, (256, False): 10.41, (64, True): 2.38, (256, True): 6.13}


@pytest.fixture(scope="module")
def transformer() -> Trial:
    planned = plan("heads", scale="standard", seeds=1)
    label = {cell.trial_id: cell.variant for cell in planned.cells if cell.probe == QUALITY}
    return next(t for t in planned.trials if label.get(t.trial_id) == planned.about.baseline)


def seconds(trial: Trial, **settings: Any) -> float:
    return of_model(trial.subjects[0], lengths_of(trial), **{"batch": trial.batch} | settings)


def of_model(spec: ModelSpec, lengths: Mapping[str, int], **settings: Any) -> float:
    flops = forward_flops(spec, 1, dict(lengths))
    settings = {"peak": PEAK, "length": lengths["length"]} | settings
    return step_seconds(spec, forward_flops=flops, **settings)


@pytest.mark.parametrize(("batch", "is_compiled"), MEASURED)
def test_a_transformers_step_takes_as_long_as_measured(
    transformer: Trial, batch: int, is_compiled: bool
) -> None:
    found = 1e3 * seconds(transformer, batch=batch, is_compiled=is_compiled)
    assert MEASURED[batch, is_compiled] / 1.15 < found < 1.15 * MEASURED[batch, is_compiled]


@pytest.mark.parametrize(("batch", "share"), [(128, 0.112), (512, 0.131), (1024, 0.169)])
def test_large_batches_reach_the_measured_share_of_the_peak(
    transformer: Trial, batch: int, share: float
) -> None:
    flops = 3 * batch * forward_flops(transformer.subjects[0], 1, lengths_of(transformer))
    found = flops / seconds(transformer, batch=batch) / PEAK
    assert share / 1.3 < found < 1.3 * share


@pytest.mark.parametrize("batch", [1, 64, 4096])
def test_a_compiled_step_is_never_estimated_to_be_slower(transformer: Trial, batch: int) -> None:
    assert seconds(transformer, batch=batch, is_compiled=True) < seconds(transformer, batch=batch)


def test_launching_one_by_one_takes_as_long_as_measured(transformer: Trial) -> None:
    found = launched_seconds(transformer.subjects[0], transformer.length)
    assert found == pytest.approx(15.57e-3, rel=0.05)


def test_a_card_of_half_the_rate_takes_up_to_twice_as_long(transformer: Trial) -> None:
    fast, slow = (seconds(transformer, peak=peak, batch=4096) for peak in (PEAK, PEAK / 2))
    assert slow == pytest.approx(2 * fast, rel=0.05)
    small = [seconds(transformer, peak=peak, batch=1) for peak in (PEAK, PEAK / 2)]
    assert small[1] < 1.1 * small[0]  # launches take as long


def test_mixers_take_the_time_of_their_own_kernels() -> None:
    """Compare with measured times of a layer: 4 sequences of 2,048 tokens of width 512."""
    measured = {"attention": 0.43, "gated_delta": 6.5, "lstm": 27.3, "talking_heads": 19.4}
    found = {}
    for mixer in measured:
        planned = plan(
            make_ablation(
                baseline=Model(mixer=mixer),
                axes=[vary("depth", [1])],
                scale={"dim": 512, "depth": 1, "length": 2048, "batch": 4},
            ),
            seeds=1,
        )
        trial = planned.trials[0]
        found[mixer] = 1e3 * seconds(trial)
    rest = found["attention"] - measured["attention"]
    assert 0 < rest < 5
    for mixer, milliseconds in measured.items():
        assert found[mixer] - rest == pytest.approx(milliseconds, rel=0.25), mixer
