"""Time the next token of a language model after so many, one sequence at a time.

That is how it is used: it writes its own next input, so tokens come one by one, and what a token
costs depends on how the mixer remembers the ones before. At ``length=L`` the model has read L - 1
tokens, and reads the last that it has a place for, from one and the same state again and again.
All variants take turns in one process; see `suite.timing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from models import Mixer, ModelError, ModelSpec, architecture_class, mixer_class
from models.architectures.mixer_alone import CausalMixerAlone
from models.registry import mixer_pattern
from suite.probes.probe import Probe, seconds
from suite.schema import Measurement, Parallel, Point, Status, Trial
from suite.timing.clock import clock_of
from suite.timing.comparison import TimingComparison
from suite.timing.passes import Missing, Pass, built

METRIC = "decode_token_seconds"


class Decode(Probe):
    """Medians of interleaved rounds in one process, with their intervals."""

    name = "decode"
    version = 1
    grain = "comparison"
    is_at_length = True
    specs = seconds(METRIC)
    why_no_workers = "decode times one process, without DeepSpeed"

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """It decodes with what reads from left to right, step by step, as Python reaches it."""
        if not architecture_class(model.architecture).can_write():
            return f"a {model.architecture} does not write its own next token"
        for mixer in mixer_pattern(model.mixer):
            if not mixer_class(mixer).supports_step:
                return f"{mixer} has no step form"
        if model.runtime != "eager":
            return f"decoding runs eagerly, not by runtime={model.runtime!r}"
        return super().why_not(model, parallel)

    def measure(self, trial: Trial, device: str) -> Iterator[Point | Measurement]:
        """All subjects, with the controls beside the first."""

        def step(spec: ModelSpec) -> Pass | Missing:
            return next_token(spec, device, trial.seed)

        yield from TimingComparison(
            trial=trial, device=device, clock=clock_of(device), compared=(METRIC,),
            operations=lambda spec: {METRIC: step(spec)},
            main_operation=lambda spec: cast("Pass", step(spec)),  # a control may be missing too
            at=f"length={trial.length}",
        ).measured()  # fmt: skip


@torch.no_grad()
def next_token(spec: ModelSpec, device: str, seed: int) -> Pass | Missing:
    """The step of the last token that a language model has a place for; the seed draws tokens."""
    model: Any = built(spec, device, seed).eval()
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.randint(spec.input_size, (spec.length, 1), generator=drawn).to(device)
    last, state = _all_but_last(model, tokens)
    if not torch.equal(model.step(last, state)[0], model.step(last, state)[0]):
        return _changed_in_place(spec)
    return _step_pass(model, last, state)


def decode_step(spec: ModelSpec, device: str, seed: int) -> Pass | Missing:
    """The step of a mixer alone, after `spec.length` tokens.

    It is built again, causal, with room for one token more.
    """
    reason = _why_not(spec, mixer_class(spec.mixer))
    if reason:
        return Missing(Status.SKIPPED, reason)
    try:
        model = built(
            replace(spec, architecture=CausalMixerAlone.name, length=spec.length + 1), device, seed
        ).eval()
    except ModelError as error:
        return Missing(Status.SKIPPED, f"{spec.mixer} has no causal form: {error}")
    return _step(cast("CausalMixerAlone", model).mixers[0], spec, device, seed)


def _why_not(spec: ModelSpec, kind: type[Mixer]) -> str:
    if not kind.supports_causal:
        return f"{spec.mixer} has no causal form: {kind.why_not_causal}"
    if not kind.supports_step:
        return f"{spec.mixer} has no step form"
    return "" if spec.runtime == "eager" else f"steps are run eagerly, not by {spec.runtime!r}"


@torch.no_grad()
def _step(mixer: Mixer, spec: ModelSpec, device: str, seed: int) -> Pass | Missing:
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.randn(spec.length + 1, 1, spec.dim, generator=drawn).to(device)
    last, state = _all_but_last(mixer, tokens)
    before = [part.clone() for part in state]
    mixer.step(last, state)
    if not all(map(_are_equal, before, state)):
        return _changed_in_place(spec)
    return _step_pass(mixer, last, state)


def _all_but_last(stepper: Any, tokens: Tensor) -> tuple[Tensor, Any]:
    """The last token, and the state after the others; `stepper` is a mixer or a whole model."""
    state = stepper.initial_state(1)
    for token in tokens[:-1]:
        _, state = stepper.step(token, state)
    return tokens[-1], state


def _step_pass(stepper: Any, token: Tensor, state: Any) -> Pass:
    def run() -> None:
        with torch.no_grad():
            stepper.step(token, state)

    return Pass(run)


def _changed_in_place(spec: ModelSpec) -> Missing:
    reason = f"{spec.mixer} changes its state in place, so no step can be taken again"
    return Missing(Status.SKIPPED, reason)


def _are_equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
