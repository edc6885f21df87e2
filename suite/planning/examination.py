"""Examine a user's own mixer or architecture on a few tokens, before anything runs.

It takes milliseconds. A broken contract raises an error of one sentence that describes the
observation, unless a trait declares it: `is_stochastic`, `mask_mode`. Each check changes a part of
the input that an output must not depend on, and compares the outputs; causality is also checked by
gradient.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from bakeoff.models import (
    Architecture,
    Mixer,
    ModelError,
    ModelSpec,
    architecture_class,
    build_model,
)
from bakeoff.models.interface import CAUSAL, CONTEXT, INPUTS, PER_TOKEN, Answer
from bakeoff.suite.timing.passes import random_input

_LONGEST_TRIED = 1_024  # tokens; a wrong shape shows at any length
_LONGEST_EXAMINED = 64
# Relative to the largest number; the rounding errors of an FFT in float32 are far smaller.
_TOLERANCE = 1e-5
_SIZE_OF_NOISE = 0.1


def try_own_mixer(spec: ModelSpec, *, is_padded: bool) -> None:
    """Run the mixer as a block of the model would, and evaluate the FLOPs formula.

    Args:
        spec: The model; its first mixer is examined.
        is_padded: Whether the sequences of its task differ in length.

    Raises:
        ModelError: If the output has the wrong shape, the FLOPs are not a number, or a contract is
            broken.
        Exception: Any exception of the user's code.
    """
    shape = (1, min(spec.length, _LONGEST_TRIED), spec.dim)
    with generators_kept():
        model = build_model(dataclasses.replace(spec, depth=1))
        mixer = next(module for module in model.modules() if isinstance(module, Mixer))
        with torch.no_grad():
            mixed: object = mixer(torch.zeros(shape), None)
        found = tuple(mixed.shape) if isinstance(mixed, Tensor) else type(mixed).__name__
        if found != shape:
            raise ModelError(f"it must return the shape of its input, {shape}, not {found}")
        if fault := _fault_of_mixer(mixer, spec, is_padded=is_padded):
            raise ModelError(f"{spec.mixer} {fault}")
    _refuse_flops(mixer, spec)


def try_own_architecture(spec: ModelSpec, asks_for: Answer, *, is_padded: bool) -> None:
    """Build the model, call it with inputs like those of its task, and evaluate the FLOPs formula.

    Args:
        spec: The model.
        asks_for: The kind of output that its task needs.
        is_padded: Whether the sequences of its task differ in length.

    Raises:
        ModelError: In the same cases as `try_own_mixer`.
        Exception: Any exception of the user's code.
    """
    with generators_kept():
        model = build_model(spec)
        takes = inspect.signature(model.forward).parameters
        if is_padded and "mask" not in takes:
            raise ModelError(
                f"{spec.architecture} must take mask=, [batch, time], True at real tokens: the "
                "sequences of this task differ in length and are padded"
            )
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ModelError(f"{spec.architecture} has no parameter to train")
        if fault := _fault_of_model(model, asks_for, is_padded=is_padded):
            raise ModelError(f"{spec.architecture} {fault}")
    lengths = [spec.others[CONTEXT].length] if CONTEXT in spec.others else []
    _refuse_flops(model, spec, *lengths)


def _refuse_flops(part: Mixer | Architecture, spec: ModelSpec, *lengths: int) -> None:
    """Check the result of the formula, called with the length of the source if there is one."""
    flops: object = part.flops(spec.length, 1, *lengths) if part.has_flops_formula() else 0
    if not isinstance(flops, int | float) or not math.isfinite(flops) or flops < 0:
        raise ModelError(f"its flops(length, batch) must be a number of at least 0, not {flops!r}")


@contextmanager
def generators_kept() -> Iterator[None]:
    """Restore the state of all random number generators at the end of the block."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)


def _fault_of_mixer(mixer: Mixer, spec: ModelSpec, *, is_padded: bool) -> str:
    """Return the contract that the mixer breaks, as the rest of a sentence; empty if none."""
    show_all(mixer)
    is_causal = architecture_class(spec.architecture).is_causal

    def fault(length: int) -> str:
        stream = torch.Generator().manual_seed(0)
        x, other = torch.randn(2, 2, length, spec.dim, generator=stream)
        return _Examination(
            call=mixer, traits=mixer, x=x, other=other, num_features=1, is_per_token=True
        ).fault(is_causal=is_causal, is_padded=is_padded)

    return _at_short_length(fault, min(spec.length, _LONGEST_TRIED))


