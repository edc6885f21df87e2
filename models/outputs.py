"""What a model returns: logits, or logits with auxiliary tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor


class Outputs(NamedTuple):
    """Logits, and what a loss may read besides; a model without such returns its logits alone.

    A tuple and not a dataclass, since DeepSpeed, `torch.compile` and CUDA graphs look for tensors
    inside tuples and dictionaries only.

    Attributes:
        logits: `[..., outputs]`, what predictions and scores are made of.
        auxiliary: Tensors by name, as the logits of a second head or a penalty.
    """

    logits: Tensor
    auxiliary: Mapping[str, Tensor] = {}

    def map(self, change: Callable[[Tensor], Tensor]) -> Outputs:
        """The outputs with each of their tensors changed."""
        auxiliary = {name: change(tensor) for name, tensor in self.auxiliary.items()}
        return Outputs(change(self.logits), auxiliary)


def as_outputs(returned: Tensor | Outputs) -> Outputs:
    """What a model returned, in the one form that losses and metrics read."""
    return returned if isinstance(returned, Outputs) else Outputs(returned)
