"""A recurrent captioner: an image in, a sentence out, each word from one look at the image or none.

Papers: Xu et al. 2015, "Show, attend and tell" (arXiv:1502.03044), sections 3.1, 4.1 and 4.2;
    without a look, Vinyals et al. 2015, "Show and tell" (arXiv:1411.4555).
Image: the places a_i of the last map of a residual network, see `models.vision.image_encoder`.
Equation, by `attention`: h_0 = tanh(W_1 mean a), c_0 = tanh(W_2 mean a); then for each word y
    e_i = u' tanh(W_a a_i + W_h h + b), alpha = softmax(e)
    z   = sigmoid(w' h) sum_i alpha_i a_i       soft; the gate is `has_gate` (section 4.2.1)
        = sigmoid(w' h) a_s with s from alpha   hard
    h, c = LSTM([E y; z], h, c), and logits L_o tanh(E y + L_h h + L_z z), with dropout before and
    after the tanh. The first y is no word: its E y is zero, as in the authors' code.
    none   h_0 and c_0 are all that the decoder knows of the image: no z.
Penalty of the doubly stochastic form (equation 14), of both looks: lambda sum_i (1 - sum_t
    alpha_ti)^2 of an image, over the steps at which a word is asked for, the end too. With T of
    these and L places the sums over time have the mean T / L, and cannot all be 1. In training
    an image counts by its number of words, as its likelihood does.
Hard: s is drawn once for an image and word; with the chance of one half a batch is read softly. The
    choice learns by `models.score_function`. In evaluation the soft mean is read, as there.
Departures: the map is not a network trained on ImageNet, but is trained with the rest, its places
    mapped linearly to dim. Biases are those of torch's maps. Show and tell reads the image as the
    first word; here it starts the state, so that the two differ in the look alone. The authors
    average the penalty over images, of which each of their batches has captions of one length.
Padding: of words stands behind. Fast form: none, a loop over words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from models.architecture import LOOP, Architecture, Part
from models.errors import ModelError
from models.initialisation import PartSeeds, linear_map, scaled_normal
from models.interface import PENALTY, Answer, InputKind, Outputs
from models.model_spec import ModelSpec, config_from_knobs
from models.score_function import BASELINE, ENTROPY, LOG_PROBABILITY
from models.vision.residual_network import (
    ResidualConfig,
    ResidualTrunk,
    check_residual,
    why_not_in_parts,
)

_SOFT_SHARE = 0.5  # of the batches of hard attention


@dataclass(frozen=True)
class CaptionState:
    """What the decoder knows before a word.

    Attributes:
        values: a, `[batch, places, dim]`.
        keys: W_a a + b, `[batch, places, dim]`.
        h: `[batch, dim]`, as is c.
        c: Of the LSTM.
        num_words: Read so far; the first is read as none.
    """

    values: Tensor
    keys: Tensor
    h: Tensor
    c: Tensor
    num_words: int = 0


class ShowAttendTell(Architecture):
    """Words `[batch, time]` and an image -> logits `[batch, time, output_size]`."""

    name = "show_attend_tell"
    takes: ClassVar[tuple[Part, ...]] = ("dim",)
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {
        "inputs": ("tokens",),
        "context": ("image",),
    }
    answers: ClassVar[tuple[Answer, ...]] = ("sequence",)
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs; dim is the width of words, states and places.

        Attributes:
            attention: See the module's note.
            has_gate: Whether z is multiplied by a gate of h.
            doubly_stochastic: lambda of the penalty.
            dropout: Before and after the tanh of the read-out, and of E y.
            blocks: Of each stage of the network that reads the image, joined by hyphens.
            stem: `7x7` makes its map a quarter as high and wide, `3x3` leaves it.
            encoder_width: Channels of its first stage.
        """

        attention: Literal["none", "soft", "hard"] = "soft"
        has_gate: bool = True
        doubly_stochastic: float = 1.0
        dropout: float = 0.0
        blocks: str = "1-1"
        stem: Literal["3x3", "7x7"] = "7x7"
        encoder_width: int = 16

        @property
        def residual_network(self) -> ResidualConfig:
            """What reads the image."""
            return ResidualConfig(blocks=self.blocks, stem=self.stem)

    @classmethod
    def check_config(cls, config: Any) -> None:
        """See `Architecture.check_config`."""
        check_residual(config.residual_network, cls.name)
        refused = {
            f"encoder_width={config.encoder_width} is not at least 1": config.encoder_width < 1,
            f"dropout={config.dropout} is not at least 0 and below 1": not 0 <= config.dropout < 1,
            f"doubly_stochastic={config.doubly_stochastic} is not at least 0": (
                config.doubly_stochastic < 0
            ),
            "attention='none' has no gate: has_gate must be False": (
                config.attention == "none" and config.has_gate
            ),
            "attention='none' has no weights: doubly_stochastic must be 0": (
                config.attention == "none" and config.doubly_stochastic > 0
            ),
        }
        for reason, is_refused in refused.items():
            if is_refused:
                raise ModelError(f"{cls.name}: {reason}")

    @classmethod
    def why_whole(cls, spec: ModelSpec, *, num_parts: int, are_parameters_divided: bool) -> str:
        """See `Architecture.why_whole`."""
        return why_not_in_parts(num_parts)

    @classmethod
    def why_blind(cls, spec: ModelSpec) -> str:
        """See `Architecture.why_blind`."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        return f"a {cls.name} of attention='none' does not look" if _is_blind(config) else ""

    @classmethod
    def learns_by_score(cls, spec: ModelSpec) -> bool:
        """See `Architecture.learns_by_score`."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        return bool(config.attention == "hard")

    @classmethod
    def sequential_operations(cls, spec: ModelSpec) -> int:
        """See `Architecture.sequential_operations`."""
        return LOOP

    def build(self, seeds: PartSeeds) -> None:
        """See `Architecture.build`."""
        spec, image, dim = self.spec, self.spec.others["context"], self.spec.dim
        assert image.grid is not None, "an image has rows and columns"
        self.network = ResidualTrunk(
            image.size,
            self.config.encoder_width,
            image.grid,
            self.config.residual_network,
            seeds.within("network"),
            owner=self.name,
        )
        with seeds.part("map"):
            self.map = nn.Linear(self.network.outputs, dim)
        with seeds.part("embedding"):
            self.embedding = nn.Embedding(spec.input_size, dim)
        with seeds.part("starts"):
            self.starts = nn.Linear(dim, 2 * dim)
        self.look: Look | None = None
        if self.config.attention != "none":
            with seeds.part("look"):
                self.look = Look(dim, self.config)
        with seeds.part("recurrence"):
            self.recurrence = nn.LSTMCell(2 * dim if self.look else dim, dim)
        with seeds.part("readout"):
            self.readout = nn.Linear(2 * dim if self.look else dim, dim)
        with seeds.part("head"):
            self.head = nn.Linear(dim, spec.output_size)
            scaled_normal(self.head)
        self.dropout = nn.Dropout(self.config.dropout)
        if self.config.attention == "hard":
            self.register_buffer(BASELINE, torch.zeros(()))

    def source_grid(self) -> tuple[int, int]:
        """See `Architecture.source_grid`."""
        return self.network.grid

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor | Outputs:
        """Logits of the next word, `[batch, time, output_size]`; in training what the loss adds.

        Args:
            inputs: `[batch, time]`, the sentence; what stands first is read as no word.
            mask: `[batch, time]`, True where a word is real; None where all are.
            context: `[batch, rows, columns, channels]`, the image.
        """
        logits, seen = self._read(inputs, mask, context)
        if not self.training or self.look is None:
            return logits
        return Outputs(logits, self._auxiliary(seen, mask))

    def _read(
        self, inputs: Tensor, mask: Tensor | None, context: Tensor | None
    ) -> tuple[Tensor, Seen]:
        if context is None:
            raise ModelError(f"{self.name} needs a context: the image")
        state = self.encode(context)
        words = self._embedded(inputs if mask is None else inputs.masked_fill(~mask, 0))
        words = torch.cat([torch.zeros_like(words[:, :1]), words[:, 1:]], dim=1)
        samples = self._samples()
        features: list[Tensor] = []
        seen: list[Seen] = []
        for word in words.unbind(dim=1):
            feature, found, state = self._advance(word, state, samples)
            features.append(feature)
            seen.append(found)
        logits = self._logits(torch.stack(features, dim=1), words)
        return logits, Seen(*(torch.stack(parts, dim=1) for parts in zip(*seen, strict=True)))

    def _samples(self) -> bool:
        """Whether this batch is read by choices."""
        is_hard = self.training and self.config.attention == "hard"
        return is_hard and bool(torch.rand(()) >= _SOFT_SHARE)

    def _auxiliary(self, seen: Seen, mask: Tensor | None) -> dict[str, Tensor]:
        """The penalty, and what was chosen, of each image."""
        weights, log_probability, entropy = seen
        if mask is not None:
            weights = weights * mask.unsqueeze(-1)
            log_probability, entropy = log_probability * mask, entropy * mask
        found = {}
        if self.config.doubly_stochastic:
            missing = (1 - weights.sum(dim=1)).square().sum(dim=1)
            found[PENALTY] = self.config.doubly_stochastic * missing
        if self.config.attention == "hard":
            found |= {LOG_PROBABILITY: log_probability.sum(1), ENTROPY: entropy.sum(1)}
        return found

    def attention_weights(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor:
        """Alpha of each word, `[batch, time, places]`; see `Architecture.attention_weights`."""
        if self.look is None:
            return super().attention_weights()
        return self._read(inputs, mask, context)[1].weights

    def encode(self, context: Tensor) -> CaptionState:
        """The state before the first word; see `forward`."""
        values: Tensor = self.map(self.network.places(context))
        h, c = torch.tanh(self.starts(values.mean(dim=1))).chunk(2, dim=-1)
        keys = self.look.keys(values) if self.look else values
        return CaptionState(values=values, keys=keys, h=h, c=c)

    def initial_state(self, batch: int, encoded: CaptionState) -> CaptionState:
        """See `Architecture`: `encoded` is of `batch` images."""
        return encoded

    def step(self, tokens: Tensor, state: CaptionState) -> tuple[Tensor, CaptionState]:
        """One word `[batch]` of each sentence; see `LanguageModel.step`."""
        word = self._embedded(tokens)
        word = word if state.num_words else torch.zeros_like(word)
        feature, _, after = self._advance(word, state, samples=False)
        return self._logits(feature, word), after

    def _embedded(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(tokens))
        return embedded

    def _advance(
        self, word: Tensor, state: CaptionState, samples: bool
    ) -> tuple[Tensor, Seen, CaptionState]:
        """[h; z] after a word `[batch, dim]`, where it looked, and the next state."""
        if self.look is None:
            h, c = self.recurrence(word, (state.h, state.c))
            nothing = h.new_zeros(len(h))
            seen, features = Seen(h.new_zeros(len(h), 0), nothing, nothing), h
        else:
            z, seen = self.look(state, samples)
            h, c = self.recurrence(torch.cat([word, z], dim=-1), (state.h, state.c))
            features = torch.cat([h, z], dim=-1)
        return features, seen, replace(state, h=h, c=c, num_words=state.num_words + 1)

    def _logits(self, features: Tensor, words: Tensor) -> Tensor:
        """L_o tanh(E y + L_h h + L_z z)."""
        read = torch.tanh(words + self.readout(self.dropout(features)))
        logits: Tensor = self.head(self.dropout(read))
        return logits

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Image, looks, recurrence and logits, whatever the number of pixels."""
        places, dim = self.network.grid[0] * self.network.grid[1], self.spec.dim
        once = places * self.map.weight.numel() + self.starts.weight.numel()
        each = self.recurrence.weight_ih.numel() + self.recurrence.weight_hh.numel()
        each += self.readout.weight.numel() + self.head.weight.numel()
        if self.look is not None:
            once += places * dim**2
            each += dim**2 + 2 * places * dim + (dim if self.config.has_gate else 0)
        return batch * (self.network.flops() + 2.0 * (once + length * each))

    def state_bytes(self, length: int, context_length: int | None = None) -> int:
        """H and c, and the places with their keys, however many words there are."""
        places = self.network.grid[0] * self.network.grid[1]
        return 4 * self.spec.dim * (2 + 2 * places)


class Seen(NamedTuple):
    """Of one word, or of all.

    Attributes:
        weights: alpha, `[batch, places]`.
        log_probability: Of the place that was chosen, `[batch]`; 0 where none was.
        entropy: Of alpha in nats, `[batch]`; 0 where none was chosen.
    """

    weights: Tensor
    log_probability: Tensor
    entropy: Tensor


class Look(nn.Module):
    """z of a state, and where it comes from; see the module's note."""

    def __init__(self, dim: int, config: ShowAttendTell.Config) -> None:
        super().__init__()
        self.keys, self.queries = nn.Linear(dim, dim), linear_map(dim, dim)
        self.scores = linear_map(dim, 1)
        self.gate = nn.Linear(dim, 1) if config.has_gate else None

    def forward(self, state: CaptionState, samples: bool) -> tuple[Tensor, Seen]:
        """The look z, `[batch, dim]`, and what was seen."""
        pairs = torch.tanh(state.keys + self.queries(state.h).unsqueeze(1))
        wide = torch.promote_types(pairs.dtype, torch.float32)
        weights = self.scores(pairs).squeeze(-1).to(wide).softmax(dim=-1)
        taken, seen = weights, Seen(weights, *2 * (torch.zeros_like(weights[:, 0]),))
        if samples:
            logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
            place = torch.multinomial(weights.detach(), 1)
            taken = torch.zeros_like(weights).scatter(1, place, 1.0)
            seen = Seen(weights, logs.gather(1, place).squeeze(1), -(weights * logs).sum(dim=1))
        z = torch.bmm(taken.unsqueeze(1).to(state.values.dtype), state.values).squeeze(1)
        return z if self.gate is None else torch.sigmoid(self.gate(state.h)) * z, seen


def _is_blind(config: Any) -> bool:
    return bool(config.attention == "none")
