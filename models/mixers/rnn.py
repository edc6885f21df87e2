"""The simple recurrent network.

Paper: Elman 1990, "Finding Structure in Time" (Cognitive Science 14(2)).
Equation: h_t = tanh(W x_t + b + U h_{t-1} + b').
Cost: n d^2; n sequential operations; positions n apart are n steps apart.
Departures: tanh in place of the paper's logistic function, as has been usual since. The paper
    cuts the gradient off after one step back; here it flows through all of them. The output is h
    itself, without the paper's output layer, so that the row is the recurrence of Table 1 and
    nothing else. Two biases where one would do, as torch has it. Two directions unless causal or
    asked for one; see `models/kernels/recurrence.py`.
Padding: a padded token is neither read nor written; see `models/kernels/recurrence.py`.
Fast form: `torch.nn.RNN`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.kernels.recurrence import Recurrence
from models.mixer import State


class RNN(Recurrence):
    """A recurrence without gates; see the module's note."""

    name = "rnn"
    paper = "Elman 1990, Cognitive Science 14(2)"
    torch_class = nn.RNN
    num_gates = 1

    def advance(self, of_input: Tensor, of_output: Tensor, state: State) -> State:
        """The equation of the module's note."""
        return (torch.tanh(of_input + of_output),)
