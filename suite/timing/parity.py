"""Check a mixer against its own reference before it is timed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from models import Mixer, ModelSpec
from suite.timing.passes import built

NUM_TOKENS = 16
_TOLERANCE = 1e-6  # of the largest number; both compute in float64


class Disproved(Exception):
    """A mixer disagrees with its reference: its time means nothing."""


def refuse_wrong_mixers(spec: ModelSpec, device: str, seed: int) -> None:
    """Build the model in float64 and compare each of its mixers, on one short sequence.

    Raises:
        Disproved: naming the mixer. One without a reference is unproven, and passes.
    """
    model = built(spec, device, seed).double().eval()
    for mixer in _outermost_mixers(model):
        if mixer.is_proven():
            _refuse_wrong(mixer, spec, device, seed)


def _outermost_mixers(module: nn.Module) -> Iterator[Mixer]:
    """Not those that a mixer is made of."""
    for child in module.children():
        if isinstance(child, Mixer):
            yield child
        else:
            yield from _outermost_mixers(child)


def _refuse_wrong(mixer: Mixer, spec: ModelSpec, device: str, seed: int) -> None:
    num_tokens = min(NUM_TOKENS, spec.length)
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(1, num_tokens, mixer.dim, generator=drawn, dtype=torch.float64).to(device)
    fast, slow = (_seeded(form, x, seed) for form in (mixer, mixer.reference))
    difference, largest = float((fast - slow).abs().max()), float(slow.abs().max())
    if not difference <= _TOLERANCE * largest:  # NaN is not either
        raise Disproved(
            f"mixer {spec.mixer!r} differs from its reference by up to {difference:.2g} on "
            f"{num_tokens} tokens, so it is not timed"
        )


def _seeded(form: object, x: Tensor, seed: int) -> Tensor:
    """What is drawn inside is drawn alike."""
    torch.manual_seed(seed)
    assert callable(form)
    with torch.no_grad():
        mixed: Tensor = form(x)
    return mixed
