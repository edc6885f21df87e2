"""Times a training step of standard baselines: launched, recorded, compiled, and both.

The share of the measured matrix peak counts a step as three forward passes, by formula.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

import torch
from torch import Tensor, nn

from bakeoff.models import build_model
from bakeoff.suite.probes.probe import TRAINING_OVER_FORWARD, forward_flops, lengths_of
from bakeoff.suite.schema import Trial
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.timing.clock import clock_of
from bakeoff.suite.timing.peaks import matrix_peak
from bakeoff.suite.training.engines.runtimes import prepared
from bakeoff.suite.training.recipes import float32_products, optimizer_of
from tools.gpu_visit.results import Finding, Item, Visit
from tools.gpu_visit.standard import baseline
from tools.gpu_visit.stopwatch import Work, milliseconds, seconds_of, seconds_recorded

_ABLATIONS = ("heads", "patch_positions", "vision")
_FACTORS = (1, 4, 16)  # multiples of the batch


def items(visit: Visit) -> Iterator[Item]:
    """Yield the peak; each baseline at its own batch, at larger ones, and then compiled."""
    scale = "smoke" if visit.is_dry else "standard"
    yield "matrix peak", partial(_peak, visit.device)
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