def _fault_of_model(model: Architecture, asks_for: Answer, *, is_padded: bool) -> str:
    """Return the contract that the model breaks, as the rest of a sentence; empty if none."""
    show_all(model)
    spec = model.spec

    def fault(length: int) -> str:
        drawn = torch.Generator().manual_seed(0)
        given = inputs_like(spec, asks_for, length, drawn)
        first = given.pop(INPUTS)
        axes = axes_of(asks_for)
        other = random_input(spec.inputs[INPUTS], axes, length, drawn)
        num_logits = 2 if asks_for == "choice" else spec.output_size
        shape = (2, length, num_logits) if asks_for in PER_TOKEN else (2, num_logits)

        def call(x: Tensor, mask: Tensor | None) -> Tensor:
            masks = {} if mask is None else {"mask": mask}
            returned: object = model(x, **masks, **given)
            logits: object = getattr(returned, "logits", returned)
            found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            if found != shape:
                raise ModelError(f"{spec.architecture} must return the shape {shape}, not {found}")
            return cast("Tensor", logits)

        return _Examination(
            call=call,
            traits=model,
            x=first,
            other=other,
            num_features=first.ndim - len(axes) - 1,
            is_per_token=asks_for in PER_TOKEN,
        ).fault(is_causal=asks_for in CAUSAL, is_padded=is_padded)

    return _at_short_length(fault, spec.length)


def axes_of(asks_for: Answer, num_rows: int = 2) -> tuple[int, ...]:
    """Return the sizes of the axes of an input that precede the time axis."""
    return (num_rows, 2) if asks_for in {"pair", "choice"} else (num_rows,)


def inputs_like(
    spec: ModelSpec, asks_for: Answer, length: int, drawn: torch.Generator, num_rows: int = 2
) -> dict[str, Tensor]:
    """Return random inputs of a model, by name, shaped like those of its task."""
    axes = axes_of(asks_for, num_rows)
    return {n: random_input(each, axes, length, drawn) for n, each in spec.inputs.items()}


def show_all(module: nn.Module) -> None:
    """Set evaluation mode, and fill all-zero parameters with noise, so that they hide no fault."""
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() and not parameter.any():
                parameter.normal_(std=_SIZE_OF_NOISE)


def _at_short_length(fault: Callable[[int], str], longest: int) -> str:
    """Examine at a few tokens, or at the longest length if the model fails at others."""
    try:
        return fault(min(longest, _LONGEST_EXAMINED))
    except Exception:
        return fault(longest)


