"""Define a batch: named inputs, targets, and operations on all of its tensors at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from bakeoff.models.interface import INPUTS, Outputs

UNSCORED = -100  # target that losses and scores ignore; default `ignore_index` of `cross_entropy`


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Inputs and targets of one step.

    Attributes:
        inputs: The tensors by parameter of the model's `forward`. ``inputs`` is `[batch, time]`
            integers, or floats with further axes, as `[batch, time, features]` or `[batch, rows,
            columns, channels]`. ``mask`` is `[batch, time]`, True for real tokens, and is missing
            if all are real. ``context`` and ``context_mask`` are a second stream, such as the
            source of a translation, which may be longer or shorter.
        targets: `[batch, time]` (one per token) or `[batch]` (one per sequence): integers, or
            floats for tasks with numeric answers; `UNSCORED` if they are not scored. With one more
            axis, `[..., classes]` floats: probabilities, all `UNSCORED` if they are not scored.
        part: `[batch]` integers: the index in `Task.parts` of each example, if the inputs do not
            determine it. It is not passed to a model.
        boxes: `[batch, time, 4]` integers, for tasks whose targets name objects of a picture: the
            box of the object that each target word names, as top, left, bottom and right in pixels,
            the last two exclusive; -1 for words that name no object. They are not passed to a
            model.
        chances: `[batch, steps, numbers]` floats, for episodes that a model plays: the random
            numbers of the environment, as read by `bakeoff.suite.tasks.worlds.world`. They are not
            passed to a model.
        references: `[batch, references, time]` integers, for tasks with several right answers, one
            of which is the target: the symbols of each, padded with `UNSCORED`. Metrics of
            sequences compare with them instead of the targets. They are not passed to a model.
    """

    inputs: Mapping[str, Tensor]
    targets: Tensor
    part: Tensor | None = None
    boxes: Tensor | None = None
    chances: Tensor | None = None
    references: Tensor | None = None

    def through(self, model: Callable[..., Tensor | Outputs]) -> Outputs:
        """Return the outputs of the model, which is called with ``**inputs``.

        ``inputs`` is passed by position: a user's module may give its parameter another name.
        """
        others = {name: tensor for name, tensor in self.inputs.items() if name != INPUTS}
        first = [self.inputs[INPUTS]] if INPUTS in self.inputs else []
        return outputs_of(model(*first, **others))

    def to(self, device: str) -> Batch:
        """Return the batch on `device`, or itself if it is already there."""
        kind = torch.device(device).type
        if self.targets.device.type == kind:
            return self
        return self.map(lambda tensor: sendable(tensor, kind).to(device, non_blocking=True))

    def rows(self, chosen: slice) -> Batch:
        """Return a copy of the chosen examples."""
        return self.map(lambda tensor: tensor[chosen].clone())

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Return the batch with `change` applied to each of its tensors."""
        inputs = {name: change(tensor) for name, tensor in self.inputs.items()}
        unseen = (self.part, self.boxes, self.chances, self.references)
        part, boxes, chances, references = (
            None if each is None else change(each) for each in unseen
        )
        return Batch(
            inputs=inputs,
            targets=change(self.targets),
            part=part,
            boxes=boxes,
            chances=chances,
            references=references,
        )

    def is_scored(self, logits: Tensor) -> Tensor:
        """Return `[...]` booleans: which targets are scored, for logits `[..., classes]`."""
        is_scored: Tensor = self.targets != UNSCORED
        return is_scored.all(dim=-1) if self.is_soft(logits) else is_scored

    def is_soft(self, logits: Tensor) -> bool:
        """Return True if targets are rows of probabilities, in the shape of the logits."""
        return self.targets.is_floating_point() and self.targets.shape == logits.shape

    def only(self, is_asked: Tensor) -> Batch:
        """Return the batch with only some of its targets; the others become `UNSCORED`.

        Args:
            is_asked: `[batch]` or `[batch, time]`, booleans, one per target.
        """
        left_out = ~is_asked.reshape(*is_asked.shape, *[1] * (self.targets.ndim - is_asked.ndim))
        return replace(self, targets=self.targets.masked_fill(left_out, UNSCORED))


def sendable(tensor: Tensor, kind: str) -> Tensor:
    """Return the tensor in memory from which it can be copied to the device without waiting.

    Only copies from pinned memory are asynchronous on a GPU: a copy from other memory blocks the
    process until the GPU has done all its queued work. With pinned memory, the next batch is made
    while the GPU still computes. Torch reuses a block of pinned memory after the copy is complete
    (`torch.Tensor.pin_memory`).
    """
    return tensor.pin_memory() if kind == "cuda" and tensor.device.type == "cpu" else tensor


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the examples of several batches, which have the same inputs of the same shapes."""
    inputs = {
        name: torch.cat([each.inputs[name] for each in batches]) for name in batches[0].inputs
    }
    return Batch(
        inputs=inputs,
        targets=torch.cat([each.targets for each in batches]),
        part=_joined([each.part for each in batches]),
        boxes=_joined([each.boxes for each in batches]),
        chances=_joined([each.chances for each in batches]),
        references=_joined([each.references for each in batches]),
    )


def _joined(tensors: Sequence[Tensor | None]) -> Tensor | None:
    """Return the concatenated tensors, or None if there are none."""
    found = [tensor for tensor in tensors if tensor is not None]
    assert len(found) in (0, len(tensors)), "batches of one split are alike"
    return torch.cat(found) if found else None


def outputs_of(returned: Any) -> Outputs:
    """Return what a module returned as `Outputs`.

    The logits are the entry or attribute `logits` of a mapping or an object, such as the outputs of
    transformers; the first element of a tuple, as of a recurrent network that also returns its
    state; or else the returned value itself.
    """
    if isinstance(returned, Outputs):
        return returned
    if isinstance(returned, Mapping) and "logits" in returned:
        return Outputs(returned["logits"])
    if isinstance(logits := getattr(returned, "logits", None), Tensor):
        auxiliary = getattr(returned, "auxiliary", None)
        return Outputs(logits, auxiliary if isinstance(auxiliary, Mapping) else {})
    if isinstance(returned, tuple) and returned and isinstance(returned[0], Tensor):
        return Outputs(returned[0])
    return Outputs(returned)
