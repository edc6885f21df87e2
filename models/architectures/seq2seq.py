"""An encoder-decoder whose decoder reads the source through one vector of fixed size.

Papers: Sutskever, Vinyals and Le 2014, "Sequence to Sequence Learning with Neural Networks"
    (arXiv:1409.3215); Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder
    for Statistical Machine Translation" (arXiv:1406.1078).

    knob                  Sutskever et al.       Cho et al.
    cell                  lstm                   cho_gru
    summary               states                 context
    readout               linear                 maxout
    is_source_reversed    True                   False
    uniform_range         0.08                   None, see below
    depth                 4                      1

Sutskever et al. (section 2, the defaults here): embedding -> depth x LSTM; the last (h, c) of every
    layer initialises the same layer of the decoder, which has its own parameters and reads nothing
    else of the source: embedding -> depth x LSTM -> logits. The source, not the target, is reversed
    (section 3.3). All parameters are drawn from uniform(-0.08, 0.08) (section 3.4).
Cho et al. (section 2.3 and appendix A): one layer of r = sigmoid(W_r e + U_r h), z = sigmoid(W_z e
    + U_z h), h <- z h + (1 - z) tanh(W e + U (r * h)), where e embeds the token. c = tanh(V h_N) of
    the last h of the source; the decoder's h starts as tanh(V' c), and c enters its candidate and
    both gates at every step, as C c, C_r c and C_z c. Logits are G s with s_i = max(s'_{2i-1},
    s'_{2i}) and s' = O_h h + O_y e + O_c c, where h has read y_{t-1}, and e embeds it.
Departures from Sutskever et al.: torch's LSTM, with two biases to each gate and without the
    peepholes of Graves 2013 (arXiv:1308.0850), which they cite. They do not say whether the logits
    have a bias, and their 384 million parameters fit both cases; here they have one.
Departures from Cho et al.: they print no biases; here each gate, s' and the logits have one. A
    start symbol replaces their y_0 of zeros. G is one matrix, theirs a product of two; e is as wide
    as h, theirs has 100 numbers for 1,000, and O_y reads e, in print the word itself. They draw
    from normal(0, 0.01^2), recurrent matrices orthogonal; uniform_range=None keeps torch's
    initialisation. The reset gate acts before the product in the decoder too, and not on C c, as in
    their code (GroundHog); `torch.nn.GRU` (cell="gru") applies it to U h + b, which is a different
    function.
Several layers with summary="context", which neither paper has: c is computed from the top layer's
    h, enters the bottom layer of the decoder, and each of its layers starts as tanh(V'_l c). The
    cells of an LSTM then start as zeros.
Padding: padded tokens of the source are not read, at any position: real ones move to the front, in
    the order in which they are read, so that reversal leaves padding at the end. A source that is
    all padding leaves the states at zeros. Padding of the target must follow its tokens.
Fast form: `torch.nn.LSTM` and `torch.nn.GRU`, by `read_padded` if a source is padded; a loop over
    time for `cho_gru`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from bakeoff.models.architecture import LOOP
from bakeoff.models.architectures.encoder_decoder import EncoderDecoder
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.kernels.recurrence import read_padded, run
from bakeoff.models.model_spec import ModelSpec

States = tuple[Tensor, ...]


@dataclass(frozen=True)
class SourceSummary:
    """State of the decoder, before its first token and after each.

    Attributes:
        states: States of its layers: h and, for an LSTM, the cells, each `[batch, depth, dim]`.
        context: c, `[batch, dim]`, or `[batch, 0]` if only the states are passed on.
    """

    states: States
    context: Tensor


class ChoGRULayer(nn.Module):
    """One layer of the recurrence of Cho et al.; see the module's note."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(input_size, 3 * hidden_size)
        self.gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x: Tensor, h: Tensor, is_read: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return all outputs `[batch, time, hidden]` and the last one `[batch, hidden]`."""
        outputs = []
        for t, of_input in enumerate(self.of_input(x).unbind(dim=1)):
            new = self.advance(of_input, h)
            h = new if is_read is None else torch.where(is_read[:, t, None], new, h)
            outputs.append(h)
        return torch.stack(outputs, dim=1), h

    def advance(self, of_input: Tensor, h: Tensor) -> Tensor:
        """Return the next h `[batch, hidden]`; `of_input` is `[batch, 3 * hidden]`."""
        x_r, x_z, x_n = of_input.chunk(3, dim=-1)
        h_r, h_z = self.gates(h).chunk(2, dim=-1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        return z * h + (1 - z) * torch.tanh(x_n + self.candidate(r * h))


class ChoGRU(nn.Module):
    """A stack of layers with the recurrence of Cho et al."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.layers = nn.ModuleList(ChoGRULayer(size, hidden_size) for size in sizes)
        self.hidden_size = hidden_size

    def forward(
        self, x: Tensor, h: Tensor | None = None, is_read: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return outputs `[batch, time, hidden]` and last states `[layers, batch, hidden]`.

        Args:
            x: `[batch, time, input]`.
            h: Initial states, `[layers, batch, hidden]`, or None for zeros.
            is_read: `[batch, time]`, False at tokens that leave the states unchanged.
        """
        if h is None:
            h = x.new_zeros(len(self.layers), len(x), self.hidden_size)
        last = []
        for layer, start in zip(self.layers, h.unbind(), strict=True):
            x, end = layer(x, start, is_read)
            last.append(end)
        return x, torch.stack(last)


class Seq2Seq(EncoderDecoder):
    """Target `[batch, time]`, source `[batch, time2]` encoded as one vector -> logits of tokens."""

    name = "seq2seq"
    takes = ("dim", "depth")
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs; defaults are those of Sutskever et al., and the module's note has both papers'.

        Attributes:
            cell: The recurrence: torch's `lstm` or `gru`, or `cho_gru`, whose reset gate acts
                before the product.
            summary: Part of the source that the decoder reads: the last `states` of all layers,
                once, or one vector c, the `context`, which gives the initial states and enters each
                step.
            readout: Map to the logits: a `linear` map of the top layer's output, or of `maxout`
                units that also read the last token, and c if there is one.
            is_source_reversed: Whether the source is read from its last token to its first.
            uniform_range: Bound r of uniform(-r, r), from which all parameters are drawn, or None
                to keep torch's initialisation.
        """

        cell: Literal["lstm", "gru", "cho_gru"] = "lstm"
        summary: Literal["states", "context"] = "states"
        readout: Literal["linear", "maxout"] = "linear"
        is_source_reversed: bool = True
        uniform_range: float | None = 0.08

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        limit = config.uniform_range
        if limit is not None and limit <= 0:
            raise ModelError(f"{cls.name}: uniform_range={limit} is not above 0, nor None")

    @classmethod
    def sequential_operations(cls, spec: ModelSpec) -> int:
        """Return the number of operations that run one after another for each token."""
        return 2 * spec.depth * (LOOP if spec.settings.get("cell") == "cho_gru" else 1)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec, dim, readout = self.spec, self.spec.dim, self.config.readout
        has_context = self.config.summary == "context"
        if readout == "maxout" and dim % 2:
            raise ModelError(f"{self.name}: readout='maxout' needs an even dim, not dim={dim}")
        self.read_size = 2 * dim if has_context else dim  # a target token, with c if there is one
        with seeds.part("source_embedding"):
            self.source_embedding = nn.Embedding(spec.others["context"].size, dim)
        with seeds.part("embedding"):
            self.embedding = nn.Embedding(spec.input_size, dim)
        with seeds.part("encoder"):
            self.encoder = self._recurrence(dim)
        with seeds.part("decoder"):
            self.decoder = self._recurrence(self.read_size)
        if has_context:
            with seeds.part("summary"):
                self.to_context = nn.Linear(dim, dim, bias=False)
                self.to_start = nn.Linear(dim, spec.depth * dim, bias=False)
        if readout == "maxout":
            with seeds.part("readout"):
                self.readout = nn.Linear(dim + self.read_size, dim)
        with seeds.part("head"):
            self.head = nn.Linear(dim // 2 if readout == "maxout" else dim, spec.output_size)

    def redraw(self, seeds: PartSeeds) -> None:
        """Redraw all parameters uniformly if so configured, each part from its own stream."""
        limit = self.config.uniform_range
        if limit is None:
            return
        for name, part in self.named_children():
            with seeds.part(f"uniform {name}"):
                for parameter in part.parameters():
                    nn.init.uniform_(parameter, -limit, limit)

    def _recurrence(self, input_size: int) -> nn.Module:
        sizes = {"input_size": input_size, "hidden_size": self.spec.dim}
        if self.config.cell == "cho_gru":
            return ChoGRU(**sizes, num_layers=self.spec.depth)
        kind = nn.LSTM if self.config.cell == "lstm" else nn.GRU
        return kind(**sizes, num_layers=self.spec.depth, batch_first=True)

    def decoded(
        self, inputs: Tensor, mask: Tensor | None, context: Tensor, context_mask: Tensor | None
    ) -> Tensor:
        """Return the logits, `[batch, time, output_size]`."""
        read = inputs if mask is None else inputs.masked_fill(~mask, 0)
        return self._read(read, self.encode(context, context_mask))[0]

    def encode(self, context: Tensor, context_mask: Tensor | None = None) -> SourceSummary:
        """Return the initial state of the decoder; see `forward`."""
        states = self._last_states(context, context_mask)
        top = states[0][:, -1]
        if self.config.summary == "states":
            return SourceSummary(states, top[:, :0])
        c = torch.tanh(self.to_context(top))
        start = torch.tanh(self.to_start(c)).view(len(c), self.spec.depth, self.spec.dim)
        return SourceSummary((start, *map(torch.zeros_like, states[1:])), c)

    def step(self, tokens: Tensor, state: SourceSummary) -> tuple[Tensor, SourceSummary]:
        """Read one token `[batch]` of each target; see `LanguageModel.step`."""
        logits, after = self._read(tokens.unsqueeze(1), state)
        return logits.squeeze(1), after

    def _last_states(self, context: Tensor, mask: Tensor | None) -> States:
        """Return the encoder's states `[batch, depth, dim]` after the last token read."""
        if self.config.is_source_reversed:
            context, mask = context.flip(1), None if mask is None else mask.flip(1)
        if mask is None or len(mask) == 0:  # an empty batch cannot be packed
            return _batch_first(run(self.encoder, self.source_embedding(context))[1])
        order = mask.logical_not().long().argsort(dim=1, stable=True)  # padding comes last
        x = self.source_embedding(context.masked_fill(~mask, 0).gather(1, order))
        num_real = mask.sum(dim=1)
        if self.config.cell == "cho_gru":
            return _batch_first(self.encoder(x, is_read=mask.gather(1, order))[1])
        # A sequence that is all padding reads one token; its states are zeroed afterwards.
        is_read = (num_real > 0).view(-1, 1, 1)
        _, last = read_padded(cast("nn.RNNBase", self.encoder), x, num_real)
        return tuple(torch.where(is_read, each, 0.0) for each in _batch_first(last))

    def _read(self, tokens: Tensor, state: SourceSummary) -> tuple[Tensor, SourceSummary]:
        """Return the logits of target tokens `[batch, time]`, and the state after them."""
        c = state.context.unsqueeze(1).expand(-1, tokens.shape[1], -1)
        read = torch.cat([self.embedding(tokens), c], dim=-1)
        start = tuple(each.transpose(0, 1).contiguous() for each in state.states)
        hidden, last = run(self.decoder, read, start if len(start) > 1 else start[0])
        after = SourceSummary(_batch_first(last), state.context)
        if self.config.readout == "maxout":
            pairs = self.readout(torch.cat([hidden, read], dim=-1)).unflatten(-1, (-1, 2))
            hidden = pairs.max(dim=-1).values
        return self.head(hidden), after

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs; the source has its maximum length unless one is given.

        Every token of the source counts, and every step of the target maps c again.
        """
        dim, depth = self.spec.dim, self.spec.depth
        source = self.source_length(context_length)
        gates = 4 if self.config.cell == "lstm" else 3
        above = dim + 2 * dim * (depth - 1)  # h of the bottom layer, h and input of those above
        products = gates * dim * (source * (dim + above) + length * (self.read_size + above))
        if self.config.summary == "context":
            products += (1 + depth) * dim**2
        if self.config.readout == "maxout":
            products += length * self.readout.weight.numel()
        return 2.0 * batch * (products + length * self.head.weight.numel())


def _batch_first(states: Tensor | States) -> States:
    """Return one or several states `[layers, batch, dim]` as `[batch, layers, dim]`."""
    several = states if isinstance(states, tuple) else (states,)
    return tuple(each.transpose(0, 1) for each in several)
