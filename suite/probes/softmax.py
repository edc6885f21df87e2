"""Measure the saturation of attention's softmax: entropy of its weights, gradient of its scores.

Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.1: for large d_k products "grow large in
magnitude, pushing the softmax function into regions where it has extremely small gradients". For
one query, with scaled scores s over the n visible keys, weights p = softmax(s), and g = dL/dp, the
gradient of the loss with respect to the weights, the scores receive

    dL/ds_j = p_j (g_j - sum_k p_k g_k).

`score_gradient` is the size of this gradient, sum_j |dL/ds_j|, relative to its size at equal scores
(p_j = 1/n) for the same g: sum_j |g_j - mean g| / n. It is 1 at equal scores, still near 1 if they
differ by about one, and 0 if one key has all the weight; it is slightly above 1 if the weights are
on keys for which g differs. Magnitudes are summed and not squared: at equal scores n keys share the
gradient, and squares would call that small too. Both sums run over the queries of a softmax before
they are divided, so that the weight of a query is the gradient that reaches it; the result is the
mean over softmaxes, one per layer.

`attention_entropy` is the mean over queries of -sum_j p_j log p_j / log n: 1 for equal weights, 0
for one key with all the weight.

Both leave out queries with a single visible key, and those on which the loss does not depend, such
as padding. They are measured before and after training, on the first sequences of the validation
split, never on test data, with the model in evaluation mode.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from bakeoff.models import Architecture, Mixer, ModelError, ModelSpec, mixer_class
from bakeoff.models.registry import mixer_pattern
from bakeoff.models.reversible import activations_kept
from bakeoff.suite.probes.probe import (
    Said,
    TrainedModelProbe,
    initial_model,
    measurement,
    trained_model,
)
from bakeoff.suite.probes.samples.building import mixers_of
from bakeoff.suite.schema import Measurement, MetricSpec, Parallel, Trial, metric_spec
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.engine import in_evaluation_mode

_ROWS = 8  # sequences at once; the weights of all layers are kept in memory
_NUM_BATCHES = 4


@dataclass(frozen=True, kw_only=True)
class Attended:
    """One softmax over keys, and the gradient of the loss with respect to it.

    Attributes:
        weights: The weights p, `[..., queries, keys]`.
        gradient: dL/dp, of the same shape.
        visible: A mask of the same shape, True for visible keys.
    """

    weights: Tensor
    gradient: Tensor
    visible: Tensor

    def num_keys(self) -> Tensor:
        """Return the number of visible keys n of each query, `[..., queries]`."""
        return self.visible.sum(dim=-1)

    def through_equal_scores(self) -> Tensor:
        """Return sum_j |g_j - mean g| / n of each query, `[..., queries]`."""
        num_keys = self.num_keys().clamp(min=1)
        mean = self.gradient.masked_fill(~self.visible, 0.0).sum(dim=-1) / num_keys
        apart = (self.gradient - mean.unsqueeze(-1)).abs().masked_fill(~self.visible, 0.0)
        return apart.sum(dim=-1) / num_keys

    def through(self) -> Tensor:
        """Return sum_j |dL/ds_j| at the actual scores, `[..., queries]`."""
        wanted = (self.weights * self.gradient).sum(dim=-1, keepdim=True)
        return (self.weights * (self.gradient - wanted)).abs().sum(dim=-1)

    def counts(self) -> Tensor:
        """Return a mask `[..., queries]`, True if there are several keys and the choice matters."""
        return (self.num_keys() > 1) & (self.through_equal_scores() > 0)

    def entropy(self) -> float:
        """Return the attention entropy of the module's docstring."""
        counts = self.counts()
        of_queries: Tensor = torch.special.entr(self.weights).sum(dim=-1)[counts]
        return (of_queries / self.num_keys()[counts].log()).mean().item()

    def score_gradient(self) -> float:
        """Return the score gradient of the module's docstring."""
        counts = self.counts()
        return (self.through()[counts].sum() / self.through_equal_scores()[counts].sum()).item()


class Softmax(TrainedModelProbe):
    """Entropy of attention's weights and gradient of its scores, before and after training."""

    name = "softmax"
    version = 2
    specs = (
        metric_spec("initial_attention_entropy"),
        metric_spec("initial_score_gradient"),
        metric_spec("trained_attention_entropy"),
        metric_spec("trained_score_gradient"),
    )

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why a trial is skipped; all mixers must have attention weights."""
        if not model.mixer:
            return f"{model.architecture} has no mixer whose weights could be read"
        for mixer in mixer_pattern(model.mixer):
            if mixer_class(mixer).attention_weights is Mixer.attention_weights:
                return f"{mixer} gives no attention weights"
        return super().why_not(model, parallel)

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Measure the initial model, then the one that `quality` has trained."""
        task = build_task(trial.task, trial.length)
        yield from _means(self.specs[:2], initial_model(trial).to(device), task)
        model = trained_model(trial, checkpointer, device)
        yield from _means(self.specs[2:], model, task)


