"""Run the timing probes as on a GPU: passes are recorded on a tape, and launched beside that.

The device is ``cpu:0``, which is a CPU under a name that is not ``cpu``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models.architectures.language_model import LanguageModel
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes import decode, mixer_time, step_time
from bakeoff.suite.probes.probe import probe
from bakeoff.suite.schema import Measurement, Status, Trial, is_launched, launched
from bakeoff.suite.spec import vary
from bakeoff.suite.timing import clock, graphs
from bakeoff.suite.timing.clock import CpuClock, CudaClock
from bakeoff.suite.timing.passes import Call
from bakeoff.suite.timing.spins import SpinCost
from bakeoff.suite.training.engines.recording import nothing_recorded
from tests.suite.small_ablation import make_ablation
from tests.suite.training.engines.tape import recorded

pytestmark = pytest.mark.whole

DEVICE = "cpu:0"
PROBES = ["step_time", "decode", "mixer_time"]
TIMES = {
    "step_time": {"training_step_seconds", "forward_backward_seconds", "forward_seconds"},
    "decode": {"decode_token_seconds"},
    "mixer_time": {"decode_token_seconds", "forward_backward_seconds", "forward_seconds"},
}


class HostClock(CudaClock):
    """A clock of a GPU that reads the time of the host."""

    def __init__(self) -> None:
        self._states = []

    def seconds(self, one_pass: Call, num_passes: int) -> float:
        return CpuClock.seconds(self, one_pass, num_passes)  # type: ignore[arg-type]

    def pass_and_spin(self, one_pass: Call, made: Callable[[Call], Call]) -> tuple[float, SpinCost]:
        return 1e-3, SpinCost(0.0, 1e9)

    def why_slow(self) -> str:
        return ""

    def conditions(self) -> Iterator[Any]:
        return iter(())


@pytest.fixture(autouse=True)
def _as_on_a_gpu(brief: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decode, mixer_time, step_time):
        monkeypatch.setattr(module, "clock_of", lambda device: HostClock())
    for module in (clock, graphs):
        monkeypatch.setattr(module, "spin", lambda cycles: None)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(graphs, "on_gpu", lambda work, pool: recorded(work))


def trial_of(name: str) -> Trial:
    axes = [vary("heads", [2, 4])]
    (trial,) = plan(
        make_ablation(probes=[name], axes=axes, scale={"lengths": [8], "seeds": 1})
    ).trials
    return trial


def rows(name: str, device: str = DEVICE) -> list[Measurement]:
    said = probe(name).measure(trial_of(name), device)
    return [each for each in said if isinstance(each, Measurement)]


@pytest.mark.parametrize("name", PROBES)
def test_each_operation_is_timed_as_a_graph_and_as_it_is_launched(name: str) -> None:
    found = {(m.metric, m.subject, m.at): m for m in rows(name)}
    places = {at for _, _, at in found}
    for metric in TIMES[name]:
        for subject in (0, 1):
            graph, eager = (
                [found[each, subject, at] for at in places if (each, subject, at) in found]
                for each in (metric, launched(metric))
            )
            assert graph
            assert [m.at for m in graph] == [m.at for m in eager]
            for each in (*graph, *eager):
                assert (each.status, each.unit, each.better) == (Status.OK, "s", "lower")
    ratios = {metric for metric, _, _ in found if metric.endswith("_ratio")}
    names = {"baseline_again_ratio", "baseline_slowed_ratio"}
    assert ratios == names | {*map(launched, names)}


@pytest.mark.parametrize("name", PROBES)
def test_nothing_is_launched_apart_on_a_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decode, mixer_time, step_time):
        monkeypatch.setattr(module, "clock_of", lambda device: CpuClock())
    assert not [m for m in rows(name, "cpu") if is_launched(m.metric)]
    assert not [spec for spec in probe(name).specs if is_launched(spec.name)]


def test_rates_and_shares_follow_from_graphs() -> None:
    found = {
        (m.metric, m.subject): m.value or 0.0 for m in rows("step_time") if "batch" not in m.at
    }
    trial = trial_of("step_time")
    for subject in (0, 1):
        rate = found["training_tokens_per_second", subject]
        seconds = found["training_step_seconds", subject]
        assert rate == pytest.approx(trial.batch * trial.length / seconds)
        assert found["training_share_of_matrix_peak", subject]


def test_a_training_step_is_recorded_with_its_update(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = []
    original = step_time.LocalEngine

    def noted(*given: Any, **how: Any) -> Any:
        engines.append((original(*given, **how), how))
        return engines[-1][0]

    monkeypatch.setattr(step_time, "LocalEngine", noted)
    rows("step_time")
    for engine, how in engines:
        assert how == {"is_recorded": True}
        assert engine.optimizer.param_groups[0]["lr"] > 0
        assert isinstance(engine.optimizer.param_groups[0]["lr"], Tensor)
        assert engine.how_steps_run == "eagerly: the timing records the step itself"


def test_a_step_that_waits_for_a_number_is_launched_only(monkeypatch: pytest.MonkeyPatch) -> None:
    step = LanguageModel.step

    def waiting(model: LanguageModel, tokens: Tensor, state: Any) -> Any:
        tokens.sum().item()
        return step(model, tokens, state)

    monkeypatch.setattr(LanguageModel, "step", waiting)
    found = {(m.metric, m.subject): m for m in rows("decode")}
    metric = "decode_token_seconds"
    for subject in (0, 1):
        graph = found[metric, subject]
        assert (graph.status, graph.value) == (Status.SKIPPED, None)
        assert "waits for a number from the device" in graph.reason
        assert found["decode_tokens_per_second", subject].reason == graph.reason
        assert found[launched(metric), subject].value
        assert found["decode_state_bytes", subject].value


def test_after_a_capture_that_failed_only_launches_are_timed() -> None:
    with nothing_recorded("operation not permitted when stream is capturing"):
        found = {(m.metric, m.subject): m for m in rows("mixer_time")}
    for metric in TIMES["mixer_time"]:
        assert found[metric, 0].reason == (
            "no CUDA graph can be recorded: operation not permitted when stream is capturing"
        )
        assert found[launched(metric), 0].value
