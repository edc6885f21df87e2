"""Run the backward pass of a loss that compares all examples of a batch, in parts.

A contrastive loss compares each example with all others, so the losses of parts do not add up to
that of the whole. Gao et al. 2021 (GradCache, arXiv:2101.06983, section 3.2): run all parts without
a gradient and join their outputs; compute the loss of these, and its gradient for each output; then
run each part again, and run its backward pass with the gradients of its outputs. The parameters get
the gradient of the whole batch at the cost of one more forward pass and the memory of one part.
Both passes of a part draw the same random numbers, for example for dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.batch import Batch


@dataclass(frozen=True)
class FirstPass:
    """The outputs of a part, computed without a gradient.

    Attributes:
        outputs: The outputs of the part.
        before: The random states before the part: of the CPU, and of a GPU if there is one.
    """

    outputs: Outputs
    before: tuple[Tensor, ...]


def first_pass(part: Batch, answer: Callable[[Batch], Outputs]) -> FirstPass:
    """Run a part without a gradient."""
    before = _random_states()
    with torch.no_grad():
        return FirstPass(answer(part), before)


def joined(outputs: Sequence[Outputs]) -> Outputs:
    """Return the outputs of all rows, joined from those of parts."""
    names = outputs[0].auxiliary
    together = {name: torch.cat([each.auxiliary[name] for each in outputs]) for name in names}
    return Outputs(torch.cat([each.logits for each in outputs]), together)


def loss_and_gradients(
    outputs: Outputs, loss_of: Callable[[Outputs], Tensor]
) -> tuple[Tensor, Outputs]:
    """Return the loss of a whole batch and its gradient for each output; zeros if unused."""
    leaves = outputs.map(lambda tensor: tensor.detach().requires_grad_())
    with torch.enable_grad():
        loss = loss_of(leaves)
        tensors = [leaves.logits, *leaves.auxiliary.values()]
        found = torch.autograd.grad(loss, tensors, allow_unused=True, materialize_grads=True)
    return loss.detach(), Outputs(found[0], dict(zip(leaves.auxiliary, found[1:], strict=True)))


def divided(outputs: Outputs, sizes: Sequence[int]) -> list[Outputs]:
    """Split the outputs into parts with these numbers of rows."""
    named = {name: torch.split(each, list(sizes)) for name, each in outputs.auxiliary.items()}
    logits = torch.split(outputs.logits, list(sizes))
    return [
        Outputs(rows, {name: each[index] for name, each in named.items()})
        for index, rows in enumerate(logits)
    ]


def second_pass(
    part: Batch, answer: Callable[[Batch], Outputs], before: Sequence[Tensor], gradients: Outputs
) -> Tensor:
    """Run a part again, and return a scalar whose backward pass gives its parameters' gradient."""
    after = _random_states()
    _restore(before)
    outputs = answer(part)
    _restore(after)
    pairs = [(outputs.logits, gradients.logits)]
    pairs += [(outputs.auxiliary[name], each) for name, each in gradients.auxiliary.items()]
    return torch.stack([(found * gradient).sum() for found, gradient in pairs]).sum()


def _random_states() -> tuple[Tensor, ...]:
    on_gpu = (torch.cuda.get_rng_state(),) if torch.cuda.is_available() else ()
    return (torch.get_rng_state(), *on_gpu)


def _restore(states: Sequence[Tensor]) -> None:
    torch.set_rng_state(states[0])
    for state in states[1:]:
        torch.cuda.set_rng_state(state)