def attended(model: Architecture, task: Task, batch: Batch) -> list[Attended]:
    """Return the softmaxes of the model's mixers over the batch, from the bottom upwards.

    Raises:
        ModelError: if the mixers call no softmax of torch that can be recorded.
    """
    mixers = mixers_of(model)
    with activations_kept(), softmaxes_written(mixers) as written:
        loss = task.loss(batch.through(model), batch)
    if not written:
        raise ModelError(f"{mixers[0].name} calls no softmax of torch's that could be looked at")
    gradients = torch.autograd.grad(loss, [each.weights for each in written])
    return [
        Attended(weights=each.weights.detach(), gradient=gradient, visible=each.visible())
        for each, gradient in zip(written, gradients, strict=True)
    ]


def _means(specs: Iterable[MetricSpec], model: Architecture, task: Task) -> Iterator[Measurement]:
    """Yield entropy and gradient, the means over all softmaxes in which a query counts."""
    found: list[Attended] = []
    device = str(next(model.parameters()).device)
    with in_evaluation_mode(model):
        for batch in itertools.islice(task.held_out("validation", _ROWS), _NUM_BATCHES):
            found += [
                each for each in attended(model, task, batch.to(device)) if each.counts().any()
            ]
    for spec, number in zip(specs, (Attended.entropy, Attended.score_gradient), strict=True):
        yield measurement(spec, statistics.fmean(map(number, found)))


_SOFTMAXES = (torch.softmax, Tensor.softmax, functional.softmax)


@dataclass(frozen=True, kw_only=True)
class Written:
    """The input and output of one softmax over keys.

    Attributes:
        scores: The scaled and biased scores, `[..., queries, keys]`; -inf, or the lowest number of
            the dtype, for a hidden key.
        weights: The softmax of the scores, of the same shape.
    """

    scores: Tensor
    weights: Tensor

    def visible(self) -> Tensor:
        """Return a mask of the same shape, True for visible keys."""
        return self.scores > torch.finfo(self.scores.dtype).min


@contextmanager
def softmaxes_written(mixers: Iterable[nn.Module]) -> Iterator[list[Written]]:
    """Record the softmaxes that the mixers call inside the block, in the order of the calls."""
    looking = _Looking()
    hooks = []
    for mixer in mixers:
        hooks.append(mixer.register_forward_pre_hook(looking.set_inside(True)))
        hooks.append(mixer.register_forward_hook(looking.set_inside(False)))
    try:
        with looking:
            yield looking.found
    finally:
        for hook in hooks:
            hook.remove()


class _Looking(TorchFunctionMode):
    """A mode that records the softmaxes called inside a mixer.

    A fused kernel never writes scores and weights to memory, so calls of
    `scaled_dot_product_attention` are replaced by its definition while this is active. Models need
    no hook for it and have no cost otherwise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Written] = []
        self._is_inside = False

    def set_inside(self, is_inside: bool) -> Callable[..., None]:
        """Return a hook for the start or the end of a mixer's forward pass."""

        def hook(*_: object) -> None:
            self._is_inside = is_inside

        return hook

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function, and record the softmaxes of a mixer."""
        named = dict(kwargs or {})
        if self._is_inside and func is functional.scaled_dot_product_attention:
            if named.pop("enable_gqa", False):
                args = _each_with_own_keys(*args)
            return self._attention(*args, **named)
        returned = func(*args, **named)
        if self._is_inside and func in _SOFTMAXES:
            scores = args[0] if args else named["input"]
            self.found.append(Written(scores=scores, weights=returned))
        return returned

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        """Compute `scaled_dot_product_attention` by its documentation, without dropout."""
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query @ key.transpose(-1, -2) * factor
        if is_causal:
            attn_mask = torch.ones_like(scores, dtype=torch.bool).tril()
        if attn_mask is not None and attn_mask.dtype is torch.bool:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        weights = scores.softmax(dim=-1)
        self.found.append(Written(scores=scores, weights=weights))
        return weights @ value


def _each_with_own_keys(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """Return queries, keys and values; keys and values shared by heads are repeated."""
    shared = query.shape[-3] // key.shape[-3]
    return query, *(each.repeat_interleave(shared, dim=-3) for each in (key, value))
