"""Time one more token after so many, by the causal twin of a mixer, step by step."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from models import Mixer, ModelError, ModelSpec, mixer_class
from models.architectures.mixer_alone import CausalMixerAlone
from suite.schema import Status
from suite.timing.passes import Missing, Pass, built


def decode_step(spec: ModelSpec, device: str, seed: int) -> Pass | Missing:
    """One step after `spec.length` tokens, from one and the same state again and again.

    Args:
        spec: Of the mixer alone; its twin is built causal, with room for one token more.
        device: As torch names it.
        seed: Of the parameters and the tokens.
    """
    reason = _why_not(spec, mixer_class(spec.mixer))
    if reason:
        return Missing(Status.SKIPPED, reason)
    try:
        model = built(
            replace(spec, skeleton=CausalMixerAlone.name, length=spec.length + 1), device, seed
        ).eval()
    except ModelError as error:
        return Missing(Status.SKIPPED, f"{spec.mixer} has no causal form: {error}")
    assert isinstance(model, CausalMixerAlone), "the skeleton of that name"
    return _step(model.mixers[0], spec, device, seed)


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
    state = mixer.initial_state(1)
    for token in tokens[:-1]:
        _, state = mixer.step(token, state)
    last = tokens[-1]
    before = [part.clone() for part in state]
    mixer.step(last, state)
    if not all(map(_are_equal, before, state)):
        reason = f"{spec.mixer} changes its state in place, so no step can be taken again"
        return Missing(Status.SKIPPED, reason)

    def run() -> None:
        with torch.no_grad():
            mixer.step(last, state)

    return Pass(run)


def _are_equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())
