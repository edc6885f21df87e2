"""Examine a user's own mixer on a few tokens, before anything runs; takes milliseconds.

A mixer that breaks a promise is refused in one sentence that says what was seen, unless one of its
traits declares it: `is_stochastic`, `mask_mode`. Each check changes a part of the input that an
output must not depend on, and compares; that no token sees a later one is also checked by gradient.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor

from models import Mixer, ModelError, ModelSpec, architecture_class, build_model

_LONGEST_TRIED = 1_024  # tokens; a wrong shape shows at any length
_LONGEST_EXAMINED = 64
_TOLERANCE = 1e-5  # of the largest number; what an FFT in float32 mixes up is far below
_SIZE_OF_NOISE = 0.1


def try_own_mixer(spec: ModelSpec, *, is_padded: bool) -> None:
    """Mix as a block of the model would, and evaluate the FLOPs formula.

    Args:
        spec: The model; its first mixer is tried.
        is_padded: Whether the sequences of its task differ in length.

    Raises:
        ModelError: if another shape comes out, something that is no number, or a promise is broken.
        Exception: whatever the user's code raises.
    """
    shape = (1, min(spec.length, _LONGEST_TRIED), spec.dim)
    with _generators_kept():
        model = build_model(dataclasses.replace(spec, depth=1))
        mixer = next(module for module in model.modules() if isinstance(module, Mixer))
        with torch.no_grad():
            mixed: object = mixer(torch.zeros(shape), None)
        found = tuple(mixed.shape) if isinstance(mixed, Tensor) else type(mixed).__name__
        if found != shape:
            raise ModelError(f"it must return the shape {shape} that it is given, not {found}")
        if fault := _fault(mixer, spec, is_padded=is_padded):
            raise ModelError(f"{spec.mixer} {fault}")
    flops: object = mixer.flops(spec.length, batch=1) if mixer.has_flops_formula() else 0
    if not isinstance(flops, int | float) or not math.isfinite(flops) or flops < 0:
        raise ModelError(f"its flops(length, batch) must be a number of at least 0, not {flops!r}")


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Leave all generators of random numbers as they were."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)


def _fault(mixer: Mixer, spec: ModelSpec, *, is_padded: bool) -> str:
    """Which promise the mixer breaks, as the rest of a sentence; empty where it keeps all."""
    mixer.eval()
    with torch.no_grad():
        for parameter in mixer.parameters():
            # A map that starts at zero would hide what it maps.
            if parameter.is_floating_point() and not parameter.any():
                parameter.normal_(std=_SIZE_OF_NOISE)
    is_causal = architecture_class(spec.architecture).is_causal
    longest = min(spec.length, _LONGEST_TRIED)
    try:
        shorter = _Examination.of(mixer, min(longest, _LONGEST_EXAMINED), spec.dim)
        return shorter.fault(is_causal=is_causal, is_padded=is_padded)
    except Exception:  # it may take sequences of one length only
        whole = _Examination.of(mixer, longest, spec.dim)
        return whole.fault(is_causal=is_causal, is_padded=is_padded)


@dataclass(frozen=True)
class _Examination:
    """A mixer in evaluation mode, and two batches of two sequences, `[2, time, dim]`."""

    mixer: Mixer
    x: Tensor
    other: Tensor

    @classmethod
    def of(cls, mixer: Mixer, length: int, dim: int) -> _Examination:
        """With batches of normal numbers."""
        stream = torch.Generator().manual_seed(0)
        x, other = torch.randn(2, 2, length, dim, generator=stream)
        return cls(mixer, x, other)

    def fault(self, *, is_causal: bool, is_padded: bool) -> str:
        """The first promise that is broken."""
        with torch.no_grad():
            fault = self._in_place() or self._of_calls()
            is_repeatable = _are_same(self._mixed(self.x), self._mixed(self.x))
            if not fault and is_repeatable:
                fault = self._of_rows() or self._of_padding(is_padded=is_padded)
                fault = fault or (self._of_future() if is_causal else "")
        return fault or (self._of_future_by_gradient() if is_causal else "")

    def _mixed(self, x: Tensor, mask: Tensor | None = None, seed: int = 0) -> Tensor:
        """The output for a copy of `x`, with all generators seeded."""
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        return cast("Tensor", self.mixer(x.clone(), mask))

    def _in_place(self) -> str:
        given = self.x.clone()
        self.mixer(given, None)
        if _are_same(given, self.x):
            return ""
        return "changes its input in place; let it work on x.clone()"

    def _of_calls(self) -> str:
        """What the same input gives again, at once, with other random numbers, and later."""
        if self.mixer.is_stochastic:
            return ""
        first = self._mixed(self.x)
        keeps = "keeps state between calls: in evaluation the same input gave other numbers"
        if not _are_same(first, self._mixed(self.x)):
            return f"{keeps} when it was mixed again"
        if not _are_same(first, self._mixed(self.x, seed=1)):
            return (
                "draws random numbers in evaluation: the same input gave other numbers with "
                "another seed; if that is meant, let it declare is_stochastic = True"
            )
        self._mixed(self.other)
        return "" if _are_same(first, self._mixed(self.x)) else f"{keeps} after another input"

    def _of_rows(self) -> str:
        changed = torch.stack([self.x[0], self.other[1]])
        if _are_same(self._mixed(self.x)[0], self._mixed(changed)[0]):
            return ""
        return (
            "mixes the rows of a batch: the output of one sequence changed with another sequence "
            "of its batch"
        )

    def _of_padding(self, *, is_padded: bool) -> str:
        """What the mixer promises by `mask_mode`; without a promise, what the task needs."""
        is_exact, length = self.mixer.mask_mode == "exact", self.x.shape[1]
        if length < 2 or not (is_exact or (is_padded and self.mixer.mask_mode == "none")):
            return ""
        is_real = (torch.arange(length) < -(-length // 2)).expand(2, -1)
        changed = torch.where(is_real.unsqueeze(-1), self.x, self.other)
        if _are_same(self._mixed(self.x, is_real)[is_real], self._mixed(changed, is_real)[is_real]):
            return ""
        seen = "reads padding: its output at real tokens changed with what stands at padded ones"
        if is_exact:
            return f"{seen}, although it declares mask_mode = 'exact'"
        return (
            f"{seen}, and this task pads; let it leave out what its mask marks False and declare "
            "mask_mode = 'exact', or, if that is meant, declare mask_mode = 'pads_as_tokens'"
        )

    def _of_future(self) -> str:
        """By change: it also finds what no gradient shows, as a choice of the largest."""
        before = self._mixed(self.x)
        for cut in self._cuts():
            changed = torch.cat([self.x[:, :cut], self.other[:, cut:]], dim=1)
            if not _are_same(before[:, :cut], self._mixed(changed)[:, :cut]):
                return _sees_the_future(cut, "changed with later ones")
        return ""

    def _of_future_by_gradient(self) -> str:
        x = self.x.clone().requires_grad_()
        with torch.enable_grad():
            mixed = self._mixed(x) * self.other
        if not mixed.requires_grad:
            return ""
        for cut in self._cuts():
            try:
                (gradient,) = torch.autograd.grad(mixed[:, :cut].sum(), x, retain_graph=True)
            except RuntimeError:  # no gradient can be had: training will tell
                return ""
            later = gradient[:, cut:].abs().amax(dim=(0, 2))
            if later.max() > _TOLERANCE * gradient[:, :cut].abs().max():
                return _sees_the_future(cut, f"depends on token {cut + 1 + int(later.argmax())}")
        return ""

    def _cuts(self) -> list[int]:
        """Where now ends: at borders of no block of 2, 4, 8, ... tokens, at which a leak hides."""
        length = self.x.shape[1]
        return sorted({cut for cut in (1, length // 2 + 1, length - 1) if 0 < cut < length})


def _sees_the_future(cut: int, how: str) -> str:
    tokens = "token 1" if cut == 1 else f"the first {cut} tokens"
    return (
        f"sees the future, and stands in a causal model: its output for {tokens} {how}; let each "
        "output depend on its own and earlier tokens only where is_causal is True"
    )


def _are_same(a: Tensor, b: Tensor) -> bool:
    """But for rounding; what is no number counts as equal, since training tells of it."""
    difference = (a - b).abs().nan_to_num(0.0, 0.0)
    return not bool((difference > _TOLERANCE * a.abs().nan_to_num(0.0, 0.0).max()).any())
