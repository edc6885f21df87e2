"""Long short-term memory.

Paper: Hochreiter and Schmidhuber 1997, "Long Short-Term Memory" (Neural Computation 9(8)); with
    the forget gate of Gers, Schmidhuber and Cummins 2000, and gates named as torch names them.
Equation: (i, f, g, o) = W x_t + b + U h_{t-1} + b'; c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);
    h_t = sigmoid(o) tanh(c_t).
Cost: n d^2; n sequential operations; positions n apart are n steps apart.
Departures: the output is h itself, without a projection, so that the row is the recurrence of
    Table 1 and nothing else. Two biases where one would do; all parameters are drawn uniformly
    from within 1 / sqrt(hidden) of zero, as torch has it; `forget_bias` is added to the forget
    gate's (Jozefowicz et al. 2015, ICML, section 2.2, advise 1). Two directions unless causal
    or asked for one; see `models/kernels/recurrence.py`.
Padding: a padded token is neither read nor written; see `models/kernels/recurrence.py`.
Fast form: `torch.nn.LSTM`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.kernels.recurrence import Recurrence
from models.mixer import State
from models.model_spec import late_knob

_SMALL_SCRATCH = 17160  # bytes, whatever the length


class LSTM(Recurrence):
    """A gated recurrence that carries a cell over time; see the module's note."""

    name = "lstm"
    paper = "Hochreiter and Schmidhuber 1997, Neural Computation 9(8)"
    torch_class = nn.LSTM
    num_gates = 4
    num_state_vectors = 2

    @dataclass(frozen=True, kw_only=True)
    class Config(Recurrence.Config):
        """Knobs of an LSTM.

        Attributes:
            layers: As of any recurrence, as is `is_unidirectional`.
            is_unidirectional: Whether it reads one way where both would do.
            forget_bias: Added to the forget gate's bias as it is drawn; 1 lets a new cell keep
                about three quarters of its content a step, 0 half of it.
        """

        forget_bias: float = late_knob(0.0)

    def make_parameters(self, config: Config) -> None:  # type: ignore[override]
        """Torch's module; the second of four gates is the forget gate."""
        super().make_parameters(config)
        if config.forget_bias:
            with torch.no_grad():
                for name, parameter in self.network.named_parameters():
                    if name.startswith("bias_ih"):
                        parameter[self.hidden : 2 * self.hidden] += config.forget_bias

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Outputs, the layer's below, weights in another layout, and the scratch of oneDNN.

        The scratch is of one direction of one layer: for all tokens inputs and outputs twice, and
        the gates, unless there are several sequences, which are copied instead. Inputs and gates
        are padded as in its `get_good_ld`. Its constant is measured (torch 2.13, float32; the
        same with SSE 4.1, AVX2 and AVX-512).
        """
        self.check_context_length(context_length)
        outputs = self.num_directions * self.hidden
        below = outputs + (self.num_directions - 1) * self.hidden if self.layers > 1 else 0
        scratch = 2 * _padded(self.dim) + 2 * self.hidden
        scratch += _padded(4 * self.hidden) if batch == 1 else self.dim
        weights = 4 * self.hidden * (self.dim + self.hidden)
        return 4.0 * (batch * length * (outputs + below + scratch) + weights) + _SMALL_SCRATCH

    def advance(self, of_input: Tensor, of_output: Tensor, state: State) -> State:
        """The equation of the module's note."""
        i, f, g, o = (of_input + of_output).chunk(4)
        c = state[1]
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def _padded(width: int) -> int:
    """A row of oneDNN's: 16 numbers or a multiple of that, and 16 more where 256 divide it."""
    rounded = -(-width // 16) * 16
    return rounded + 16 if rounded % 256 == 0 else rounded
