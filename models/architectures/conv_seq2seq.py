"""ConvS2S: an encoder-decoder of gated convolutions, with attention in every layer of the decoder.

Paper: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning" (arXiv:1705.03122),
    section 3.
Embeddings (3.1): the source has e_j = word + learned position, and the target g_i likewise.
Blocks (3.2): h^l = (GLU(W [k tokens of h^(l-1)] + b) + h^(l-1)) sqrt(.5). The encoder's k tokens
    are centred at position i, the decoder's end there. Linear maps lead from embeddings to the
    blocks and back: for the source, the result is the encoder's output z; for the target, it is
    read before the softmax.
Attention (3.3, equations 1 and 2): d = W_d h + b_d + g; a_ij = softmax over j of d_i . z_j;
    c_i = m sqrt(1/m) sum_j a_ij (z_j + e_j), m the source's true length; (h + c) sqrt(.5).
Gradients (3.4): those of z, but not of e in the sum, are divided by the number of attentions. This
    does not change the outputs.
Weights (3.5; p is the share that dropout keeps of the inputs, n their number): normal with mean 0
    and variance 4 p / n before a GLU, p / n elsewhere; embeddings have standard deviation 0.1;
    biases are zero. W = gain v / |v| for each output, everywhere but in tables (4.2; Salimans and
    Kingma 2016, arXiv:1602.07868). Gains start at |v|.
Departures: embeddings and blocks have the same width. The text pads the decoder by k - 1 positions
    on both sides and removes k at the end, which leaves one too few; here k - 1 are removed. A
    layer attends after its residual sum, as in the text, without a map of c; the authors' code
    attends before it, maps c, multiplies z + e and d by sqrt(.5) and divides gradients by twice the
    number. Dropout (of embeddings, of inputs of convolutions, before the softmax) is 0 by default.
Padding: padded tokens enter convolutions as zeros, like those outside the sequence, get no
    attention, and do not count in m. If the source is all padding, attention gives zeros.

The step form keeps the last k - 1 inputs of each convolution of the decoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.architectures.encoder_decoder import EncoderDecoder
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.mixer import without_padding
from bakeoff.models.positions.absolute import LearnedPosition

_HALF = math.sqrt(0.5)  # keeps the variance of a sum of two
Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class ConvSource:
    """The encoded source, as the decoder's attention reads it.

    Attributes:
        keys: z, `[batch, time2, dim]`.
        values: z + e, `[batch, time2, dim]`.
        is_real: `[batch, time2]`, False at padding.
    """

    keys: Tensor
    values: Tensor
    is_real: Tensor


@dataclass(frozen=True)
class DecoderMaps:
    """Maps of the decoder, for a whole target or for one position of it.

    Attributes:
        enter: Map of the embeddings.
        convolutions: Convolution of each layer, `[batch, time + k - 1, dim]` to `[batch, time, 2 *
            dim]`.
        queries: Query map of each layer that attends, by its index from 0.
        leave: Map of the last layer's output.
        head: Map to the logits.
    """

    enter: Map
    convolutions: tuple[Map, ...]
    queries: Mapping[int, Map]
    leave: Map
    head: Map


@dataclass(frozen=True)
class ConvDecodingState:
    """State of the decoder after some tokens.

    Attributes:
        num_tokens: Number of tokens read; the position of the next one.
        windows: The last k - 1 inputs of each convolution, `[batch, k - 1, dim]`.
        source: The encoded source.
        maps: Maps of the decoder, whose weights are normalised once, not at every token.
    """

    num_tokens: int
    windows: tuple[Tensor, ...]
    source: ConvSource
    maps: DecoderMaps


class ConvSeq2Seq(EncoderDecoder):
    """Target `[batch, time]` and source `[batch, time2]` -> logits `[batch, time, output_size]`."""

    name = "conv_seq2seq"
    takes = ("dim", "depth")
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs; the depth is that of the encoder and of the decoder.

        Attributes:
            kernel_size: Number of tokens that a convolution reads.
            attending: Layers of the decoder with attention, counted from 1 and joined by commas, as
                in Table 5 of the paper; `all` is every layer.
            weight_norm: Whether weights are products of gains and directions; affects training
                only.
            dropout: Dropout probability of the embeddings, of the inputs of convolutions, and of
                the input of the output matrix; the paper's is 0.1 or 0.2.
        """

        kernel_size: int = 3
        attending: str = "all"
        weight_norm: bool = True
        dropout: float = 0.0

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        if config.kernel_size < 1:
            raise ModelError(f"{cls.name}: kernel_size={config.kernel_size} is not at least 1")
        if not 0 <= config.dropout < 1:
            raise ModelError(f"{cls.name}: dropout={config.dropout} is not at least 0 and below 1")

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec, source = self.spec, self.spec.others["context"]
        attending = self.attending_layers()
        self.dropout = nn.Dropout(self.config.dropout)
        with seeds.part("source_embedding"):
            self.source_embedding = PlacedEmbedding(source.size, spec.dim, source.length)
        with seeds.part("target_embedding"):
            self.target_embedding = PlacedEmbedding(spec.input_size, spec.dim, spec.length)
        self.encoder = self._stack(seeds.within("encoder"))
        self.decoder = self._stack(seeds.within("decoder"))
        self.queries = nn.ModuleDict()
        for layer in attending:
            with seeds.part(f"queries.{layer}"):
                self.queries[str(layer)] = self._linear()
        with seeds.part("head"):
            self.head = NormedMap(
                spec.dim, spec.output_size, variance=self._kept / spec.dim, config=self.config
            )

    def attending_layers(self) -> tuple[int, ...]:
        """Return the indices from 0 of the decoder's layers with attention.

        Raises:
            ModelError: A layer does not exist, or is listed twice.
        """
        depth, text = self.spec.depth, self.config.attending
        if text == "all":
            return tuple(range(depth))
        known = {str(layer + 1): layer for layer in range(depth)}
        names = text.split(",")
        if not set(names) <= known.keys() or len(set(names)) < len(names):
            raise ModelError(
                f"{self.name}: attending={text!r} is neither all nor layers of 1 to {depth}, "
                "each once, joined by commas"
            )
        return tuple(sorted(known[name] for name in names))

    @property
    def _kept(self) -> float:
        """Share of the numbers that dropout keeps."""
        return 1 - float(self.config.dropout)

    def _linear(self, kept: float = 1.0) -> NormedMap:
        """Return a new map from dim to dim."""
        dim = self.spec.dim
        return NormedMap(dim, dim, variance=kept / dim, config=self.config)

    def _stack(self, seeds: PartSeeds) -> nn.ModuleDict:
        """Return the map of the embeddings, the convolutions, and the map of their output."""
        dim, width, convolutions = self.spec.dim, self.config.kernel_size, nn.ModuleList()
        with seeds.part("enter"):
            enter = self._linear(self._kept)
        for layer in range(self.spec.depth):
            with seeds.part(f"convolutions.{layer}"):
                variance = 4 * self._kept / (width * dim)
                convolutions.append(
                    NormedMap(dim, 2 * dim, width, variance=variance, config=self.config)
                )
        with seeds.part("leave"):
            leave = self._linear()
        return nn.ModuleDict({"enter": enter, "convolutions": convolutions, "leave": leave})

    def decoded(
        self, inputs: Tensor, mask: Tensor | None, context: Tensor, context_mask: Tensor | None
    ) -> Tensor:
        """Return the logits, `[batch, time, output_size]`."""
        return self._with_weights(inputs, mask, context, context_mask)[0]

    def attention_weights(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
        layer: int | None = None,
    ) -> Tensor:
        """Return a, `[batch, time, time2]`, of one layer or the mean over all that attend.

        `layer` counts from 0. The other arguments are those of `forward`.

        Raises:
            ModelError: The layer has no attention.
        """
        weights = self._with_weights(inputs, mask, context, context_mask)[1]
        if layer is None:
            return torch.stack(list(weights.values())).mean(dim=0)
        if layer not in weights:
            raise ModelError(f"{self.name}: layer={layer} attends to nothing, {[*weights]} do")
        return weights[layer]

    def _with_weights(
        self,
        inputs: Tensor,
        mask: Tensor | None,
        context: Tensor | None,
        context_mask: Tensor | None,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Return the logits, and the weights of each layer that attends."""
        source = self.encode(self.source_of(context), context_mask)
        maps = self._maps(lambda each: each)
        embedded = self.dropout(self.target_embedding(inputs, mask))
        hidden, weights = maps.enter(embedded), {}
        for layer, convolution in enumerate(maps.convolutions):
            read = functional.pad(self.dropout(hidden), (0, 0, self.config.kernel_size - 1, 0))
            hidden = (functional.glu(convolution(read), dim=-1) + hidden) * _HALF
            if layer in maps.queries:
                hidden, weights[layer] = self._attended(
                    maps.queries[layer], hidden, embedded, source
                )
        return self._logits(hidden, maps), weights

    def _maps(self, made: Callable[[NormedMap], Map]) -> DecoderMaps:
        """Return the decoder's maps, each converted by `made`."""
        enter, convolutions, leave, head = (
            cast("Any", part)
            for part in (
                *(self.decoder[key] for key in ("enter", "convolutions", "leave")),
                self.head,
            )
        )
        queries = {int(layer): made(cast("NormedMap", m)) for layer, m in self.queries.items()}
        return DecoderMaps(
            made(enter), tuple(map(made, convolutions)), queries, made(leave), made(head)
        )

    def _attended(
        self, to_query: Map, hidden: Tensor, embedded: Tensor, source: ConvSource
    ) -> tuple[Tensor, Tensor]:
        """Return `hidden` `[batch, time, dim]` plus the attention's output, and the weights."""
        query = to_query(hidden) + embedded
        is_real = source.is_real.unsqueeze(1)
        scores = query @ source.keys.transpose(1, 2)
        scores = scores.masked_fill(~is_real, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1) * is_real
        root = source.is_real.sum(dim=1).to(hidden.dtype).sqrt()  # m sqrt(1 / m)
        taken = weights.to(source.values.dtype) @ source.values * root[:, None, None]
        return (hidden + taken) * _HALF, weights

    def _logits(self, hidden: Tensor, maps: DecoderMaps) -> Tensor:
        return maps.head(self.dropout(maps.leave(hidden)))

    def encode(self, context: Tensor, context_mask: Tensor | None = None) -> ConvSource:
        """Encode the source `[batch, time2]` for the decoder's attention."""
        is_real = torch.ones_like(context).bool() if context_mask is None else context_mask
        around = (self.config.kernel_size - 1) // 2, self.config.kernel_size // 2
        embedded = self.dropout(self.source_embedding(context, context_mask))
        hidden = self.encoder["enter"](embedded)
        for convolution in self.encoder["convolutions"]:  # type: ignore[attr-defined]
            read = without_padding(self.dropout(hidden), context_mask)
            read = functional.pad(read, (0, 0, *around))
            hidden = (functional.glu(convolution(read), dim=-1) + hidden) * _HALF
        keys = gradient_divided(self.encoder["leave"](hidden), len(self.queries))
        return ConvSource(keys, keys + embedded, is_real)

    def initial_state(self, batch: int, encoded: ConvSource) -> ConvDecodingState:
        """Return the state before the first target token; `encoded` is from `encode`."""
        window = encoded.keys.new_zeros(batch, self.config.kernel_size - 1, self.spec.dim)
        maps = self._maps(NormedMap.of_one_place)
        return ConvDecodingState(0, (window,) * self.spec.depth, encoded, maps)

    def step(self, tokens: Tensor, state: ConvDecodingState) -> tuple[Tensor, ConvDecodingState]:
        """Read one token `[batch]` of each target; see `LanguageModel.step`."""
        embedded = self.dropout(self.target_embedding.at(tokens, state.num_tokens)).unsqueeze(1)
        maps, windows = state.maps, []
        hidden = maps.enter(embedded)
        for layer, before in enumerate(state.windows):
            read = torch.cat([before, self.dropout(hidden)], dim=1)
            windows.append(read[:, 1:])
            hidden = (functional.glu(maps.convolutions[layer](read), dim=-1) + hidden) * _HALF
            if layer in maps.queries:
                hidden, _ = self._attended(maps.queries[layer], hidden, embedded, state.source)
        after = replace(state, num_tokens=state.num_tokens + 1, windows=tuple(windows))
        return self._logits(hidden, maps).squeeze(1), after

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs; the source has its maximum length unless one is given."""
        source = self.source_length(context_length)
        dim, width = self.spec.dim, self.config.kernel_size
        stack = 2 * dim * dim * (2 + 2 * width * self.spec.depth)  # FLOPs per token
        attention = len(self.queries) * (2 * dim * dim + 2 * 2 * source * dim)
        head = 2 * dim * self.spec.output_size
        return float(batch * (source * stack + length * (stack + attention + head)))


class PlacedEmbedding(nn.Module):
    """Tokens `[batch, time]` -> `[batch, time, dim]`, sums of word and position embeddings.

    Raises:
        ModelError: There are more tokens than positions.
    """

    def __init__(self, vocabulary: int, dim: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, dim)
        self.places = LearnedPosition(dim=dim, max_length=max_length)
        for drawn in (self.table.weight, self.places.table):
            nn.init.normal_(drawn, std=0.1)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """Embed the tokens; the values at padding are ignored."""
        read = tokens if mask is None else tokens.masked_fill(~mask, 0)
        embedded: Tensor = self.places(self.table(read))
        return embedded

    def at(self, tokens: Tensor, place: int) -> Tensor:
        """Embed one token `[batch]` of each sequence, all at position `place`."""
        return self.places.at(self.table(tokens), place)


class NormedMap(nn.Module):
    """A map of `width` neighbouring tokens, with weight normalisation if the config asks for it.

    `[batch, time, inputs]` -> `[batch, time - width + 1, outputs]`; each output has its own gain.
    This does not use torch's weight norm, which renames parameters and changes the module's class.
    """

    def __init__(
        self, inputs: int, outputs: int, width: int = 1, *, variance: float, config: Any
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, width))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.weight, std=math.sqrt(variance))
        gain = self.weight.detach().flatten(1).norm(dim=1) if config.weight_norm else None
        self.gain = None if gain is None else nn.Parameter(gain)

    def forward(self, x: Tensor) -> Tensor:
        """Return `[batch, time - width + 1, outputs]`."""
        weight = self._normed()
        if weight.shape[-1] == 1:
            return functional.linear(x, weight.squeeze(-1), self.bias)
        return functional.conv1d(x.transpose(1, 2), weight, self.bias).transpose(1, 2)

    def of_one_place(self) -> Map:
        """Return this map for exactly `width` tokens: one product with the current weights."""
        weight = self._normed().transpose(1, 2).flatten(1)
        return partial(_at_one_place, weight, self.bias)

    def _normed(self) -> Tensor:
        weight: Tensor = self.weight
        if self.gain is None:
            return weight
        factor: Tensor = self.gain / weight.flatten(1).norm(dim=1)
        return weight * factor[:, None, None]


def _at_one_place(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """Map `[batch, width, inputs]` to `[batch, 1, outputs]`."""
    outputs: Tensor = functional.linear(x.flatten(1), weight, bias)
    return outputs.unsqueeze(1)


def gradient_divided(x: Tensor, number: int) -> Tensor:
    """Return `x` unchanged, but divide its gradient by `number`."""
    kept = x.detach()
    return kept + (x - kept) / number
