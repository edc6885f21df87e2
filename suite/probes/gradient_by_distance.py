"""Measure how the gradient of a language model's last output decays with distance.

What a token far back contributes is learned through a product of derivatives, one for each step
between, which vanishes or explodes exponentially where they are all small or all large: Bengio,
Simard and Frasconi 1994 (IEEE Transactions on Neural Networks 5(2)), Hochreiter and Schmidhuber
1997 (Neural Computation 9(8)), Pascanu, Mikolov and Bengio 2013 (arXiv:1211.5063, section 2).

    g_k = || d (u . o_T) / d e_(T-k) ||        number at distance k: mean of log10(g_k / g_0)

o_T are the logits at the last place of a window, e_t is the embedded token at place t, before its
position; u is a random direction, another for each window and the same for every model, so that
over many the mean of g_k^2 is the squared norm of the whole derivative, up to a factor. The mean
is over held-out windows of the validation split; one backward pass a batch gives all distances.

Why not the loss in place of u . o: its derivative shrinks as a model grows sure of the next
token, wherever that knowledge comes from. Why relative to distance 0, the last token itself: the
size of what a model puts out differs by mixer and grows while training; the ratio does not know
it. At distance 0 the way past all mixers, by residuals, is open too; it is the same for all.
Logarithms are taken before the mean, or one window in which much arrives would dominate.

Where nothing arrives (a convolution beyond its reach), or less than float32 can tell from
nothing, the ratio counts as `FLOOR`, the smallest normal number of float32: -37.9 in the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import cast

import torch
from torch import Tensor, nn

from models import ModelSpec, architecture_class
from suite.probes.probe import Said, TrainedModelProbe, initial_model, measurement, trained_model
from suite.schema import Measurement, MetricSpec, Parallel, Status, Trial
from suite.tasks.registry import build_task
from suite.tasks.task import Task
from suite.training.checkpoint import Checkpointer
from suite.training.engines.engine import in_evaluation_mode

FLOOR = torch.finfo(torch.float32).tiny
_INITIAL, _TRAINED = "initial_gradient_log10", "trained_gradient_log10"
_NUM_WINDOWS = 64  # at least; whole batches
_SEED_OF_DIRECTIONS = 0


class GradientByDistance(TrainedModelProbe):
    """Before training and after it, at distances of 1, 2, 4, ... tokens."""

    name = "gradient_by_distance"
    version = 2

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Two numbers at each distance that a window of so many tokens has."""
        return tuple(
            _spec(name, distance) for name in (_INITIAL, _TRAINED) for distance in distances(length)
        )

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """There must be a last output, and tokens before it."""
        kind = architecture_class(model.architecture)
        if not kind.can_write() or "next_symbols" not in kind.answers:
            return f"it looks back from the next token, which a {model.architecture} does not write"
        return super().why_not(model, parallel)

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """The model as it starts; then the one that `quality` has made of it."""
        task = build_task(trial.task, trial.length)
        yield from _measured(_INITIAL, initial_model(trial).to(device), task, trial.batch)
        model = trained_model(trial, checkpointer, device)
        yield from _measured(_TRAINED, model, task, trial.batch)


def distances(length: int) -> list[int]:
    """Powers of two within a window, from the last token back."""
    return [2**power for power in range((length - 1).bit_length())]


def norms_by_distance(model: nn.Module, inputs: Tensor) -> Tensor:
    """g_k for each window, `[batch, time]` in float64; column k is of the k-th token from the end.

    Args:
        model: With an `embedding`; logits `[batch, time, outputs]`. Its parameters get no gradient.
        inputs: `[batch, time]` integers.
    """
    embedding = cast("nn.Module", model.embedding)
    # No kernel of cuDNN's recurrences takes a gradient in evaluation mode.
    with _embedded(embedding) as noted, torch.backends.cudnn.flags(enabled=False):
        last = model(inputs)[:, -1]
        (gradient,) = torch.autograd.grad((last * _directions(last)).sum(), noted[0])
    # In float64, since a norm squares: of numbers below 1e-19 float32 would leave nothing.
    norms: Tensor = gradient.double().norm(dim=-1)
    return norms.flip(1)


def log_ratios(norms: Tensor) -> Tensor:
    """log10(g_k / g_0), `[batch, time]`; NaN where a gradient is no finite number."""
    first = norms[:, :1].clamp(min=FLOOR)
    ratios = (norms / first).clamp(min=FLOOR).log10()
    return ratios.where(ratios.isfinite(), math.nan)


def _measured(metric: str, model: nn.Module, task: Task, batch: int) -> Iterator[Measurement]:
    """The metric at each distance; diverged where a gradient is infinite."""
    device = next(model.parameters()).device
    # No more windows at once than a training step has.
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
            reason = f"the gradient at distance {distance} is no finite number"
            yield measurement(spec, None, status=Status.DIVERGED, reason=reason)


def _spec(metric: str, distance: int) -> MetricSpec:
    return MetricSpec(name=metric, unit="log10", better="higher", at=f"distance={distance}")


def _directions(logits: Tensor) -> Tensor:
    """A unit vector for each row, `[batch, outputs]`; the same whatever was drawn before."""
    chance = torch.Generator().manual_seed(_SEED_OF_DIRECTIONS)
    drawn = torch.randn(logits.shape, generator=chance)
    return nn.functional.normalize(drawn, dim=-1).to(logits)


@contextmanager
def _embedded(embedding: nn.Module) -> Iterator[list[Tensor]]:
    """What the module puts out inside the block, each as a beginning that gradients lead to."""
    noted: list[Tensor] = []

    def cut(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        noted.append(output.detach().requires_grad_())
        return noted[-1]

    hook = embedding.register_forward_hook(cut)
    try:
        yield noted
    finally:
        hook.remove()
