"""ByteNet: a decoder of dilated convolutions, stacked on an encoder position by position.

Paper: Kalchbrenner et al. 2016, "Neural Machine Translation in Linear Time" (arXiv:1610.10099),
    section 3.
Stacking: position t of the decoder reads position t of the encoder's output; there is no attention.
Dynamic unfolding: the encoder has ceil(a |s|) positions for a source of |s| tokens, and those after
    the last token are empty; a = 1.2 from English to German. The decoder generates until its end
    symbol, and reads zeros at positions beyond the encoder's.
Blocks (figure 3, left): x + W_3 r(n(W_2 * r(n(W_1 r(n(x)))))), where n is a layer norm and r ReLU.
    W_1 reduces each token to half the width, and W_3 restores it; W_2 * is a convolution of kernel
    3, whose dilation is 1, 2, 4, 8, 16 in successive blocks, then 1 again. The decoder's
    convolutions are causal, the encoder's are centred. The paper has 30 blocks in each and a width
    of 1600.
Departures: the paper does not say how the embedding of the target is combined with the source's
    column; here they are concatenated and mapped to one token. Each stack ends in a norm, since its
    sums grow with the number of blocks; the decoder's has a ReLU before the output matrix. Weights
    are drawn from normal(0, 1 / inputs), embeddings from normal(0, 1), and biases are zero.
    Multiplicative units (figure 3, right), bags of n-grams and sub-batch norms are left out.
Padding: it follows the tokens. Padded tokens of the source are empty positions up to ceil(a |s|);
    beyond, they enter convolutions as zeros, like positions outside the sequence. A source that is
    all padding gives zeros.

The step form keeps the inputs of each convolution that later steps read again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.architectures.encoder_decoder import EncoderDecoder
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.mixer import without_padding
from bakeoff.models.model_spec import whole_numbers


@dataclass(frozen=True)
class ByteNetState:
    """State of the decoder after some tokens.

    Attributes:
        num_tokens: Number of tokens read; the position of the next one.
        windows: The last (k - 1) dilation inputs of each convolution, `[batch, time, dim // 2]`.
        source: The encoder's output, `[batch, positions, dim]`.
    """

    num_tokens: int
    windows: tuple[Tensor, ...]
    source: Tensor


class ByteNet(EncoderDecoder):
    """Target `[batch, time]` and source `[batch, time2]` -> logits `[batch, time, output_size]`."""

    name = "bytenet"
    takes = ("dim", "depth")
    config: Config

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs; the depth is the number of blocks of the encoder and of the decoder.

        Attributes:
            kernel_size: Number of tokens that a convolution reads.
            dilations: Distances between these tokens in successive blocks, joined by commas and
                repeated.
            length_ratio: Positions of the encoder's output per source token; a in the module.
        """

        kernel_size: int = 3
        dilations: str = "1,2,4,8,16"
        length_ratio: float = 1.2

    @classmethod
    def check_config(cls, config: Any) -> None:
        """Check the knobs; raise `ModelError` for an invalid value."""
        if config.kernel_size < 1:
            raise ModelError(f"{cls.name}: kernel_size={config.kernel_size} is not at least 1")
        whole_numbers(config, "dilations", cls.name, separator=",")
        if config.length_ratio <= 0:
            raise ModelError(f"{cls.name}: length_ratio={config.length_ratio} is not above 0")

    def build(self, seeds: PartSeeds) -> None:
        """Build the layers of the model."""
        spec = self.spec
        if spec.dim % 2:
            raise ModelError(f"{self.name}: dim={spec.dim} is odd, and blocks halve it")
        with seeds.part("source_embedding"):
            self.source_embedding = nn.Embedding(spec.others["context"].size, spec.dim)
        with seeds.part("target_embedding"):
            self.target_embedding = nn.Embedding(spec.input_size, spec.dim)
        self.encoder = self._blocks(seeds.within("encoder"), is_causal=False)
        self.encoder_norm = nn.LayerNorm(spec.dim)
        with seeds.part("join"):
            self.join = DilatedMap(2 * spec.dim, spec.dim)
        self.decoder = self._blocks(seeds.within("decoder"), is_causal=True)
        self.decoder_norm = nn.LayerNorm(spec.dim)
        with seeds.part("head"):
            self.head = DilatedMap(spec.dim, spec.output_size)

    def _blocks(self, seeds: PartSeeds, *, is_causal: bool) -> nn.ModuleList:
        dilations = whole_numbers(self.config, "dilations", self.name, separator=",")
        blocks = nn.ModuleList()
        for layer in range(self.spec.depth):
            dilation = dilations[layer % len(dilations)]
            with seeds.part(str(layer)):
                blocks.append(
                    ByteNetBlock(self.spec.dim, self.config.kernel_size, dilation, is_causal)
                )
        return blocks

    def decoded(
        self, inputs: Tensor, mask: Tensor | None, context: Tensor, context_mask: Tensor | None
    ) -> Tensor:
        """Return the logits, `[batch, time, output_size]`."""
        source = self.encode(context, context_mask)
        missing = max(0, inputs.shape[1] - source.shape[1])
        columns = functional.pad(source, (0, 0, 0, missing))[:, : inputs.shape[1]]
        target = self.target_embedding(inputs if mask is None else inputs.masked_fill(~mask, 0))
        hidden = self.join(torch.cat([target, columns], dim=-1))
        for block in self.decoder:
            hidden = block(hidden)
        return self._logits(hidden)

    def _logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.head(self.decoder_norm(hidden).relu())
        return logits

    def encode(self, context: Tensor, context_mask: Tensor | None = None) -> Tensor:
        """Return the encoder's output `[batch, positions, dim]`, zero beyond a short source."""
        is_token = torch.ones_like(context).bool() if context_mask is None else context_mask
        unfolded = self._places(context.shape[1])
        num_empty = max(0, unfolded - context.shape[1])
        embedded = self.source_embedding(context.masked_fill(~is_token, 0))
        hidden = functional.pad(without_padding(embedded, is_token), (0, 0, 0, num_empty))
        lengths = is_token.sum(dim=1, keepdim=True)
        place = torch.arange(hidden.shape[1], device=context.device)
        is_unfolded = place < (lengths.double() * self.config.length_ratio).ceil()
        is_place = is_unfolded | (place < lengths)  # a ratio below 1 still encodes all tokens
        for block in self.encoder:
            hidden = block(hidden, is_place)
        return without_padding(self.encoder_norm(hidden), is_unfolded)[:, :unfolded]

    def _places(self, num_tokens: int) -> int:
        """Return the number of positions of the encoder's output for a source."""
        return math.ceil(num_tokens * self.config.length_ratio)

    def _decoder_blocks(self) -> list[ByteNetBlock]:
        return cast("list[ByteNetBlock]", list(self.decoder))

    def initial_state(self, batch: int, encoded: Tensor) -> ByteNetState:
        """Return the state before the first target token; `encoded` is from `encode`."""
        half = self.spec.dim // 2
        reaches = [sum(block.around) for block in self._decoder_blocks()]
        windows = tuple(encoded.new_zeros(batch, reach, half) for reach in reaches)
        return ByteNetState(0, windows, encoded)

    def step(self, tokens: Tensor, state: ByteNetState) -> tuple[Tensor, ByteNetState]:
        """Read one token `[batch]` of each target; see `LanguageModel.step`."""
        target, place = self.target_embedding(tokens), state.num_tokens
        is_within = place < state.source.shape[1]
        column = state.source[:, place] if is_within else torch.zeros_like(target)
        hidden, windows = self.join(torch.cat([target, column], dim=-1).unsqueeze(1)), []
        for block, before in zip(self._decoder_blocks(), state.windows, strict=True):
            hidden, window = block.step(hidden, before)
            windows.append(window)
        after = replace(state, num_tokens=place + 1, windows=tuple(windows))
        return self._logits(hidden).squeeze(1), after

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs; the source has its maximum length unless one is given."""
        source = self.source_length(context_length)
        places, dim, half = max(source, self._places(source)), self.spec.dim, self.spec.dim // 2
        blocks = self.spec.depth * 2 * (2 * dim * half + self.config.kernel_size * half * half)
        ends = 2 * (2 * dim * dim + dim * self.spec.output_size)
        return float(batch * (places * blocks + length * (blocks + ends)))


class ByteNetBlock(nn.Module):
    """A residual block of figure 3, with ReLU, from `[batch, time, dim]` to the same shape."""

    def __init__(self, dim: int, kernel_size: int, dilation: int, is_causal: bool) -> None:
        super().__init__()
        half, reach = dim // 2, (kernel_size - 1) * dilation
        before = reach if is_causal else (kernel_size - 1) // 2 * dilation
        self.around = before, reach - before  # positions read before and after the token
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in (dim, half, half))
        self.narrow = DilatedMap(dim, half)
        self.mix = DilatedMap(half, half, kernel_size, dilation)
        self.widen = DilatedMap(half, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Apply the block; the convolution reads zeros where `mask` `[batch, time]` is False."""
        read = functional.pad(without_padding(self._narrowed(x), mask), (0, 0, *self.around))
        return x + self._widened(read)

    def step(self, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the block to one token `[batch, 1, dim]`.

        `window` holds the earlier inputs of the convolution; the updated window is returned too.
        """
        read = torch.cat([window, self._narrowed(x)], dim=1)
        return x + self._widened(read), read[:, 1:]

    def _narrowed(self, x: Tensor) -> Tensor:
        """Return the input of the convolution, `[batch, time, dim // 2]`."""
        narrow = self.narrow(self.norms[0](x).relu())
        read: Tensor = self.norms[1](narrow).relu()
        return read

    def _widened(self, read: Tensor) -> Tensor:
        wide: Tensor = self.widen(self.norms[2](self.mix(read)).relu())
        return wide


class DilatedMap(nn.Module):
    """A dilated convolution over `width` tokens, `dilation` positions apart, with a bias.

    `[batch, time, inputs]` -> `[batch, time - (width - 1) dilation, outputs]`.
    """

    def __init__(self, inputs: int, outputs: int, width: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.dilation = dilation
        self.weight = nn.Parameter(torch.empty(outputs, inputs, width))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.weight, std=(width * inputs) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the convolution; a width of 1 is a linear map."""
        if self.weight.shape[-1] == 1:
            return functional.linear(x, self.weight.squeeze(-1), self.bias)
        channels = x.transpose(1, 2)
        out = functional.conv1d(channels, self.weight, self.bias, dilation=self.dilation)
        return out.transpose(1, 2)
