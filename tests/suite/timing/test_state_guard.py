"""Test that a variant that changes torch or the process is named and affects no other timing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import nn

from bakeoff.models import ModelSpec
from bakeoff.suite.events import Condition, TrialRemark
from bakeoff.suite.probes.mixer_time import MixerTime
from bakeoff.suite.timing import state_guard
from bakeoff.suite.timing.comparison import TimingComparison
from bakeoff.suite.timing.global_state import GlobalState
from bakeoff.suite.timing.passes import Pass
from tests.suite.timing.scripted import ScriptedClock, idle_machine
from tests.suite.timing.subjects import alone, trial_of

pytestmark = pytest.mark.whole

MAIN = "forward_backward_seconds"
FIRST, CHANGING = alone("fnet"), alone("conv")
SOFTMAX = nn.functional.softmax


def _other_softmax(*given: object, **named: object) -> object:
    return SOFTMAX(*given, **named)  # type: ignore[arg-type]


CHANGES: Mapping[str, tuple[Callable[[], object], str]] = {
    "threads": (lambda: torch.set_num_threads(3), "torch's number of threads (1 -> 3)"),
    "denormals": (lambda: torch.set_flush_denormal(True), "whether torch flushes denormal numbers"),
    "dtype": (lambda: torch.set_default_dtype(torch.float64), "torch's default dtype"),
    "precision": (lambda: torch.set_float32_matmul_precision("medium"), "(highest -> medium)"),
    "both precisions": (
        lambda: setattr(torch.backends, "fp32_precision", "tf32"),
        "fp32_precision = 'tf32'",
    ),
    "anomalies": (lambda: torch.autograd.set_detect_anomaly(True), "torch looks for anomalies"),
    "gradients": (lambda: torch.set_grad_enabled(False), "whether torch keeps gradients"),
    "CPUs": (lambda: os.sched_setaffinity(0, os.sched_getaffinity(os.getppid())), ""),
    "a function": (
        lambda: setattr(nn.functional, "softmax", _other_softmax),
        "nn.functional.softmax",
    ),
    "an environment variable": (lambda: os.environ.update(MINE="1"), "variable MINE"),
}


def seen() -> tuple[object, ...]:
    """Return the global state under which a pass runs."""
    return (
        torch.get_num_threads(),
        sys.float_info.min / 2 > 0,
        torch.get_default_dtype(),
        torch.backends.fp32_precision,
        torch.get_float32_matmul_precision(),
        torch.is_anomaly_enabled(),
        nn.functional.softmax is SOFTMAX,
        frozenset(os.sched_getaffinity(0)),
        os.environ.get("MINE"),
    )


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_guard, "_SECONDS_UNTIL_THREADS_SLEEP", 0.0)
    torch.set_num_threads(1)


@pytest.mark.parametrize("place", ["forward", "build"])
@pytest.mark.parametrize("case", CHANGES)
def test_what_one_changes_no_other_is_timed_under(case: str, place: str) -> None:
    change, named = CHANGES[case]
    clock, under = ScriptedClock(), list[tuple[object, ...]]()

    def main(spec: ModelSpec) -> Pass:
        def run() -> None:
            clock.time += 0.02
            if spec is FIRST:
                under.append(seen())
            elif place == "forward":
                change()

        if spec is CHANGING and place == "build":
            change()
        return Pass(run)

    comparison = TimingComparison(
        trial=trial_of(FIRST, CHANGING),
        device="cpu",
        clock=clock,
        compared=(MAIN,),
        operations=lambda spec: {MAIN: main(spec)},
        main_operation=main,
        read_times=idle_machine(clock),
    )
    before = GlobalState()
    assert len(list(comparison.measured())) > 5
    assert before.changes() == ""
    assert len(under) > 20
    assert len(set(under)) == 1
    said = list(comparison.state_changes())
    if case == "CPUs" and not said:
        pytest.skip("this machine has one CPU")
    remark, condition = said
    assert isinstance(remark, TrialRemark)
    assert remark.sentence.startswith("conv changes ")
    assert named in remark.sentence
    assert condition == Condition("changed while timed", remark.sentence)


def test_who_changes_nothing_is_not_named() -> None:
    guard = state_guard.StateGuard()
    guard.guarded(Pass(lambda: None), FIRST).clear()
    with guard.around(CHANGING):
        pass
    assert list(guard.said()) == []


def test_a_mixer_that_sets_threads_is_named_by_its_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    from bakeoff.models.mixers.fnet import FNet

    mix = FNet.forward

    def forward(self: FNet, *given: object, **named: object) -> torch.Tensor:
        torch.set_num_threads(2)
        return mix(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(FNet, "forward", forward)
    trial = trial_of(alone("conv"), alone("fnet"))
    monkeypatch.setattr(TimingComparison, "measured", _first_calls)
    said = list(MixerTime().measure(trial, "cpu"))
    sentences = [each.sentence for each in said if isinstance(each, TrialRemark)]
    assert [s.partition(";")[0] for s in sentences] == [
        "fnet changes torch's number of threads (1 -> 2) while it is timed"
    ]
    assert torch.get_num_threads() == 1


def _first_calls(comparison: TimingComparison) -> list[object]:
    """Run each pass once without timing it."""
    for each in comparison._launched().values():
        if isinstance(each, Pass):
            each.prepare()
            each.run()
            each.clear()
    return []
