"""The base of recurrent mixers: directions, layers, padding, the state, and the loop over tokens.

A recurrence reads one token at a time and passes a state on to the next. Subclasses differ only in
that step, which each defines in `advance`; the fast form is torch's own module.

Directions: a causal mixer reads left to right with hidden width dim. One that is not causal reads
    in both directions, of width dim / 2 each, and concatenates their outputs, so that the output
    has the width dim; with `is_unidirectional` it reads like a causal one.
Layers: each reads the outputs of the one below, of both directions, with nothing in between.
Padding: padded tokens are skipped; the recurrence runs over the real tokens as if they were
    adjacent. Packing needs their number on the CPU, which would wait for a GPU. On a GPU, in one
    direction, nothing is packed: padding after the real tokens changes none of their outputs.
Precision: on a GPU under autocast, a recurrence computes in the dtype of its weights. There torch
    would run cuDNN in float16, even under autocast to bfloat16, for which no loss is scaled:
    gradients below 6e-8 would become zero, the more the more tokens share a loss. It would also
    cast and pack all weights in every call, which loops over tokens repeat for each token. This
    forgoes cuDNN's persistent kernels, which need float16; `tools/gpu_visit` times both.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bakeoff.models.errors import ModelError
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding


def run(network: nn.Module, x: Any, state: Any = None) -> Any:
    """Return the outputs and the last state of a recurrent module.

    On a GPU under autocast a module of torch runs without it; see the module's docstring.

    Args:
        network: A recurrent module of torch, or another one that is called in the same way.
        x: Its input, a tensor or a packed sequence.
        state: The state before the first token, one tensor or a tuple, or None, which means zeros.
    """
    is_of_torch = isinstance(network, nn.RNNBase)
    if not (is_of_torch and x.is_cuda and torch.is_autocast_enabled("cuda")):
        return network(x, state)
    with torch.autocast("cuda", enabled=False):
        return network(*in_dtype_of(network, x, state))


def in_dtype_of(network: nn.Module, x: Any, state: Any) -> tuple[Any, Any]:
    """Return an input and a state of `run` in the dtype of the module's weights."""
    dtype = next(network.parameters()).dtype
    if isinstance(state, tuple):
        return x.to(dtype), tuple(each.to(dtype) for each in state)
    return x.to(dtype), None if state is None else state.to(dtype)


def read_padded(network: nn.RNNBase, x: Tensor, num_real: Tensor) -> tuple[Tensor, State]:
    """Read sequences of different lengths from left to right, each of at least one token.

    On a CPU they are packed. Packing needs their lengths on the CPU, which would have to wait for a
    GPU; on a GPU they are read token by token instead, and a state is kept once its sequence ends.

    Args:
        network: A recurrent module of torch, in one direction, batch first.
        x: `[batch, time, features]`, with the real tokens in front.
        num_real: `[batch]`, number of real tokens.

    Returns:
        Outputs `[batch, time, hidden]`, zeros at padding; and each vector of the state after the
        last token, `[layers, batch, hidden]`.
    """
    lengths = num_real.clamp(min=1)
    if not _is_packed(x):
        return _read_token_by_token(network, x, lengths)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    outputs, last = run(network, packed)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
    return padded, last if isinstance(last, tuple) else (last,)


def _is_packed(x: Tensor) -> bool:
    """Return True if padding is left out by packing, which needs lengths on the CPU."""
    return x.device.type == "cpu"


