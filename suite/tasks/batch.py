"""Define a batch: named inputs, targets, and what may be done to all of its tensors at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from models.interface import INPUTS, Outputs

UNSCORED = -100  # the target that no loss and no score counts; what `cross_entropy` leaves out


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Inputs and targets of one step.

    Attributes:
        inputs: By the parameters of the model's `forward`: ``inputs`` is `[batch, time]` integers,
            or floats with an axis of features behind, as `[batch, time, features]` or `[batch,
            rows, columns, channels]`; ``mask`` is `[batch, time]`, True for real tokens, and is
            missing where all are real; ``context`` and ``context_mask`` are a second stream, as the
            source of a translation, which may be longer or shorter.
        targets: `[batch, time]` (one per token) or `[batch]` (one per sequence), integers, or
            floats where a task asks for numbers; `UNSCORED` where nothing is asked. With one more
            axis, `[..., classes]`, floats: probabilities, all `UNSCORED` where nothing is asked.
        part: `[batch]` integers: which of `Task.parts` each example is of, where the inputs do not
            show it; no model is given it.
        boxes: `[batch, time, 4]` integers, of tasks whose targets name objects of a picture: where
            the object is that each target's word names, as top, left, bottom and right in pixels,
            of which the last two are just outside; -1 where it names none. No model is given them.
        chances: `[batch, steps, numbers]` floats, of episodes that a model is to play: their luck,
            as `suite.tasks.worlds.world` reads it. No model is given them.
        references: `[batch, references, time]` integers, of tasks with several right answers, of
            which a target is one: the symbols of each, `UNSCORED` behind. Metrics of sequences
            judge by them in place of the targets. No model is given them.
    """

    inputs: Mapping[str, Tensor]
    targets: Tensor
    part: Tensor | None = None
    boxes: Tensor | None = None
    chances: Tensor | None = None
    references: Tensor | None = None

    def through(self, model: Callable[..., Tensor | Outputs]) -> Outputs:
        """The outputs of the model, which is called with ``**inputs``.

        ``inputs`` is passed by position: a user's module may give its parameter another name.
        """
        others = {name: tensor for name, tensor in self.inputs.items() if name != INPUTS}
        first = [self.inputs[INPUTS]] if INPUTS in self.inputs else []
        return outputs_of(model(*first, **others))

    def to(self, device: str) -> Batch:
        """The batch on `device`; itself where it already is there."""
        kind = torch.device(device).type
        if self.targets.device.type == kind:
            return self
        return self.map(lambda tensor: sendable(tensor, kind).to(device, non_blocking=True))

    def rows(self, chosen: slice) -> Batch:
        """A copy of some examples."""
        return self.map(lambda tensor: tensor[chosen].clone())

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with each of its tensors changed."""
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
        """`[...]`: which of the targets are asked for, of logits `[..., classes]`."""
        is_scored: Tensor = self.targets != UNSCORED
        return is_scored.all(dim=-1) if self.is_soft(logits) else is_scored

    def is_soft(self, logits: Tensor) -> bool:
        """Whether targets are rows of probabilities: as many numbers as there are logits."""
        return self.targets.is_floating_point() and self.targets.shape == logits.shape

    def only(self, is_asked: Tensor) -> Batch:
        """The batch with some of its targets; what is left out becomes `UNSCORED`.

        Args:
            is_asked: `[batch]` or `[batch, time]`, booleans, one per target.
        """
        left_out = ~is_asked.reshape(*is_asked.shape, *[1] * (self.targets.ndim - is_asked.ndim))
        return replace(self, targets=self.targets.masked_fill(left_out, UNSCORED))


def sendable(tensor: Tensor, kind: str) -> Tensor:
    """The tensor as it is copied to that kind of device without waiting.

    A GPU copies by itself only from pinned memory: from any other the process waits until all that
    it has asked of the GPU is done. So the next batch is made while the GPU still computes. Torch
    uses a block of pinned memory again when the copy is over (`torch.Tensor.pin_memory`).
    """
    return tensor.pin_memory() if kind == "cuda" and tensor.device.type == "cpu" else tensor


def joined(batches: Sequence[Batch]) -> Batch:
    """The examples of several batches, which have the same inputs of the same shapes."""
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
    """All of them, or None where there are none."""
    found = [tensor for tensor in tensors if tensor is not None]
    assert len(found) in (0, len(tensors)), "batches of one split are alike"
    return torch.cat(found) if found else None


def outputs_of(returned: Any) -> Outputs:
    """Return what a module returned as `Outputs`.

    A mapping or an object names its `logits`, as the outputs of transformers do; a tuple has them
    first, as a recurrent network that returns its state too. Anything else is the logits.
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
