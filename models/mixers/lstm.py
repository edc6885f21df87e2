"""Long short-term memory.

Paper: Hochreiter and Schmidhuber 1997, "Long Short-Term Memory" (Neural Computation 9(8)); with the
    forget gate of Gers, Schmidhuber and Cummins 2000. Gates have torch's names.
Equation: (i, f, g, o) = W x_t + b + U h_{t-1} + b'; c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);
    h_t = sigmoid(o) tanh(c_t).
Cost: n d^2; n sequential operations; positions n apart are n steps apart.
Departures: the output is h itself, without a projection, so that the mixer is exactly the
    recurrence of Table 1. There are two biases, as in torch, although one would suffice; all
    parameters are drawn uniformly from within 1 / sqrt(hidden) of zero, torch's default.
    `forget_bias` is added to the bias of the forget gate (Jozefowicz et al. 2015, ICML, section
    2.2, recommend 1). There are two directions unless the mixer is causal or unidirectional; see
    `models/kernels/recurrence.py`.
Padding: padded tokens are skipped; see `models/kernels/recurrence.py`.
Fast form: `torch.nn.LSTM`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bakeoff.models.kernels.recurrence import Recurrence
from bakeoff.models.mixer import State
from bakeoff.models.model_spec import late_knob

_SMALL_SCRATCH = 17160  # bytes, independent of the length


class LSTM(Recurrence):
    """Gated recurrence with a memory cell; see the module docstring."""

    name = "lstm"
    paper = "Hochreiter and Schmidhuber 1997, Neural Computation 9(8)"
    torch_class = nn.LSTM
    num_gates = 4
    num_state_vectors = 2

    @dataclass(frozen=True, kw_only=True)
    class Config(Recurrence.Config):
        """Knobs of an LSTM.

        Attributes:
            layers: Number of layers; see `Recurrence.Config`.
            is_unidirectional: Whether a mixer that is not causal reads in one direction only.
            forget_bias: Number added to the initial bias of the forget gate; with 1 a new cell
                keeps about three quarters of its content per step, with 0 half of it.
        """

        forget_bias: float = late_knob(0.0)

    def make_parameters(self, config: Config) -> None:  # type: ignore[override]
        """Create torch's module; add the forget bias to the second of its four gates."""
        super().make_parameters(config)
        if config.forget_bias:
            with torch.no_grad():
                for name, parameter in self.network.named_parameters():
                    if name.startswith("bias_ih"):
                        parameter[self.hidden : 2 * self.hidden] += config.forget_bias

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: outputs, those of the layer below, weights, and oneDNN's scratch.

        The weights are copied to another layout. The scratch is for one direction of one layer:
        inputs and outputs of all tokens twice, and the gates, unless there are several sequences;
        then the inputs are copied instead. Inputs and gates are padded as by oneDNN's
        `get_good_ld`. The constant part is measured (torch 2.13, float32; the same with SSE 4.1,
        AVX2 and AVX-512).
        """
        self.check_context_length(context_length)
        outputs = self.num_directions * self.hidden
        below = outputs + (self.num_directions - 1) * self.hidden if self.layers > 1 else 0
        scratch = 2 * _padded(self.dim) + 2 * self.hidden
        scratch += _padded(4 * self.hidden) if batch == 1 else self.dim
        weights = 4 * self.hidden * (self.dim + self.hidden)
        return 4.0 * (batch * length * (outputs + below + scratch) + weights) + _SMALL_SCRATCH

    def advance(self, of_input: Tensor, of_output: Tensor, state: State) -> State:
        """Return the next output and cell, by the equation in the module docstring."""
        i, f, g, o = (of_input + of_output).chunk(4)
        c = state[1]
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def _padded(width: int) -> int:
    """Return the padded width of a row in oneDNN.

    It is the next multiple of 16, plus 16 if that is a multiple of 256.
    """
    rounded = -(-width // 16) * 16
    return rounded + 16 if rounded % 256 == 0 else rounded
