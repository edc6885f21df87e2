"""Counts the steps a second of trainings side by side on one card, with MPS and without it.

Each training is a process of its own with recorded steps, as in a sweep. All of them begin at one
moment and train for a fixed time. One training alone is what a sweep reaches without sharing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from bakeoff.suite.events import Assignments
from bakeoff.suite.execution.side_by_side import PIPES, shared_gpus
from bakeoff.suite.schema import Resources
from tools.gpu_visit.results import Finding, Item, Visit
from tools.gpu_visit.runner import ROOT
from tools.gpu_visit.standard import baseline
from tools.gpu_visit.stopwatch import wait_for

_WIDTHS, _NUMBERS, _SECONDS = (64, 256), (1, 2, 4, 8), 1.5
_DRY_WIDTHS, _DRY_NUMBERS, _DRY_SECONDS = (16, 32), (1, 2), 0.3
_LEAST_GAIN = 1.2  # below this, trainings one after the other are simpler
_SECONDS_TO_BEGIN = 0.3  # until all processes have read the moment


def items(visit: Visit) -> Iterator[Item]:
    """Yield both ways of sharing, each with all widths, since its processes start but once."""
    for is_by_mps in (True, False):
        name = "MPS" if is_by_mps else "time slices"
        yield name, partial(_shared, visit, is_by_mps)


def _shared(visit: Visit, is_by_mps: bool) -> Finding:
    widths, numbers, seconds = (
        (_DRY_WIDTHS, _DRY_NUMBERS, _DRY_SECONDS) if visit.is_dry else (_WIDTHS, _NUMBERS, _SECONDS)
    )
    with shared_gpus(_work(visit, max(numbers)) if is_by_mps else []) as given:
        if is_by_mps and not given and PIPES not in os.environ:
            return Finding(text="MPS cannot be started here", status="skipped")
        rates = _rates(visit.device, widths, numbers, seconds, given)
    said = []
    for width, of_width in rates.items():
        alone = of_width[1]
        line = ", ".join(
            f"{number}: {rate:.0f} ({rate / alone:.2f} x)" for number, rate in of_width.items()
        )
        said.append(f"width {width}, steps/s of {line}")
        best = max(rate / alone for rate in of_width.values())
        said[-1] += f": sharing {'pays' if best >= _LEAST_GAIN else 'does not pay'}"
    return Finding(text="; ".join(said), values={"steps_per_second": rates})


def _work(visit: Visit, number: int) -> Assignments:
    """Return what `shared_gpus` looks at: trials that share a card."""
    share = 0.0 if visit.is_dry else 1 / number
    return [(baseline("heads", scale="smoke"), Resources(num_gpus=share))]


def _rates(
    device: str,
    widths: Sequence[int],
    numbers: Sequence[int],
    seconds: float,
    given: Mapping[str, str],
) -> dict[int, dict[int, float]]:
    """Return the steps a second of all processes together, by width and number of processes."""
    with ExitStack() as ending:
        trainers = [
            ending.enter_context(_trainer(device, widths, given)) for _ in range(numbers[-1])
        ]
        for each in trainers:
            _answer(each)  # it is ready
        found: dict[int, dict[int, float]] = {}
        for width in widths:
            for number in numbers:
                begin = time.time() + _SECONDS_TO_BEGIN
                for each in trainers[:number]:
                    assert each.stdin is not None
                    print(width, begin, begin + seconds, file=each.stdin, flush=True)
                rates = [float(_answer(each)) for each in trainers[:number]]
                found.setdefault(width, {})[number] = sum(rates)
        return found


@contextmanager
def _trainer(
    device: str, widths: Sequence[int], given: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.gpu_visit.parts.sharing", device, *map(str, widths)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **given, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a training ended with exit code {process.wait()}")
    return line


def _train(device: str, widths: Sequence[int]) -> None:
    """Train as standard input says: width, begin, end; print the steps a second."""
    import torch

    from bakeoff.models import build_model
    from bakeoff.suite.tasks.registry import build_task
    from bakeoff.suite.training.engines.local import LocalEngine

    to_parent = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    trial = baseline("heads", scale="smoke" if device == "cpu" else "standard", steps=1_000_000)
    task = build_task(trial.task, trial.length)
    batch = task.training_batch(0, trial.batch, 0)
    engines = {}
    for width in widths:
        spec = replace(trial.subjects[0], dim=width)
        assert trial.training is not None
        engine = LocalEngine(build_model(spec), trial.training, device, is_recorded=device != "cpu")
        engine.step(batch, task)
        engines[width] = engine
    wait_for(device)
    print("ready", file=to_parent, flush=True)
    for line in sys.stdin:
        asked, begin, end = line.split()
        time.sleep(max(0.0, float(begin) - time.time()))
        steps, begun = 0, time.perf_counter()
        while steps == 0 or time.time() < float(end):
            for _ in range(1 if device == "cpu" else 20):
                engines[int(asked)].step(batch, task)
                steps += 1
            wait_for(device)
        print(steps / (time.perf_counter() - begun), file=to_parent, flush=True)


if __name__ == "__main__":
    _train(sys.argv[1], [int(each) for each in sys.argv[2:]])