@dataclass(frozen=True, kw_only=True)
class _Examination:
    """A module in evaluation mode, and two batches of two sequences, `[2, time, ...]`.

    Attributes:
        call: The function to examine, which takes inputs and a mask.
        traits: The object that declares `is_stochastic` and `mask_mode`.
        x: The first batch.
        other: The second batch, which provides the changed parts.
        num_features: The number of axes after the time axis.
        is_per_token: Whether there is an output for each token.
    """

    call: Callable[[Tensor, Tensor | None], Tensor]
    traits: Any
    x: Tensor
    other: Tensor
    num_features: int
    is_per_token: bool

    def fault(self, *, is_causal: bool, is_padded: bool) -> str:
        """Return the first broken contract, as the rest of a sentence; empty if there is none."""
        with torch.no_grad():
            fault = self._in_place() or self._of_calls()
            is_repeatable = are_same(self._mixed(self.x), self._mixed(self.x))
            if not fault and is_repeatable:
                fault = self._of_rows() or self._of_padding(is_padded=is_padded)
                fault = fault or (self._of_future() if is_causal else "")
        return fault or (self._of_future_by_gradient() if is_causal else "")

    def _mixed(self, x: Tensor, mask: Tensor | None = None, seed: int = 0) -> Tensor:
        """Return the output for a copy of `x`, with all generators seeded."""
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        return self.call(x.clone(), mask)

    def _in_place(self) -> str:
        given = self.x.clone()
        self.call(given, None)
        if are_same(given, self.x):
            return ""
        return "changes its input in place; use x.clone()"

    def _of_calls(self) -> str:
        """Compare outputs for one input: repeated, with another seed, and after another input."""
        if self.traits.is_stochastic:
            return ""
        first = self._mixed(self.x)
        keeps = "keeps state between calls: in evaluation the same input gave other numbers"
        if not are_same(first, self._mixed(self.x)):
            return f"{keeps} when it was evaluated again"
        if not are_same(first, self._mixed(self.x, seed=1)):
            return (
                "draws random numbers in evaluation: the same input gave other numbers with "
                "another seed; if this is intended, declare is_stochastic = True"
            )
        self._mixed(self.other)
        return "" if are_same(first, self._mixed(self.x)) else f"{keeps} after another input"

    def _of_rows(self) -> str:
        changed = torch.stack([self.x[0], self.other[1]])
        if are_same(self._mixed(self.x)[0], self._mixed(changed)[0]):
            return ""
        return (
            "mixes the rows of a batch: the output of one sequence changed with another sequence "
            "of its batch"
        )

    def _of_padding(self, *, is_padded: bool) -> str:
        """Check that padding has no effect, if `mask_mode` promises it or the task needs it."""
        mode, tokens = self.traits.mask_mode, self.x.shape[: self.x.ndim - self.num_features]
        is_exact, length = mode == "exact", tokens[-1]
        if length < 2 or not (is_exact or (is_padded and mode == "none")):
            return ""
        is_real = (torch.arange(length) < -(-length // 2)).expand(tokens)
        wide = is_real.reshape(*tokens, *[1] * self.num_features)
        changed = torch.where(wide, self.x, self.other)
        before, after = self._mixed(self.x, is_real), self._mixed(changed, is_real)
        if self.is_per_token:
            before, after = before[is_real], after[is_real]
        if are_same(before, after):
            return ""
        seen = (
            "reads padding: its output at real tokens changed with the content of padded positions"
        )
        if is_exact:
            return f"{seen}, although it declares mask_mode = 'exact'"
        return (
            f"{seen}, and this task pads; ignore positions whose mask is False and declare "
            "mask_mode = 'exact', or, if this is intended, declare mask_mode = 'pads_as_tokens'"
        )

    def _of_future(self) -> str:
        """Change later tokens; this also finds leaks without a gradient, for example argmax."""
        before = self._mixed(self.x)
        for cut in self._cuts():
            changed = torch.cat([self.x[:, :cut], self.other[:, cut:]], dim=1)
            if not are_same(before[:, :cut], self._mixed(changed)[:, :cut]):
                return _sees_the_future(cut, "changed with later ones")
        return ""

    def _of_future_by_gradient(self) -> str:
        if not self.x.is_floating_point():
            return ""
        x = self.x.clone().requires_grad_()
        with torch.enable_grad():
            mixed = self._mixed(x)
            mixed = mixed * torch.randn(mixed.shape, generator=torch.Generator().manual_seed(0))
        if not mixed.requires_grad:
            return ""
        for cut in self._cuts():
            try:
                (gradient,) = torch.autograd.grad(mixed[:, :cut].sum(), x, retain_graph=True)
            except RuntimeError:  # not differentiable: training will report it
                return ""
            later = gradient[:, cut:].abs().amax(dim=(0, 2))
            if later.max() > _TOLERANCE * gradient[:, :cut].abs().max():
                return _sees_the_future(cut, f"depends on token {cut + 1 + int(later.argmax())}")
        return ""

    def _cuts(self) -> list[int]:
        """Return cuts that are not multiples of a block size 2, 4, ..., which could hide leaks."""
        length = self.x.shape[1]
        return sorted({cut for cut in (1, length // 2 + 1, length - 1) if 0 < cut < length})


def _sees_the_future(cut: int, how: str) -> str:
    tokens = "token 1" if cut == 1 else f"the first {cut} tokens"
    return (
        f"depends on later tokens, but the model is causal: its output for {tokens} {how}; if "
        "is_causal is True, each output may depend only on its own and earlier tokens"
    )


def are_same(a: Tensor, b: Tensor) -> bool:
    """Return True if both are equal up to rounding; NaN counts as equal, as training reports it."""
    difference = (a - b).abs().nan_to_num(0.0, 0.0)
    return not bool((difference > _TOLERANCE * a.abs().nan_to_num(0.0, 0.0).max()).any())
