"""Check speeds on a GPU: the loop beside bare replays, the share of its peak, packed trainings.

The model is the baseline of `heads` at standard scale. The tests need a CUDA device, take some
minutes, and print each measurement, whether its bound holds or not:

    python -m pytest -m bench -s tests/benchmarks/test_gpu.py
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bakeoff.suite.events import Checkpoints, ExecutorSettings, Finished
from bakeoff.suite.execution.inline import InlineExecutor
from bakeoff.suite.probes.probe import TRAINING_OVER_FORWARD, forward_flops, lengths_of
from bakeoff.suite.schema import Resources, Status, Trial
from bakeoff.suite.timing.clock import clock_of
from bakeoff.suite.timing.peaks import matrix_peak
from bakeoff.suite.training.engines.recording import RECORDED
from tests.benchmarks.interleaved import Limits, TimingRun
from tools.gpu_visit.bench import Bench
from tools.gpu_visit.standard import baseline

pytestmark = [pytest.mark.bench, pytest.mark.gpu]

DEVICE = "cuda"
MOST_OVER_REPLAY, LEAST_OF_PEAK, LEAST_TIMES_AS_MANY = 1.03, 0.40, 8.0
STEPS = 200  # in a lap, and in a packed training
BATCHES = (64, 128, 256, 512, 1024)
NUM_TRIALS = 32
LIMITS = Limits(warm_up_rounds=1, least_rounds=5, most_rounds=15, seconds=20.0, patience=60.0)


@pytest.fixture(scope="module", autouse=True)
def _on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    print(f"\n{torch.cuda.get_device_name(0)}, torch {torch.__version__}")


def bench_of(trial: Trial) -> Bench:
    found = Bench(trial, DEVICE)
    assert found.how == RECORDED
    return found


def test_the_loop_adds_little_to_replaying_its_steps() -> None:
    bench = bench_of(baseline("heads", steps=STEPS))
    times = TimingRun({"replays": bench.replays, "loop": bench.lap}, LIMITS).run()
    ratio, step = times.ratio("loop", "replays"), times.median("replays") / STEPS
    print(f"a replayed step {step * 1e3:.2f} ms; the loop takes {ratio} times as long")
    assert ratio.high <= MOST_OVER_REPLAY


def test_training_reaches_a_share_of_the_matrix_peak() -> None:
    peak, shares = matrix_peak(clock_of(DEVICE), DEVICE, "bf16"), {}
    print(f"matrix peak in bf16 {peak / 1e12:.0f} TFLOP/s")
    for batch in BATCHES:
        trial = baseline("heads", steps=STEPS, batch=batch)
        bench = bench_of(trial)
        bench.lap()
        begun = time.perf_counter()
        bench.lap()
        seconds = (time.perf_counter() - begun) / STEPS
        forward = forward_flops(trial.subjects[0], batch, lengths_of(trial))
        assert forward is not None
        shares[batch] = TRAINING_OVER_FORWARD * forward / seconds / peak
        tokens = batch * trial.length / seconds
        print(f"batch {batch}: {tokens:,.0f} tokens/s, {shares[batch]:.1%} of the peak")
        del bench
        torch.cuda.empty_cache()
    assert max(shares.values()) >= LEAST_OF_PEAK


def test_trainings_that_share_the_gpu_are_many_more_an_hour(tmp_path: Path) -> None:
    trials = [replace(baseline("heads", steps=STEPS), seed=seed) for seed in range(NUM_TRIALS)]
    checkpoints = Checkpoints(folder=tmp_path)
    executor = InlineExecutor(ExecutorSettings(checkpoints=checkpoints))
    hours = {}
    for share in (1.0, 0.125):
        begun = time.perf_counter()
        events = executor.execute([(trial, Resources(num_gpus=share)) for trial in trials])
        ended = [event.result for event in events if isinstance(event, Finished)]
        hours[share] = (time.perf_counter() - begun) / 3600
        assert [result.status for result in ended] == [Status.OK] * NUM_TRIALS
        taken = max(result.gpu_bytes or 0 for result in ended) / 2**30
        print(f"gpus={share:g}: {NUM_TRIALS / hours[share]:,.0f} trials/h, {taken:.2f} GiB each")
    assert hours[1.0] / hours[0.125] >= LEAST_TIMES_AS_MANY
