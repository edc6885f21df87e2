"""Long short-term memory.

Paper: Hochreiter and Schmidhuber 1997, "Long Short-Term Memory" (Neural Computation 9(8)); with
    the forget gate of Gers, Schmidhuber and Cummins 2000, and gates named as torch names them.
Equation: (i, f, g, o) = W x_t + b + U h_{t-1} + b'; c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g);
    h_t = sigmoid(o) tanh(c_t).
Cost: n d^2; n sequential operations; positions n apart are n steps apart.
Departures: the output is h itself, without a projection, so that the row is the recurrence of
    Table 1 and nothing else. Causal: one direction, hidden width dim. Not causal: two directions
    of width dim / 2 side by side, so that the output keeps the width dim.
Padding: a padded token is neither read nor written; the recurrence runs over the real tokens as
    if they stood side by side. Packing needs their number on the CPU, which waits for a GPU.
Fast form: `torch.nn.LSTM`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from models.errors import ModelError
from models.mixer import Cost, Mixer, NoKnobs, State, without_padding


class LSTM(Mixer):
    """A gated recurrence over time; see the module's note."""

    name = "lstm"
    paper = "Hochreiter and Schmidhuber 1997, Neural Computation 9(8)"
    family = "recurrent"
    cost = Cost(time="n * d**2", sequential_operations="n", maximum_path_length="n")
    supports_causal = True
    supports_step = True
    is_position_aware = True
    mask_mode = "exact"

    def __init__(self, *, dim: int, max_length: int, is_causal: bool, config: NoKnobs) -> None:
        super().__init__(dim=dim, max_length=max_length, is_causal=is_causal, config=config)
        if not is_causal and dim % 2 != 0:
            raise ModelError(f"{self.name} needs an even dim for its two directions, not dim={dim}")
        self.hidden = dim if is_causal else dim // 2
        self.lstm = nn.LSTM(dim, self.hidden, batch_first=True, bidirectional=not is_causal)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """See `Mixer.forward`; zeros at padded positions."""
        self.check_inputs(x, mask, context)
        if mask is not None:
            return self._forward_real(without_padding(x, mask), mask)
        hidden: Tensor = self.lstm(x)[0]
        return hidden

    def _forward_real(self, x: Tensor, mask: Tensor) -> Tensor:
        """Moves real tokens to the front, runs over them alone, and moves them back."""
        order = mask.logical_not().long().argsort(dim=1, stable=True)
        order = order.unsqueeze(-1).expand_as(x)  # (batch, time, dim)
        # A packed sequence cannot be empty: a sequence of padding alone reads one zero, and its
        # output is dropped below.
        num_real = mask.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(
            x.gather(1, order), num_real, batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=x.shape[1]
        )
        return without_padding(torch.zeros_like(hidden).scatter(1, order, hidden), mask)

    def initial_state(self, batch: int) -> State:
        """Zeros for h and c, `[batch, dim]` each."""
        self.check_steps()
        zeros = self.lstm.get_parameter("weight_hh_l0").new_zeros(batch, self.hidden)
        return zeros, zeros

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One step of the recurrence."""
        self.check_steps()
        h, c = (part.unsqueeze(0) for part in state)
        _, (h, c) = self.lstm(x_t.unsqueeze(1), (h, c))
        return h[0], (h[0], c[0])

    def state_bytes(self, length: int) -> int:
        """Two vectors, h and c: does not grow."""
        self.check_steps()
        return 4 * 2 * self.hidden

    def flops(self, length: int, batch: int = 1) -> float:
        """Four gates from the input and from the last output, in each direction."""
        directions = self.dim // self.hidden
        per_token = 2 * 4 * self.hidden * (self.dim + self.hidden)
        return float(batch * length * directions * per_token)

    def reference(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """One token of one sequence at a time, past padded tokens as if they were not there."""
        outputs = []
        for b in range(x.shape[0]):
            real = [t for t in range(x.shape[1]) if mask is None or bool(mask[b, t])]
            hidden = self._run(x[b], real, suffix="")
            if not self.is_causal:
                backward = self._run(x[b], real[::-1], suffix="_reverse")
                hidden = {t: torch.cat([hidden[t], backward[t]]) for t in real}
            pad = x.new_zeros(self.dim)
            outputs.append(torch.stack([hidden.get(t, pad) for t in range(x.shape[1])]))
        return torch.stack(outputs)

    def _run(self, x: Tensor, times: list[int], suffix: str) -> dict[int, Tensor]:
        """One direction over one sequence `[time, dim]`: outputs at `times`, read in that order."""
        w, u, b, b_hidden = (
            self.lstm.get_parameter(f"{name}_l0{suffix}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = c = x.new_zeros(self.hidden)
        outputs = {}
        for t in times:
            i, f, g, o = (w @ x[t] + b + u @ h + b_hidden).chunk(4)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs[t] = h
        return outputs