def _read_token_by_token(network: nn.RNNBase, x: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
    outputs, given = [], None
    state: State = ()
    for place, token in enumerate(x.unbind(dim=1)):
        output, new = run(network, token.unsqueeze(1), given)
        parts = new if isinstance(new, tuple) else (new,)
        is_real = (lengths > place).view(1, -1, 1)
        pairs = zip(parts, state or parts, strict=True)
        state = tuple(torch.where(is_real, one, before) for one, before in pairs)
        given = state if isinstance(new, tuple) else state[0]
        outputs.append(output.masked_fill(~is_real.transpose(0, 1), 0.0))
    return torch.cat(outputs, dim=1), state


class Recurrence(Mixer):
    """A mixer that reads one token at a time; see the module's docstring.

    Attributes:
        torch_class: Torch's module, which holds all parameters under the mixer's name.
        num_gates: Number of vectors of the hidden width that a step computes from input and last
            output.
        num_state_vectors: Number of vectors of the hidden width in the state.
    """

    family = "recurrent"
    cost = Cost(time="n * d**2", sequential_operations="n", maximum_path_length="n")
    supports_causal = True
    supports_step = True
    is_position_aware = True
    mask_mode = "exact"
    positive_knobs = ("layers",)
    torch_class: ClassVar[type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]]
    num_gates: ClassVar[int]
    num_state_vectors: ClassVar[int] = 1

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of a recurrence.

        Attributes:
            layers: Number of stacked recurrences, each reading the one below.
            is_unidirectional: Whether a mixer that is not causal reads left to right only, with
                hidden width dim, instead of in both directions with dim / 2 each.
        """

        layers: int = 1
        is_unidirectional: bool = False

    def make_parameters(self, config: Config) -> None:
        """Create torch's module, in one direction or both."""
        if self.is_causal and config.is_unidirectional:
            raise ModelError(
                f"{self.name}: is_unidirectional=True is for mixers that are not causal; "
                "a causal one reads left to right anyway"
            )
        self.layers = config.layers
        self.is_unidirectional = self.is_causal or config.is_unidirectional
        self.num_directions = 1 if self.is_unidirectional else 2
        if self.dim % self.num_directions != 0:
            raise ModelError(
                f"{self.name} needs an even dim for its two directions, not dim={self.dim}"
            )
        self.hidden = self.dim // self.num_directions
        network = self.torch_class(
            input_size=self.dim,
            hidden_size=self.hidden,
            num_layers=self.layers,
            batch_first=True,
            bidirectional=not self.is_unidirectional,
        )
        self.add_module(self.name, network)

    @property
    def network(self) -> nn.RNNBase:
        """The module of torch."""
        return cast("nn.RNNBase", self.get_submodule(self.name))

    @abstractmethod
    def advance(self, of_input: Tensor, of_output: Tensor, state: State) -> State:
        """Compute the paper's step from the last state to the next, for `reference`.

        Args:
            of_input: W x_t + b of all gates, one below the other, `[gates * hidden]`.
            of_output: U h_{t-1} + b' of all gates, `[gates * hidden]`.
            state: `num_state_vectors` vectors `[hidden]`; the first is the last output h_{t-1}.
        """

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Read the sequence; outputs are zero at padded positions. See `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        if mask is not None and len(x) > 0:  # an empty batch cannot be packed, and has no padding
            return self._forward_real(without_padding(x, mask), mask)
        hidden: Tensor = run(self.network, x)[0]
        return hidden

    def _forward_real(self, x: Tensor, mask: Tensor) -> Tensor:
        """Move real tokens to the front, run over them alone, and move them back."""
        order = mask.logical_not().long().argsort(dim=1, stable=True)
        order = order.unsqueeze(-1).expand_as(x)  # (batch, time, dim)
        if self.is_unidirectional and not _is_packed(x):
            return self._moved_back(run(self.network, x.gather(1, order))[0], order, mask)
        # A packed sequence cannot be empty: a sequence of padding alone reads one zero, and its
        # output is dropped below.
        num_real = mask.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(
            x.gather(1, order), num_real, batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(
            run(self.network, packed)[0], batch_first=True, total_length=x.shape[1]
        )
        return self._moved_back(hidden, order, mask)

    def _moved_back(self, hidden: Tensor, order: Tensor, mask: Tensor) -> Tensor:
        return without_padding(torch.zeros_like(hidden).scatter(1, order, hidden), mask)

    def initial_state(self, batch: int) -> State:
        """Return zeros, `[batch, layers, dim]` for each vector of the state."""
        self.check_steps()
        zeros = self.network.get_parameter("weight_hh_l0").new_zeros(batch, self.layers, self.dim)
        return (zeros,) * self.num_state_vectors

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Run one step of every layer."""
        self.check_steps()
        # Torch expects the layers first, and one tensor for one vector, a tuple for several.
        last = tuple(part.transpose(0, 1).contiguous() for part in state)
        output, new = run(self.network, x_t.unsqueeze(1), last if len(last) > 1 else last[0])
        parts = cast("State", new if len(last) > 1 else (new,))
        return output.squeeze(1), tuple(part.transpose(0, 1) for part in parts)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the state vectors of all layers; does not grow with the length."""
        self.check_steps()
        return 4 * self.num_state_vectors * self.layers * self.dim

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of all gates, from input and last output, per direction and layer."""
        self.check_context_length(context_length)
        per_step = 2 * self.num_gates * self.hidden * (self.dim + self.hidden)
        return float(batch * length * self.layers * self.num_directions * per_step)

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: gates of a direction, and its outputs both separate and stacked.

        With two directions, the outputs of both are held and concatenated at the end. Before that,
        while the gates of the second are computed, those of the first are still held, and in the
        bottom layer also a copy of several sequences. Other layers hold the outputs of the one
        below.
        """
        self.check_context_length(context_length)
        vector = 4 * batch * length * self.hidden
        gates, outputs = self.num_gates * vector, 2 * vector
        below = self.num_directions * vector if self.layers > 1 else 0
        if self.num_directions == 1:
            return float(gates + outputs + below)
        second = 2 * gates + outputs
        bottom = second + (2 * vector if batch > 1 else 0)
        return float(max(gates + 2 * outputs + 2 * vector + below, second + below, bottom))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Read one token at a time, skipping padded tokens."""
        tokens = {t: x[t] for t in seen}
        for layer in range(self.layers):
            tokens = self._one_layer(tokens, layer)
        pad = x.new_zeros(self.dim)
        return torch.stack([tokens.get(t, pad) for t in range(len(x))])

    def _one_layer(self, tokens: dict[int, Tensor], layer: int) -> dict[int, Tensor]:
        """Map the tokens `[dim]` of one sequence, by time, to outputs `[dim]` at these times."""
        forward = self._one_direction(tokens, f"l{layer}")
        if self.is_unidirectional:
            return forward
        backward = self._one_direction(dict(reversed(tokens.items())), f"l{layer}_reverse")
        return {t: torch.cat([forward[t], backward[t]]) for t in tokens}

    def _one_direction(self, tokens: dict[int, Tensor], suffix: str) -> dict[int, Tensor]:
        """Return outputs `[hidden]` by time; tokens are read in the order of the dictionary."""
        w, b, u, b_u = (
            self.network.get_parameter(f"{name}_{suffix}")
            for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        )
        state: State = (w.new_zeros(self.hidden),) * self.num_state_vectors
        outputs = {}
        for t, x_t in tokens.items():
            state = self.advance(w @ x_t + b, u @ state[0] + b_u, state)
            outputs[t] = state[0]
        return outputs
