"""Check speeds on a GPU: the loop beside bare replays, and the share of its peak.

The model is the baseline of `heads` at standard scale. The tests need a CUDA device, take some
minutes, and print each measurement, whether its bound holds or not:

    python -m pytest -m bench -s tests/benchmarks/test_gpu.py
"""

from __future__ import annotations

import time

import pytest
import torch

from bakeoff.suite.probes.probe import TRAINING_OVER_FORWARD, forward_flops, lengths_of
from bakeoff.suite.schema import Trial
from bakeoff.suite.timing.clock import clock_of
from bakeoff.suite.timing.peaks import matrix_peak
from bakeoff.suite.training.engines.recording import RECORDED
from tests.benchmarks.interleaved import Limits, TimingRun
from tools.gpu_visit.bench import Bench
from tools.gpu_visit.standard import baseline

pytestmark = [pytest.mark.bench, pytest.mark.gpu]

DEVICE = "cuda"
MOST_OVER_REPLAY, LEAST_OF_PEAK = 1.03, 0.20
STEPS = 200  # in a lap
BATCHES = (64, 128, 256, 512, 1024)
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
