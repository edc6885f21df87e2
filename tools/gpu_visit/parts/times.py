"""Times a training step of standard baselines: launched, recorded, compiled, and both.

First it measures what trainings use: compiling with an empty and with a filled cache, what the
choice `auto` rests on, and the training loop beside bare replays. The share of the measured matrix
peak counts a step as three forward passes, by formula. A goal that is missed is a failure.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from bakeoff.models import build_model
from bakeoff.suite.probes.gpu_steps import step_seconds
from bakeoff.suite.probes.probe import TRAINING_OVER_FORWARD, forward_flops, lengths_of
from bakeoff.suite.schema import Trial
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.timing.clock import clock_of
from bakeoff.suite.timing.peaks import matrix_peak
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.compiled_code import keeping_compiled_code
from bakeoff.suite.training.engines.recording import COMPILED, RECORDED
from bakeoff.suite.training.engines.runtimes import prepared
from bakeoff.suite.training.recipes import float32_products, optimizer_of
from tools.gpu_visit.bench import Bench
from tools.gpu_visit.results import Finding, Item, Visit
from tools.gpu_visit.standard import baseline
from tools.gpu_visit.stopwatch import Work, milliseconds, seconds_of, seconds_recorded

_ABLATIONS = ("heads", "patch_positions", "vision")
_FACTORS = (1, 4, 16)  # multiples of the batch
_MOST_OVER_REPLAYS = 1.03  # the loop's time over that of replays
_LEAST_OF_PEAK, _LEAST_OF_PEAK_LARGE = 0.20, 0.35
_LARGE = {"dim": 768, "depth": 7}  # 50 M parameters
_TABLE_TOLERANCE = 0.15  # relative, of a gain in `step_choice`


def items(visit: Visit) -> Iterator[Item]:
    """Yield the peak; each baseline at its own batch, at larger ones, and then compiled."""
    scale = "smoke" if visit.is_dry else "standard"
    yield "matrix peak", partial(_peak, visit.device)
    yield "training of heads", partial(_training, visit, scale, {}, _LEAST_OF_PEAK)
    yield "loop of heads", partial(_loop, visit.device, scale)
    yield "training of 50 M", partial(_training, visit, scale, _LARGE, _LEAST_OF_PEAK_LARGE)
    for is_compiled in (False, True):
        for factor in _FACTORS[:1] if visit.is_dry else _FACTORS:
            for name in _ABLATIONS[:2] if visit.is_dry else _ABLATIONS:
                how = "compiled" if is_compiled else "launched"
                measure = partial(_times, visit.device, name, scale, factor, is_compiled)
                yield f"{name} x{factor} {how}", measure


def _peak(device: str) -> Finding:
    rates = {each: _peak_of(device, each) for each in _precisions(device)}
    text = ", ".join(f"{name} {rate / 1e12:.3g} TFLOP/s" for name, rate in rates.items())
    return Finding(text=text, values=rates)


def _precisions(device: str) -> tuple[str, ...]:
    return ("float32",) if device == "cpu" else ("float32", "tf32", "bf16")


@cache
def _peak_of(device: str, precision: str) -> float:
    return matrix_peak(clock_of(device), device, precision)


def _training(visit: Visit, scale: str, sizes: dict[str, int], goal: float) -> Finding:
    """Measure recorded steps, compiled ones, their share of the peak, and the time of compiling."""
    device, trial = visit.device, baseline("heads", scale=scale, steps=_num_steps(visit.device))
    if not visit.is_dry:
        trial = replace(trial, subjects=(replace(trial.subjects[0], **sizes),))
    with float32_products(trial.settled_precision), TemporaryDirectory() as folder:
        recorded = Bench(trial, device)
        seconds = {"recorded": recorded.seconds()[0]}
        compiling: dict[str, float] = {}
        how = recorded.how
        kept = Checkpointer(Path(folder, "checkpoints", "trial"), math.inf)
        for cache in () if visit.is_dry else ("cold", "warm"):
            torch.compiler.reset()  # else torch keeps the code in this process
            with keeping_compiled_code(kept):
                bench = Bench(trial, device, is_compiled=True)
            how = bench.how
            compiling[cache] = bench.seconds_to_begin - recorded.seconds_to_begin
            seconds["compiled"] = bench.seconds()[0]
    flops = TRAINING_OVER_FORWARD * forward_flops(trial.subjects[0], trial.batch, lengths_of(trial))
    precision = "float32" if visit.is_dry else trial.settled_precision
    share = flops / min(seconds.values()) / _peak_of(device, precision)
    text = "; ".join(
        [
            *(f"{name} {milliseconds(each)}" for name, each in seconds.items()),
            *(f"compiling {cache} {each:.1f} s" for cache, each in compiling.items()),
            f"{share:.1%} of peak (goal {goal:.0%}): {_verdict(share >= goal)}",
            how,
        ]
    )
    values = {"flops": flops, "share_of_peak": share, "goal": goal, **seconds, **compiling}
    is_right = share >= goal and (visit.is_dry or how == f"{COMPILED}; {RECORDED}")
    if not sizes and not visit.is_dry:
        wanted = _estimated(trial, is_compiled=False) / _estimated(trial, is_compiled=True)
        found = seconds["recorded"] / seconds["compiled"]
        fits = math.isclose(wanted, found, rel_tol=_TABLE_TOLERANCE)
        text += f"; gain {found:.2f} (table {wanted:.2f}): {_verdict(fits)}"
        values |= {"gain": found, "gain_in_table": wanted}
        is_right = is_right and fits
    return Finding(text=text, status="ok" if is_right or visit.is_dry else "failed", values=values)


def _estimated(trial: Trial, *, is_compiled: bool) -> float:
    return step_seconds(
        trial.subjects[0],
        batch=trial.batch,
        length=trial.length,
        forward_flops=forward_flops(trial.subjects[0], 1, lengths_of(trial)),
        is_compiled=is_compiled,
    )


def _loop(device: str, scale: str) -> Finding:
    """Compare the training loop with bare replays, uncompiled and compiled."""
    trial = baseline("heads", scale=scale, steps=_num_steps(device))
    parts, ratios = [], {}
    with float32_products(trial.settled_precision):
        for is_compiled in (False,) if device == "cpu" else (False, True):
            bench = Bench(trial, device, is_compiled=is_compiled)
            bare, loop = bench.seconds()
            ratios[bench.how or "eagerly"] = loop / bare
            parts.append(f"{loop / bare:.3f} times {milliseconds(bare)} ({bench.how or 'eagerly'})")
    is_met = max(ratios.values()) <= _MOST_OVER_REPLAYS
    goal = f"goal {_MOST_OVER_REPLAYS}: {_verdict(is_met)}"
    return Finding(
        text=f"the loop takes {', '.join(parts)}; {goal}",
        status="ok" if is_met or device == "cpu" else "failed",
        values={**ratios, "goal": _MOST_OVER_REPLAYS},
    )


def _num_steps(device: str) -> int:
    """Return the number of steps of a lap."""
    return 1 if device == "cpu" else 200


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def _times(device: str, ablation: str, scale: str, factor: int, is_compiled: bool) -> Finding:
    trial = baseline(ablation, scale=scale)
    trial = replace(trial, batch=factor * trial.batch)
    precision = trial.settled_precision
    with float32_products(precision):
        step = training_step(trial, device, is_compiled=is_compiled)
        launched = seconds_of(step, device)
        recorded = seconds_recorded(step, device)
    forward = forward_flops(trial.subjects[0], trial.batch, lengths_of(trial))
    best = recorded or launched
    values = {
        "launched_seconds": launched,
        "recorded_seconds": recorded,
        "batch": trial.batch,
        "tokens_per_second": trial.batch * trial.length / best,
    }
    share = ""
    if forward is not None and (device != "cpu" or precision == "float32"):
        values["share_of_peak"] = (
            TRAINING_OVER_FORWARD * forward / best / _peak_of(device, precision)
        )
        share = f" ({values['share_of_peak']:.1%} of peak)"
    how = "compiled " if is_compiled else ""
    text = f"{how}{milliseconds(launched)}, {how}recorded {milliseconds(recorded)}{share}"
    return Finding(text=text, values=values, group=f"{ablation}, batch {trial.batch}, {precision}")


def training_step(trial: Trial, device: str, *, is_compiled: bool = False) -> Work:
    """Return forward, backward and update of the trial's model on one batch.

    Nothing in it depends on Python after the first call, so that it can be recorded.
    """
    assert trial.training is not None
    training = trial.training
    torch.manual_seed(0)
    task = build_task(trial.task, trial.length)
    model = build_model(trial.subjects[0]).to(device).train()
    run = prepared(model, "compiled" if is_compiled else "eager", device, training.precision)
    optimizer = optimizer_of(model, training, is_recorded=device != "cpu")
    batch = task.training_batch(0, trial.batch, 0).to(device)

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss = task.loss(batch.through(run), batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if training.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
        optimizer.step()
        return loss.detach()

    return step
