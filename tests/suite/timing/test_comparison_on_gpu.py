"""Test comparisons on a fake GPU: graphs, then launches; what does not fit; how long it takes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from bakeoff.models import ModelSpec
from bakeoff.suite.schema import Measurement, Status, launched
from bakeoff.suite.timing import comparison, graphs
from bakeoff.suite.timing.comparison import Operations, TimingComparison
from bakeoff.suite.timing.passes import Call, Missing, Pass
from bakeoff.suite.timing.peaks import _best
from tests.suite.timing.fake_gpu import US, FakeGpu
from tests.suite.timing.subjects import alone, trial_of

pytestmark = pytest.mark.whole

MAIN, FORWARD, DECODE = (
    "forward_backward_seconds",
    "forward_seconds",
    "decode_token_seconds",
)
A, B = alone("fnet"), alone("conv")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Return a fake GPU; nothing is built on it that could be compared with a reference."""
    monkeypatch.setattr(comparison, "refuse_wrong_mixers", lambda *_: None)
    return FakeGpu(monkeypatch)


class Bench:
    """Operations of each subject: so many kernels, and the seconds of each."""

    def __init__(self, gpu: FakeGpu, kernels: Mapping[str, tuple[int, float]]) -> None:
        self.gpu, self.kernels = gpu, kernels

    def main(self, spec: ModelSpec) -> Pass:
        return Pass(self.gpu.work(*self.kernels[spec.mixer]))

    def comparison(self, *subjects: ModelSpec) -> TimingComparison:
        return TimingComparison(
            trial=trial_of(*subjects),
            device="cuda",
            clock=self.gpu.clock,
            compared=(MAIN,),
            operations=lambda spec: {MAIN: self.main(spec)},
            main_operation=self.main,
            read_times=lambda: None,
        )


@pytest.fixture
def bench(gpu: FakeGpu) -> Bench:
    return Bench(gpu, {"fnet": (40, 1 * US), "conv": (20, 1 * US)})


def table(timed: TimingComparison) -> dict[tuple[str, int], Measurement]:
    found = list(timed.measured())
    by_key = {(m.metric, m.subject): m for m in found}
    assert len(by_key) == len(found)
    return by_key


def test_a_time_is_that_of_a_graph_and_launches_stand_beside_it(bench: Bench) -> None:
    found = table(bench.comparison(A, B))
    for subject, num_kernels in enumerate((40, 20)):
        graph, eager = found[MAIN, subject], found[launched(MAIN), subject]
        assert graph.value == pytest.approx(2 * num_kernels * US, rel=0.05)
        assert eager.value is not None
        assert eager.value > 4 * num_kernels * US
        assert (eager.unit, eager.better, eager.status) == ("s", "lower", Status.OK)
    for metric, ratio in (("baseline_again_ratio", 1.0), ("baseline_slowed_ratio", 1.05)):
        for name in (metric, launched(metric)):
            assert found[name, 0].value == pytest.approx(ratio, abs=0.01), name
            assert (found[name, 0].unit, found[name, 0].better) == ("1", "none")


def test_what_no_graph_can_hold_is_skipped_as_a_graph_and_launched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(spec: ModelSpec) -> Pass:
        run = bench.main(spec).run

        def wait() -> None:
            run()
            if spec.mixer == "conv":
                torch.ones(2, device="cpu").sum().item()

        return Pass(wait)

    monkeypatch.setattr(
        comparison,
        "why_not_captured",
        lambda run, kind, original=comparison.why_not_captured: original(run, "cpu"),
    )
    found = table(replace(bench.comparison(A, B), operations=lambda spec: {MAIN: waits(spec)}))
    graph = found[MAIN, 1]
    assert (graph.status, graph.value) == (Status.SKIPPED, None)
    assert graph.reason == (
        "no CUDA graph can be recorded: aten._local_scalar_dense.default waits for a number from "
        "the device"
    )
    assert found["num_samples", 1].reason == graph.reason
    assert found[launched(MAIN), 1].value
    assert found[MAIN, 0].status is Status.OK


