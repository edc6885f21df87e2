"""Gated units that read a sequence, and reversal of padded sequences.

Papers: Cho et al. 2014 (arXiv:1406.1078, section 2.3); Bahdanau et al. 2014 (arXiv:1409.0473,
    section A.1.1), with their meaning of z, which is opposite to that of Cho et al. and torch.
Equation: r = sigmoid(W_r x + U_r s), z = sigmoid(W_z x + U_z s),
    s' = (1 - z) s + z tanh(W x + U (r * s)), with a bias for each W.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bakeoff.models.initialisation import scaled_normal
from bakeoff.models.kernels.recurrence import run


class GatedUnit(nn.Module):
    """The unit of the module's docstring; matrices that multiply a state start orthogonal.

    The output of its map of the input is r, z and the candidate, each of width `dim`.
    """

    def __init__(self, num_inputs: int, dim: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(num_inputs, 3 * dim)
        self.gates = nn.Linear(dim, 2 * dim, bias=False)
        self.candidate = nn.Linear(dim, dim, bias=False)
        scaled_normal(self.of_input)
        for square in (*self.gates.weight.chunk(2), self.candidate.weight):
            nn.init.orthogonal_(square)

    def forward(self, of_input: Tensor, state: Tensor) -> Tensor:
        """Return the next state `[batch, dim]`, from `[batch, 3 * dim]` and the last state."""
        dim = state.shape[-1]
        r, z = torch.sigmoid(of_input[:, : 2 * dim] + self.gates(state)).chunk(2, dim=-1)
        candidate = torch.tanh(of_input[:, 2 * dim :] + self.candidate(r * state))
        return torch.lerp(state, candidate, z)

    def read(self, x: Tensor) -> Tensor:
        """Return all states `[batch, time, dim]` over `[batch, time, inputs]`, from zeros."""
        of_inputs, states = self.of_input(x), []
        state = of_inputs.new_zeros(len(x), self.candidate.in_features)
        for of_input in of_inputs.unbind(dim=1):
            state = self(of_input, state)
            states.append(state)
        return torch.stack(states, dim=1)


class TorchUnit(nn.GRU):
    """The GRU of torch, whose reset gate acts on U s + b."""

    def __init__(self, num_inputs: int, dim: int) -> None:
        super().__init__(num_inputs, dim, batch_first=True)

    def read(self, x: Tensor) -> Tensor:
        """Return all states `[batch, time, dim]` over `[batch, time, inputs]`."""
        states: Tensor = run(self, x)[0]
        return states


class Turn:
    """A reversal of sequences `[batch, time, ...]` within their lengths; padding stays at the end.

    Args:
        is_real: `[batch, time]`, with padding at the end, or None if there is none.
    """

    def __init__(self, is_real: Tensor | None) -> None:
        self.order: Tensor | None = None
        if is_real is not None:
            places = torch.arange(is_real.shape[1], device=is_real.device)
            mirrored = is_real.sum(dim=1, keepdim=True) - 1 - places
            self.order = torch.where(is_real, mirrored, places).unsqueeze(-1)

    def __call__(self, x: Tensor) -> Tensor:
        """Reverse `[batch, time, dim]`; applied twice, it is the identity."""
        if self.order is None:
            return x.flip(1)
        return x.gather(1, self.order.expand_as(x))


def real_first(mask: Tensor) -> Tensor:
    """Return the indices `[batch, time]` of real tokens, in order, then those of the padding."""
    return mask.logical_not().long().argsort(dim=1, stable=True)
