"""Recurrent encoder-decoders whose decoder attends to the source.

Papers: Bahdanau, Cho and Bengio 2014, "Neural Machine Translation by Jointly Learning to Align and
    Translate" (arXiv:1409.0473); Luong, Pham and Manning 2015, "Effective Approaches to
    Attention-based Neural Machine Translation" (arXiv:1508.04025).

    knob                  Bahdanau et al.        Luong et al.
    form                  bahdanau               luong
    score                 additive               dot, general, concat, location
    reach                 global                 global, local_m, local_p
    has_input_feeding     (not in this form)     True in their best rows
    is_source_reversed    False                  True
    depth                 1                      4

form="bahdanau" (appendix A, the default). The encoder is bidirectional, h_j = [ahead; back]. A unit
    is s' = (1 - z) s + z tanh(W x + U (r * s)), r = sigmoid(W_r x + U_r s), z = sigmoid(W_z x + U_z
    s). The decoder starts at s_0 = tanh(W_s h_1 back). In each step a score of s_{i-1} and h_j
    gives the weights of c_i = sum_j a_ij h_j, which enters candidate and both gates together with
    the last token, as C c_i, without bias. Logits are W_o t_i with t_i = max(t'_{2k-1}, t'_{2k})
    and t' = U_o s_{i-1} + V_o y_{i-1} + C_o c_i (section A.2.2, and their code; equation 4 has
    s_i).
form="luong" (section 3). Stacked LSTMs; the last (h, c) of every layer initialises the same layer
    of the decoder. The new state h_t of the top layer gives the weights of c_t; h~_t = tanh(W_c
    [c_t; h_t]), and logits are W_s h~_t. With input feeding (section 3.3) the bottom layer reads
    h~_{t-1} together with the token, zeros at the start. Without it, all steps run at once.
Scores and windows: see `models/kernels/alignment.py`.

Departures: all widths are dim (each direction of Bahdanau's encoder too, so that h_j has 2 dim),
    and t has dim / 2. Units have one bias for each gate; torch's LSTM has two. Maps start at
    normal(0, 1 / inputs), Bahdanau's recurrent ones orthogonal as in the paper, LSTMs with torch's
    initialisation; the papers' normal(0, 0.01^2) and uniform(-0.1, 0.1) suit a width of 1,000.
    There is no dropout.
Several layers with form="bahdanau", which the paper does not have: each encoder layer reads both
    directions of the one below; the bottom decoder layer reads c_i, the top one is s above, and
    each starts as tanh(W_s h_1 back), with its own W_s.
Padding: padded tokens of the source are not read, at any position: real ones move to the front. A
    source that is all padding is read as one token of zeros, and gives contexts of zeros. Padding
    of the target must follow its tokens.
Fast form: `torch.nn.LSTM`, by `read_padded` if a source is padded; loops over time in Bahdanau's
    form and with input feeding. A step is the teacher-forced form over one token.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from bakeoff.models.architecture import LOOP
from bakeoff.models.architectures.encoder_decoder import EncoderDecoder
from bakeoff.models.embedding import TokenEmbedding
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import Initialisation, PartSeeds, linear_map, redraw
from bakeoff.models.kernels.alignment import Alignment, Reach, Score, Source
from bakeoff.models.kernels.gated_unit import GatedUnit, TorchUnit, Turn, real_first
from bakeoff.models.kernels.recurrence import read_padded, run
from bakeoff.models.model_spec import ModelSpec, config_from_knobs

_WINDOW = 10  # section 4.1 of Luong et al.


@dataclass(frozen=True)
class AttentiveState:
    """State of the decoder, before its first token and after each.

    Attributes:
        source: The source that it attends to.
        vectors: Bahdanau's (s,); Luong's (h, c), with input feeding (h, c, h~). h~ is
            `[batch, dim]`, the others are `[batch, depth, dim]`.
        num_tokens: Number of tokens read; the position of the next one.
    """

    source: Source
    vectors: tuple[Tensor, ...]
    num_tokens: int = 0


class AttentiveSeq2Seq(EncoderDecoder):
    """Target and source -> logits `[batch, time, output_size]`, by recurrences and attention."""

    name = "attentive_seq2seq"
    takes = ("dim", "depth")
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs.

        Attributes:
            form: Paper that the encoder and the decoder follow; see the module's note.
            score: Score of a decoder state and a source state; `dot` needs form="luong".
            reach: Range of attention: the whole source (`global`), a window that moves with the
                target (`local_m`), or one with a predicted centre (`local_p`).
            window: Positions on each side of the centre if `reach` is local; the paper's D.
            has_input_feeding: Whether Luong's decoder reads the last h~ together with the token.
            is_source_reversed: Whether the encoder reads the source from its end; positions of
                local attention and of `location` remain those of the original source.
            encoder_reset: Whether the reset gate of Bahdanau's encoder acts `before` the product
                with U, as in the paper, or `after` it as in `torch.nn.GRU`, which is faster.
            initialisation: Initialisation of all linear maps but those of additive scores, which
                start near zero; see `bakeoff.models.initialisation`.
        """

        form: Literal["bahdanau", "luong"] = "bahdanau"
        score: Score = "additive"
        reach: Reach = "global"
        window: int = _WINDOW
        has_input_feeding: bool = False
        is_source_reversed: bool = False
        encoder_reset: Literal["before", "after"] = "before"
        initialisation: Initialisation = "scaled_normal"

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        is_luong = config.form == "luong"
        refused = {
            f"window={config.window} is not at least 1": config.window < 1,
            f"window={config.window} needs reach='local_m' or 'local_p'": (
                config.window != _WINDOW and config.reach == "global"
            ),
            "score='dot' needs form='luong': states of form='bahdanau' differ in width": (
                config.score == "dot" and not is_luong
            ),
            "has_input_feeding=True needs form='luong': form='bahdanau' feeds contexts anyway": (
                config.has_input_feeding and not is_luong
            ),
            "encoder_reset='after' needs form='bahdanau': an LSTM has no reset gate": (
                config.encoder_reset == "after" and is_luong
            ),
        }
        for reason, is_refused in refused.items():
            if is_refused:
                raise ModelError(f"{cls.name}: {reason}")

    @classmethod
    def sequential_operations(cls, spec: ModelSpec) -> int:
        """Return the number of operations that run one after another for each token."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        is_luong = config.form == "luong"
        decoder = 1 if is_luong and not config.has_input_feeding else LOOP
        return spec.depth * ((1 if is_luong else 2 * LOOP) + decoder)

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec = self.spec
        with seeds.part("embedding"):
            self.embedding = TokenEmbedding(spec.input_size, spec.dim)
        with seeds.part("source_embedding"):
            self.source_embedding = TokenEmbedding(spec.others["context"].size, spec.dim)
        kind = LuongForm if self.config.form == "luong" else BahdanauForm
        self.network = kind(spec, self.config, seeds)
        with seeds.part("head"):
            self.head = linear_map(self.network.num_features, spec.output_size)

    def redraw(self, seeds: PartSeeds) -> None:
        """Redraw the linear maps by the configured initialisation."""
        redraw(self, self.config.initialisation, seeds)

    def decoded(
        self, inputs: Tensor, mask: Tensor | None, context: Tensor, context_mask: Tensor | None
    ) -> Tensor:
        """Return the logits, `[batch, time, output_size]`."""
        features, _ = self._read(inputs, mask, context, context_mask)
        logits: Tensor = self.head(features)
        return logits

    def attention_weights(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the weight of each source token at each step, `[batch, time, time2]`.

        Row t belongs to the step that reads ``inputs[t]`` and predicts the token after it. Weights
        are zero at padding of the source. Arguments and errors are those of `forward`.
        """
        _, weights = self._read(inputs, mask, context, context_mask)
        if context_mask is None:
            return weights
        given_order = real_first(context_mask).argsort(dim=1).unsqueeze(1)
        return weights.gather(2, given_order.expand(-1, weights.shape[1], -1))

    def _read(
        self, inputs: Tensor, mask: Tensor | None, context: Tensor | None, real: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the head's input and the weights, with the real source tokens first."""
        target = self.embedding(inputs, mask)
        source = self.encode(self.source_of(context), real)
        features, weights, _ = self.network(target, source)
        return features, weights

    def encode(self, context: Tensor, context_mask: Tensor | None = None) -> AttentiveState:
        """Return the decoder's initial state, computed once per source; see `forward`."""
        if context_mask is None:
            is_real = torch.ones_like(context, dtype=torch.bool)
            return self.network.encode(self.source_embedding(context), is_real, is_padded=False)
        order = real_first(context_mask)
        tokens, is_real = context.gather(1, order), context_mask.gather(1, order)
        embedded = self.source_embedding(tokens, is_real).masked_fill(~is_real.unsqueeze(-1), 0)
        return self.network.encode(embedded, is_real, is_padded=True)

    def step(self, tokens: Tensor, state: AttentiveState) -> tuple[Tensor, AttentiveState]:
        """Read one token `[batch]` of each target; see `LanguageModel.step`."""
        features, _, after = self.network(self.embedding(tokens.unsqueeze(1)), state)
        return self.head(features.squeeze(1)), after

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs; the source has its maximum length unless one is given."""
        source = self.source_length(context_length)
        head = 2.0 * batch * length * self.head.weight.numel()
        return self.network.flops(length, batch, source) + head


class AttentiveForm(nn.Module, ABC):
    """Encoder and decoder between embeddings and logits.

    Attributes:
        num_features: Width of the head's input.
    """

    num_features: int

    def __init__(self, spec: ModelSpec, config: Any, seeds: PartSeeds, *, value_dim: int) -> None:
        super().__init__()
        self.config = config
        with seeds.part("alignment"):
            self.alignment = Alignment(
                spec.dim,
                value_dim,
                config.score,
                config.reach,
                window=config.window,
                longest=spec.others["context"].length,
            )

    def encode(self, embedded: Tensor, is_real: Tensor, *, is_padded: bool) -> AttentiveState:
        """Return the state before the first token.

        Args:
            embedded: The source, `[batch, time2, dim]`, zeros at padding, which follows the tokens.
            is_real: `[batch, time2]`, True at real tokens.
            is_padded: False if all tokens are real, so that no indices are needed.
        """
        turn = Turn(is_real if is_padded else None)
        is_reversed = self.config.is_source_reversed
        num_real = is_real.sum(dim=1) if is_padded else None
        read = turn(embedded) if is_reversed else embedded
        values, vectors = self.read_source(read, turn, num_real)
        values = turn(values) if is_reversed else values
        return AttentiveState(self.alignment.prepare(values, is_real), vectors)

    @abstractmethod
    def read_source(
        self, embedded: Tensor, turn: Turn, num_real: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return source states `[batch, time2, ...]` and the decoder's initial vectors."""

    @abstractmethod
    def forward(
        self, embedded: Tensor, state: AttentiveState
    ) -> tuple[Tensor, Tensor, AttentiveState]:
        """Read one or more target tokens `[batch, time, dim]`.

        Returns:
            Features `[batch, time, num_features]`, weights `[batch, time, time2]`, the new state.
        """

    @abstractmethod
    def flops(self, length: int, batch: int, source: int) -> float:
        """Return the FLOPs for targets of `length` and sources of `source` tokens."""


class BahdanauForm(AttentiveForm):
    """Encoder and decoder of Bahdanau et al.; see the module's note."""

    def __init__(self, spec: ModelSpec, config: Any, seeds: PartSeeds) -> None:
        dim, depth = spec.dim, spec.depth
        super().__init__(spec, config, seeds, value_dim=2 * dim)
        kind = GatedUnit if config.encoder_reset == "before" else TorchUnit
        self.encoder, self.starts, self.decoder = (nn.ModuleList() for _ in range(3))
        for layer in range(depth):
            for way in ("ahead", "back"):
                with seeds.part(f"encoder.{layer}.{way}"):
                    self.encoder.append(kind(2 * dim if layer else dim, dim))
            with seeds.part(f"decoder.{layer}"):
                self.starts.append(linear_map(dim, dim))
                self.decoder.append(GatedUnit(dim, dim))
        with seeds.part("context"):
            self.of_context = linear_map(2 * dim, 3 * dim)
        self.num_features = max(1, dim // 2)
        with seeds.part("readout"):
            self.readout = linear_map(4 * dim, 2 * self.num_features)

    def read_source(
        self, embedded: Tensor, turn: Turn, num_real: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return source states `[batch, time2, 2 * dim]` and the decoder's initial (s,)."""
        values, units = embedded, cast("list[GatedUnit]", list(self.encoder))
        for ahead, back in zip(units[::2], units[1::2], strict=True):
            backward = turn(back.read(turn(values)))
            values = torch.cat([ahead.read(values), backward], dim=-1)
        starts = [torch.tanh(start(backward[:, 0])) for start in self.starts]
        return values, (torch.stack(starts, dim=1),)

    def forward(
        self, embedded: Tensor, state: AttentiveState
    ) -> tuple[Tensor, Tensor, AttentiveState]:
        """Read target tokens one after another; see `AttentiveForm.forward`."""
        states = list(state.vectors[0].unbind(dim=1))
        last, contexts, weights = [], [], []
        of_inputs = self._units[0].of_input(embedded)
        for i, of_input in enumerate(of_inputs.unbind(dim=1)):
            last.append(states[-1])
            place = state.num_tokens + i
            found = self.alignment(states[-1].unsqueeze(1), state.source, place)
            context, row = (part.squeeze(1) for part in found)
            contexts.append(context)
            weights.append(row)
            states = self._advance(of_input + self.of_context(context), states)
        parts = [torch.stack(last, dim=1), embedded, torch.stack(contexts, dim=1)]
        pairs = self.readout(torch.cat(parts, dim=-1)).unflatten(-1, (-1, 2))
        after = replace(state, vectors=(torch.stack(states, dim=1),), num_tokens=place + 1)
        return pairs.amax(dim=-1), torch.stack(weights, dim=1), after

    @property
    def _units(self) -> list[GatedUnit]:
        return cast("list[GatedUnit]", list(self.decoder))

    def _advance(self, of_input: Tensor, states: list[Tensor]) -> list[Tensor]:
        """Return the next states of all layers, given the bottom layer's input."""
        bottom, *others = self._units
        new = [bottom(of_input, states[0])]
        for unit, s in zip(others, states[1:], strict=True):
            new.append(unit(unit.of_input(new[-1]), s))
        return new

    def flops(self, length: int, batch: int, source: int) -> float:
        """Return the FLOPs for targets of `length` and sources of `source` tokens."""

        def of(*modules: nn.Module) -> int:
            return sum(w.numel() for each in modules for w in each.parameters() if w.dim() == 2)

        per_token = of(self.decoder, self.of_context, self.readout)
        maps = source * of(self.encoder) + of(self.starts) + length * per_token
        attention = self.alignment.flops(length, batch, source)
        return 2.0 * batch * maps + attention + self.alignment.source_flops(source, batch)


class LuongForm(AttentiveForm):
    """Encoder and decoder of Luong et al.; see the module's note."""

    def __init__(self, spec: ModelSpec, config: Any, seeds: PartSeeds) -> None:
        dim, depth = spec.dim, spec.depth
        super().__init__(spec, config, seeds, value_dim=dim)
        self.num_features = dim
        with seeds.part("encoder"):
            self.encoder = nn.LSTM(dim, dim, depth, batch_first=True)
        with seeds.part("decoder"):
            width = 2 * dim if config.has_input_feeding else dim
            self.decoder = nn.LSTM(width, dim, depth, batch_first=True)
        with seeds.part("combine"):
            self.combine = linear_map(2 * dim, dim)

    def read_source(
        self, embedded: Tensor, turn: Turn, num_real: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return source states `[batch, time2, dim]` and the decoder's initial vectors."""
        if num_real is None:
            values, last = run(self.encoder, embedded)
        else:
            values, last = read_padded(self.encoder, embedded, num_real)
        vectors = tuple(part.transpose(0, 1) for part in last)
        if self.config.has_input_feeding:
            vectors = (*vectors, torch.zeros_like(vectors[0][:, -1]))
        return values, vectors

    def forward(
        self, embedded: Tensor, state: AttentiveState
    ) -> tuple[Tensor, Tensor, AttentiveState]:
        """Read target tokens, one after another with input feeding, else all at once."""
        if not self.config.has_input_feeding:
            return self._attend(embedded, state)
        features, weights = [], []
        for token in embedded.unbind(dim=1):
            fed = state.vectors[2]
            read = torch.cat([token, fed], dim=-1).unsqueeze(1)
            feature, row, state = self._attend(read, state)
            state = replace(state, vectors=(*state.vectors, feature.squeeze(1)))
            features.append(feature)
            weights.append(row)
        return torch.cat(features, dim=1), torch.cat(weights, dim=1), state

    def _attend(self, read: Tensor, state: AttentiveState) -> tuple[Tensor, Tensor, AttentiveState]:
        """Run all steps at once on the bottom layer's input; the new state lacks h~."""
        h, c = (part.transpose(0, 1).contiguous() for part in state.vectors[:2])
        hidden, last = run(self.decoder, read, (h, c))
        context, weights = self.alignment(hidden, state.source, state.num_tokens)
        features = torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))
        vectors = tuple(part.transpose(0, 1) for part in last)
        num_tokens = state.num_tokens + read.shape[1]
        return features, weights, AttentiveState(state.source, vectors, num_tokens)

    def flops(self, length: int, batch: int, source: int) -> float:
        """Return the FLOPs for targets of `length` and sources of `source` tokens."""
        encoder, decoder, combine = (
            sum(w.numel() for w in each.parameters() if w.dim() == 2)
            for each in (self.encoder, self.decoder, self.combine)
        )
        maps = source * encoder + length * (decoder + combine)
        attention = self.alignment.flops(length, batch, source)
        return 2.0 * batch * maps + attention + self.alignment.source_flops(source, batch)
