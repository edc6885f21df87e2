"""Mixer time: what is timed, beside which controls, in which rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from models import ModelSpec
from suite.probes import mixer_time
from suite.probes.mixer_time import DECODE, FORWARD, MAIN, MixerTime
from suite.schema import CONTROLS, Measurement, Status
from suite.timing import comparison
from suite.timing.comparison import TimingComparison
from suite.timing.kernels import QUADRATIC
from suite.timing.parity import Disproved
from suite.timing.stopping import Limits
from tests.suite.timing.subjects import Hungry, Unproven, Wrong, alone, own, trial_of

BRIEF = Limits(
    seconds=0.1, patience=10.0, stretch=0.02, warm_up_seconds=0.0, most_warm_up_seconds=0.05,
    half_width=100.0, most_half_width=100.0, least_rounds=6, least_seconds=0.0, least_sample=0.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _in_brief(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def brief(**fields: object) -> TimingComparison:
        return TimingComparison(**{**fields, "limits": BRIEF, "read_times": lambda: None})  # type: ignore[arg-type]

    monkeypatch.setattr(mixer_time, "TimingComparison", brief)
    monkeypatch.setattr(mixer_time, "matrix_peak", lambda clock, device: 5e9)
    monkeypatch.setattr(mixer_time, "copy_peak", lambda clock, device: 7e9)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def table(*subjects: ModelSpec) -> dict[tuple[str, int], Measurement]:
    said = MixerTime().measure(trial_of(*subjects), "cpu")
    found = [m for m in said if isinstance(m, Measurement)]
    assert len({(m.metric, m.subject) for m in found}) == len(found)
    assert all(m.at == "" for m in found)  # it stands in the cell
    return {(m.metric, m.subject): m for m in found}


def test_every_subject_has_its_times_and_the_first_one_the_controls() -> None:
    found = table(alone("attention", 64), alone("lstm", 64))
    announced = {spec.name for spec in MixerTime().metrics(None, 64)}
    assert announced == {MAIN, FORWARD, DECODE}
    for metric in announced:
        for subject in (0, 1):
            said = found[metric, subject]
            assert said.status is Status.OK, said
            assert said.value is not None
            assert said.spread_low is not None
            assert said.spread_high is not None
            assert 1e-6 < said.spread_low <= said.value <= said.spread_high < 1
            assert (said.unit, said.better) == ("s", "lower")
    of_each = {"num_samples", "mild_outliers", "severe_outliers", "first_call_seconds"}
    controls = {(metric, subject) for metric, subject in found if metric not in announced}
    assert {metric for metric, subject in controls if subject == 1} == of_each
    assert {metric for metric, subject in controls if subject == 0} == CONTROLS
    assert found["matrix_peak_flops_per_second", 0].value == 5e9
    assert found["copy_peak_bytes_per_second", 0].value == 7e9
    assert found["copy_peak_bytes_per_second", 0].unit == "B/s"


def test_backward_takes_longer_than_forward_and_both_longer_than_a_step() -> None:
    found = table(alone("attention", 256, 32))
    times = [found[metric, 0].value or 0.0 for metric in (MAIN, FORWARD, DECODE)]
    assert times[0] > 1.3 * times[1]
    assert times[1] > 1.3 * times[2]


def test_a_mixer_that_cannot_decode_has_a_row_that_says_why() -> None:
    found = table(alone("fnet", 64), alone(own(Unproven), 64))
    for subject, reason in ((0, "fnet has no causal form"), (1, "it does not declare")):
        assert found[DECODE, subject].status is Status.SKIPPED
        assert reason in found[DECODE, subject].reason
        assert found[MAIN, subject].status is Status.OK  # proven or not


def test_a_mixer_that_is_not_what_it_says_is_named_and_not_timed() -> None:
    with pytest.raises(Disproved, match="Wrong"):
        table(alone("fnet", 64), alone(own(Wrong), 64))


def test_what_has_no_memory_is_a_row_and_the_others_are_timed() -> None:
    found = table(alone("fnet", 64), alone(own(Hungry), 64))
    assert found[MAIN, 1].status is Status.OUT_OF_MEMORY
    assert found["num_samples", 1].status is Status.OUT_OF_MEMORY
    assert found[MAIN, 0].status is Status.OK
    found = table(alone(own(Hungry), 64), alone("fnet", 64))
    assert found["baseline_again_ratio", 0].status is Status.OUT_OF_MEMORY
    assert found[MAIN, 1].status is Status.OK
    assert found[QUADRATIC, 0].status is Status.OK


def test_it_is_planned_for_mixers_alone_and_alone() -> None:
    probe = MixerTime()
    assert (probe.name, probe.grain) == ("mixer_time", "comparison")
    assert probe.is_swept
    assert probe.is_timing
    assert all(spec.at == "" for spec in probe.metrics(None, 64))


def test_the_limits_are_the_same_for_every_trial() -> None:
    assert TimingComparison.__dataclass_fields__["limits"].default is comparison.DEFAULT