def test_a_reversible_stack_is_not_recorded(bench: Bench) -> None:
    reversible = replace(B, settings={"residual": "reversible"})
    found = table(bench.comparison(A, reversible))
    assert "a reversible stack restores random numbers" in found[MAIN, 1].reason
    assert found[launched(MAIN), 1].value


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_compiled_model_is_observed_without_being_compiled(bench: Bench) -> None:
    """Observe it on a CPU: torch cannot compile while a mode sees each operation."""
    import torch._dynamo as dynamo

    layer = torch.nn.Linear(2, 2)
    compiled = torch.compile(layer, dynamic=False)
    x, spec = torch.ones(1, 2), replace(A, runtime="compiled")
    timed = replace(bench.comparison(spec), device="cpu")
    dynamo.utils.counters.clear()
    assert timed._why_not_captured(spec, lambda: compiled(x).sum().backward()) == ""
    assert layer.weight.grad is not None
    why = timed._why_not_captured(spec, lambda: compiled(x).sum().item())
    assert why.endswith("waits for a number from the device")
    assert not dynamo.utils.counters["stats"]


def test_a_subject_that_is_missing_is_missing_in_both_forms(bench: Bench) -> None:
    gone = Missing(Status.SKIPPED, "no step form")

    def operations(spec: ModelSpec) -> Operations:
        return {MAIN: gone if spec.mixer == "conv" else bench.main(spec)}

    found = table(replace(bench.comparison(A, B), operations=operations))
    for metric in (MAIN, launched(MAIN)):
        assert (found[metric, 1].status, found[metric, 1].reason) == (gone.status, gone.reason)


@pytest.mark.parametrize("room", [2, 1, 0])
def test_graphs_that_do_not_fit_beside_others_are_timed_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Let `room` graphs of `conv` fit: beside those of `fnet`, alone, or never."""
    on_gpu, num_tried = graphs.on_gpu, 0

    def limited(work: Call, pool: object) -> Call:
        nonlocal num_tried
        replay = on_gpu(work, pool)  # type: ignore[arg-type, type-var]
        if len(bench.gpu.nodes_of_last) == 20:
            num_tried += 1
            if room == 0 or (room == 1 and num_tried == 1):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return replay

    monkeypatch.setattr(graphs, "on_gpu", limited)
    found = table(bench.comparison(A, B))
    graph = found[MAIN, 1]
    assert num_tried == (1 if room == 2 else 2)
    assert graph.status is (Status.OK if room else Status.OUT_OF_MEMORY)
    assert found["num_samples", 1].status is graph.status
    assert found[launched(MAIN), 1].status is Status.OK
    assert found[MAIN, 0].status is Status.OK


NUM_VARIANTS = 11
MOST_SECONDS = 10.0


@pytest.mark.parametrize("spread", [0.02, 0.6], ids=["quiet launches", "noisy launches"])
def test_eleven_variants_take_at_most_ten_seconds(gpu: FakeGpu, spread: float) -> None:
    """Simulate passes of 0.05 to 2 ms, their launches of up to 4 ms, captures, and the peaks."""
    gpu.launch, gpu.capture = 50 * US, 0.02
    chance = random.Random(0)
    gpu.jitter = lambda: chance.lognormvariate(0.0, spread)
    subjects = [alone("fnet", 16, 8 + 2 * place) for place in range(NUM_VARIANTS)]

    def operations(spec: ModelSpec) -> dict[str, Pass]:
        share = (spec.dim - 8) / 2 / (NUM_VARIANTS - 1)
        seconds = 50 * US * 40**share  # 0.05 to 2 ms, evenly in their logarithms
        num_kernels = round(10 + 70 * share)
        parts = {MAIN: 1.0, FORWARD: 0.4, DECODE: 0.4}
        return {
            metric: Pass(gpu.work(num_kernels, max(0.5 * US, part * seconds / num_kernels - US)))
            for metric, part in parts.items()
        }

    timed = TimingComparison(
        trial=trial_of(*subjects),
        device="cuda",
        clock=gpu.clock,
        compared=(MAIN, FORWARD, DECODE),
        operations=operations,
        main_operation=lambda spec: operations(spec)[MAIN],
        read_times=lambda: None,
    )
    for seconds in (1.5e-3, 0.7e-3):
        _best(gpu.clock, "cuda", gpu.work(1, seconds))
    found = table(timed)
    print(f"{gpu.clock.now():.2f} s")
    assert gpu.clock.now() < MOST_SECONDS
    for metric in (MAIN, FORWARD, DECODE):
        for subject in range(NUM_VARIANTS):
            assert found[metric, subject].status is Status.OK
            assert found[launched(metric), subject].value
    assert found["baseline_again_ratio", 0].value == pytest.approx(1.0, abs=0.005)
    assert found["baseline_slowed_ratio", 0].value == pytest.approx(1.05, abs=0.01)
