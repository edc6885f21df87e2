"""The simple recurrent network.

Paper: Elman 1990, "Finding Structure in Time" (Cognitive Science 14(2)).
Equation: h_t = tanh(W x_t + b + U h_{t-1} + b').
Cost: n d^2; n sequential operations; positions n apart are n steps apart.
Departures: tanh replaces the paper's logistic function, as is usual today. The paper truncates the
    gradient after one step; here it flows through all steps. The output is h itself, without the
    paper's output layer, so that the mixer is exactly the recurrence of Table 1. There are two
    biases, as in torch, although one would suffice. There are two directions unless the mixer is
    causal or unidirectional; see `models/kernels/recurrence.py`.
Padding: padded tokens are skipped; see `models/kernels/recurrence.py`.
Fast form: `torch.nn.RNN`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bakeoff.models.kernels.recurrence import Recurrence
from bakeoff.models.mixer import State


class RNN(Recurrence):
    """Recurrence without gates; see the module docstring."""

    name = "rnn"
    paper = "Elman 1990, Cognitive Science 14(2)"
    torch_class = nn.RNN
    num_gates = 1

    def advance(self, of_input: Tensor, of_output: Tensor, state: State) -> State:
        """Return the next state, by the equation in the module docstring."""
        return (torch.tanh(of_input + of_output),)
