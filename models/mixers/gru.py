"""The gated recurrent unit.

Paper: Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for Statistical
    Machine Translation" (arXiv:1406.1078), section 2.3.
Equation: r = sigmoid(W_r x_t + b_r + U_r h_{t-1} + b'_r);
    z = sigmoid(W_z x_t + b_z + U_z h_{t-1} + b'_z); n = tanh(W_n x_t + b_n + r (U_n h_{t-1} +
    b'_n)); h_t = z h_{t-1} + (1 - z) n. The paper calls n the new hidden state, h with a tilde.
Cost: n d^2; n sequential operations; positions n apart are n steps apart.
Departures: this is the form that torch and cuDNN compute. The reset gate r multiplies U_n h_{t-1} +
    b'_n; in the paper it multiplies h_{t-1} before U_n is applied. The two agree if U_n is diagonal
    and b'_n is zero. The paper has no biases, torch has two per gate. The output is h itself,
    without a projection. There are two directions unless the mixer is causal or unidirectional; see
    `models/kernels/recurrence.py`.
Padding: padded tokens are skipped; see `models/kernels/recurrence.py`.
Fast form: `torch.nn.GRU`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bakeoff.models.kernels.recurrence import Recurrence
from bakeoff.models.mixer import State


class GRU(Recurrence):
    """Gated recurrence whose output is its state; see the module docstring."""

    name = "gru"
    paper = "Cho et al. 2014, arXiv:1406.1078"
    torch_class = nn.GRU
    num_gates = 3

    def advance(self, of_input: Tensor, of_output: Tensor, state: State) -> State:
        """Return the next state, by the equation in the module docstring."""
        (h,) = state
        x_r, x_z, x_n = of_input.chunk(3)
        h_r, h_z, h_n = of_output.chunk(3)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * h_n)
        return (z * h + (1 - z) * n,)
