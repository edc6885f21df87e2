"""A recurrent captioner: an image in, a sentence out, with or without attention to the image.

Papers: Xu et al. 2015, "Show, attend and tell" (arXiv:1502.03044), sections 3.1, 4.1 and 4.2;
    without attention, Vinyals et al. 2015, "Show and tell" (arXiv:1411.4555).
Image: a_i are the vectors of the last map of a residual network, position by position; see
    `bakeoff.models.vision.residual_network`.
Equations, by `attention`: h_0 = tanh(W_1 mean a), c_0 = tanh(W_2 mean a); then for each word y
    e_i = u' tanh(W_a a_i + W_h h + b), alpha = softmax(e)
    z   = sigmoid(w' h) sum_i alpha_i a_i       soft; the gate is `has_gate` (section 4.2.1)
        = sigmoid(w' h) a_s with s from alpha   hard
    h, c = LSTM([E y; z], h, c), and logits L_o tanh(E y + L_h h + L_z z), with dropout before and
    after the tanh. The first y is not a word: its E y is zero, as in the authors' code.
    none   there is no z: the decoder reads the image through h_0 and c_0 only.
Penalty of the doubly stochastic form (equation 14), for soft and hard attention: lambda sum_i (1 -
    sum_t alpha_ti)^2 per image, over the steps with a target, the end included. With T such steps
    and L positions the sums over time have the mean T / L, and cannot all be 1. In training an
    image is weighted by its number of words, as in its likelihood.
Hard attention: s is drawn once for each image and word; with probability one half a batch uses soft
    attention instead. The choice is trained by `bakeoff.models.score_function`. Evaluation uses
    the soft mean, as in the paper's code.
Departures: the map is not from a network trained on ImageNet, but is trained with the rest, its
    positions mapped linearly to dim. Biases are those of torch's maps. Show and tell reads the
    image as the first word; here it sets the initial state, so that the two models differ in their
    attention only. The authors average the penalty over images, since each of their batches has
    captions of one length.
Padding: it follows the words. Fast form: none; the model loops over words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from bakeoff.models.architecture import LOOP, Architecture, Part
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds, linear_map, scaled_normal
from bakeoff.models.interface import PENALTY, Answer, InputKind, Outputs
from bakeoff.models.model_spec import ModelSpec, config_from_knobs
from bakeoff.models.score_function import BASELINE, ENTROPY, LOG_PROBABILITY
from bakeoff.models.vision.residual_network import (
    ResidualConfig,
    ResidualTrunk,
    check_residual,
    why_not_in_parts,
)

_SOFT_SHARE = 0.5  # share of batches that hard attention reads softly


@dataclass(frozen=True)
class CaptionState:
    """State of the decoder before a word.

    Attributes:
        values: a, `[batch, positions, dim]`.
        keys: W_a a + b, `[batch, positions, dim]`.
        h: Hidden state of the LSTM, `[batch, dim]`.
        c: Cell state of the LSTM, `[batch, dim]`.
        num_words: Number of words read so far; the first one is read as zeros.
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
        """Knobs; dim is the width of words, states and image positions.

        Attributes:
            attention: Kind of attention to the image; see the module's note.
            has_gate: Whether z is multiplied by a gate computed from h.
            doubly_stochastic: Factor of the penalty; lambda of the module's note.
            dropout: Dropout before and after the tanh of the read-out, and of E y.
            blocks: Residual blocks in each stage of the image's network, joined by hyphens.
            stem: First convolution; `7x7` reduces rows and columns to a quarter, `3x3` keeps them.
            encoder_width: Channels of the network's first stage.
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
            """Config of the network that reads the image."""
            return ResidualConfig(blocks=self.blocks, stem=self.stem)

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
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
        """Return why a training step cannot be divided; empty if it can."""
        return why_not_in_parts(num_parts)

    @classmethod
    def why_blind(cls, spec: ModelSpec) -> str:
        """Return why the model has no attention weights; empty if it has some."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        return f"a {cls.name} of attention='none' does not look" if _is_blind(config) else ""

    @classmethod
    def learns_by_score(cls, spec: ModelSpec) -> bool:
        """Return True if the model learns by `bakeoff.models.score_function`."""
        config = config_from_knobs(cls.Config, spec.settings, owner=cls.name)
        return bool(config.attention == "hard")

    @classmethod
    def sequential_operations(cls, spec: ModelSpec) -> int:
        """Return the number of operations that run one after another for each token."""
        return LOOP

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
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
        """Return the rows and columns of the encoded image."""
        return self.network.grid

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor | Outputs:
        """Return the logits of the next word, `[batch, time, output_size]`.

        In training with attention, return `Outputs`, whose auxiliary terms the loss adds.

        Args:
            inputs: The sentence, `[batch, time]`; its first symbol is read as zeros.
            mask: `[batch, time]`, True at real words, or None if all are real.
            context: The image, `[batch, rows, columns, channels]`.
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
        """Return True if this batch samples its attention."""
        is_hard = self.training and self.config.attention == "hard"
        return is_hard and bool(torch.rand(()) >= _SOFT_SHARE)

    def _auxiliary(self, seen: Seen, mask: Tensor | None) -> dict[str, Tensor]:
        """Return the penalty, and the log-probability and entropy of samples, per image."""
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
        """Return alpha of each word, `[batch, time, positions]`."""
        if self.look is None:
            return super().attention_weights()
        return self._read(inputs, mask, context)[1].weights

    def encode(self, context: Tensor) -> CaptionState:
        """Return the state before the first word; see `forward`."""
        values: Tensor = self.map(self.network.places(context))
        h, c = torch.tanh(self.starts(values.mean(dim=1))).chunk(2, dim=-1)
        keys = self.look.keys(values) if self.look else values
        return CaptionState(values=values, keys=keys, h=h, c=c)

    def initial_state(self, batch: int, encoded: CaptionState) -> CaptionState:
        """Return the state before the first word; `encoded` has `batch` images."""
        return encoded

    def step(self, tokens: Tensor, state: CaptionState) -> tuple[Tensor, CaptionState]:
        """Read one word `[batch]` of each sentence; see `LanguageModel.step`."""
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
        """Read a word `[batch, dim]`; return [h; z], the attention, and the next state."""
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
        """Return L_o tanh(E y + L_h h + L_z z)."""
        read = torch.tanh(words + self.readout(self.dropout(features)))
        logits: Tensor = self.head(self.dropout(read))
        return logits

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of image network, attention, recurrence and logits."""
        places, dim = self.network.grid[0] * self.network.grid[1], self.spec.dim
        once = places * self.map.weight.numel() + self.starts.weight.numel()
        each = self.recurrence.weight_ih.numel() + self.recurrence.weight_hh.numel()
        each += self.readout.weight.numel() + self.head.weight.numel()
        if self.look is not None:
            once += places * dim**2
            each += dim**2 + 2 * places * dim + (dim if self.config.has_gate else 0)
        return batch * (self.network.flops() + 2.0 * (once + length * each))

    def state_bytes(self, length: int, context_length: int | None = None) -> int:
        """Return the bytes of h, c, and the image's values and keys, for any length."""
        places = self.network.grid[0] * self.network.grid[1]
        return 4 * self.spec.dim * (2 + 2 * places)


class Seen(NamedTuple):
    """Attention of one word, or of all words of a sentence with an axis of time.

    Attributes:
        weights: alpha, `[batch, positions]`.
        log_probability: Log-probability of the sampled position, `[batch]`; 0 without sampling.
        entropy: Entropy of alpha in nats, `[batch]`; 0 without sampling.
    """

    weights: Tensor
    log_probability: Tensor
    entropy: Tensor


class Look(nn.Module):
    """Attention of a decoder state to the image; see the module's note."""

    def __init__(self, dim: int, config: ShowAttendTell.Config) -> None:
        super().__init__()
        self.keys, self.queries = nn.Linear(dim, dim), linear_map(dim, dim)
        self.scores = linear_map(dim, 1)
        self.gate = nn.Linear(dim, 1) if config.has_gate else None

    def forward(self, state: CaptionState, samples: bool) -> tuple[Tensor, Seen]:
        """Return z `[batch, dim]` and the attention."""
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
