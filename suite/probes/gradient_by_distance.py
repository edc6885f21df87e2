"""Measure how the gradient of a language model's last output decays with distance.

The contribution of a distant token is learned through a product of derivatives, one for each step
in between, which vanishes or explodes exponentially if they are all small or all large: Bengio,
Simard and Frasconi 1994 (IEEE Transactions on Neural Networks 5(2)), Hochreiter and Schmidhuber
1997 (Neural Computation 9(8)), Pascanu, Mikolov and Bengio 2013 (arXiv:1211.5063, section 2).

    g_k = || d (u . o_T) / d e_(T-k) ||        number at distance k: mean of log10(g_k / g_0)

o_T are the logits at the last position of a window, e_t is the embedded token at position t, before
positions are added; u is a random direction, different for each window and the same for every
model. So the mean of g_k^2 over many windows is the squared norm of the whole derivative, up to a
factor. The mean is over held-out windows of the validation split; one backward pass per batch gives
all distances.

The probe uses u . o and not the loss, because the derivative of the loss shrinks as a model grows
certain of the next token, whatever the source of that knowledge. The norms are relative to distance
0, the last token itself, because the scale of the outputs differs by mixer and grows during
training; the ratio does not depend on it. At distance 0 the residual path around all mixers is open
too, in the same way for all. Logarithms are taken before the mean, because otherwise one window
with a large gradient would dominate.

If no gradient arrives (as for a convolution beyond its receptive field), or less than float32 can
distinguish from zero, the ratio counts as `FLOOR`, the smallest normal number of float32: -37.9 in
the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import cast

import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, architecture_class
from bakeoff.suite.probes.probe import (
    Said,
    TrainedModelProbe,
    initial_model,
    measurement,
    trained_model,
)
from bakeoff.suite.schema import Measurement, MetricSpec, Parallel, Status, Trial
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import in_evaluation_mode

FLOOR = torch.finfo(torch.float32).tiny
_INITIAL, _TRAINED = "initial_gradient_log10", "trained_gradient_log10"
_NUM_WINDOWS = 64  # the minimum; rounded up to whole batches
_SEED_OF_DIRECTIONS = 0


class GradientByDistance(TrainedModelProbe):
    """The gradient norm before and after training, at distances of 1, 2, 4, ... tokens."""

    name = "gradient_by_distance"
    version = 2

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return two metrics for each distance in a window of that length."""
        return tuple(
            _spec(name, distance) for name in (_INITIAL, _TRAINED) for distance in distances(length)
        )

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why a trial is skipped; the model must predict the next token at each position."""
        kind = architecture_class(model.architecture)
        if not kind.can_write() or "next_symbols" not in kind.answers:
            return f"it looks back from the next token, which a {model.architecture} does not write"
        return super().why_not(model, parallel)

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Measure the initial model, then the one that `quality` has trained."""
        task = build_task(trial.task, trial.length)
        yield from _measured(_INITIAL, initial_model(trial).to(device), task, trial.batch)
        model = trained_model(trial, checkpointer, device)
        yield from _measured(_TRAINED, model, task, trial.batch)


def distances(length: int) -> list[int]:
    """Return the powers of two within a window, counted from the last token back."""
    return [2**power for power in range((length - 1).bit_length())]


def norms_by_distance(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return g_k for each window, `[batch, time]` in float64; column k is k tokens from the end.

    Args:
        model: A model with an `embedding` and logits `[batch, time, outputs]`. Its parameters get
            no gradient.
        inputs: Token ids, `[batch, time]`.
    """
    embedding = cast("nn.Module", model.embedding)
    # cuDNN's recurrent kernels have no backward pass in evaluation mode.
    with _embedded(embedding) as noted, torch.backends.cudnn.flags(enabled=False):
        last = model(inputs)[:, -1]
        (gradient,) = torch.autograd.grad((last * _directions(last)).sum(), noted[0])
    # In float64, since a norm squares: float32 would underflow for numbers below 1e-19.
    norms: Tensor = gradient.double().norm(dim=-1)
    return norms.flip(1)


def log_ratios(norms: Tensor) -> Tensor:
    """Return log10(g_k / g_0), `[batch, time]`; NaN if a gradient is not finite."""
    first = norms[:, :1].clamp(min=FLOOR)
    ratios = (norms / first).clamp(min=FLOOR).log10()
    return ratios.where(ratios.isfinite(), math.nan)


def _measured(metric: str, model: nn.Module, task: Task, batch: int) -> Iterator[Measurement]:
    """Yield the metric at each distance, marked as diverged if a gradient is not finite."""
    device = next(model.parameters()).device
    # Use at most the batch size of a training step, to limit memory.
    held_out = islice(task.held_out("validation", batch), -(-_NUM_WINDOWS // batch))
    with in_evaluation_mode(model):
        windows = (each.inputs["inputs"].to(device) for each in held_out)
        found = [log_ratios(norms_by_distance(model, each)) for each in windows]
    means = torch.cat(found).mean(dim=0)
    for distance in distances(len(means)):
        value, spec = float(means[distance]), _spec(metric, distance)
        if math.isfinite(value):
            yield measurement(spec, value)
        else:
            reason = f"the gradient at distance {distance} is not a finite number"
            yield measurement(spec, None, status=Status.DIVERGED, reason=reason)


def _spec(metric: str, distance: int) -> MetricSpec:
    return MetricSpec(name=metric, unit="log10", better="higher", at=f"distance={distance}")


def _directions(logits: Tensor) -> Tensor:
    """Return a random unit vector for each row, `[batch, outputs]`, from a fixed seed."""
    chance = torch.Generator().manual_seed(_SEED_OF_DIRECTIONS)
    drawn = torch.randn(logits.shape, generator=chance)
    return nn.functional.normalize(drawn, dim=-1).to(logits)


@contextmanager
def _embedded(embedding: nn.Module) -> Iterator[list[Tensor]]:
    """Record the outputs of the module inside the block, as leaves that take gradients."""
    noted: list[Tensor] = []

    def cut(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        noted.append(output.detach().requires_grad_())
        return noted[-1]

    hook = embedding.register_forward_hook(cut)
    try:
        yield noted
    finally:
        hook.remove()
