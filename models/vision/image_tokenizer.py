"""A discrete autoencoder, which maps an image to a few symbols of a learned code, and back.

Networks: van den Oord et al. 2017, "Neural discrete representation learning" (VQ-VAE,
    arXiv:1711.00937, section 4.1): convolutions of 4 x 4 with a stride of two, residual blocks of
    3 x 3 and 1 x 1, and the reverse in the decoder. One token represents `cell` x `cell` pixels.
Quantisers:
    straight_through   the code nearest to the encoder's vector; its gradient is copied to the
                       vector unchanged (section 3.2). One loss term moves codes towards vectors,
                       another, weighted by `commitment`, vectors towards codes (equation 3). With
                       unit codes, both are scaled to length 1 (Yu et al. 2021, ViT-VQGAN,
                       arXiv:2110.04627, section 3.2); without that, most codes are never used
    gumbel             Ramesh et al. 2021 (DALL-E, arXiv:2102.12092, section 2.1): in training, the
                       mean of all codes with weights drawn from the Gumbel softmax (Jang et al.
                       2016, arXiv:1611.01144), at a temperature that falls from 1 along a cosine;
                       in evaluation, the most probable code. `kl_weight` times KL(shares | uniform)
                       is added to the loss, so that codes stay in use
Departures: equation 3 takes means over the numbers of a vector, not sums, as its authors' code
    does; DALL-E's networks are deeper and have 8,192 codes, and its density of pixels is unbounded
    on an all-white canvas, so the tasks here use squared errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds, scaled_normal
from bakeoff.models.interface import Input
from bakeoff.models.vision.map_convolution import Grid, MapConvolution


@dataclass(frozen=True, kw_only=True)
class ImageTokenizerConfig:
    """Knobs of a discrete autoencoder.

    Attributes:
        codes: Number of symbols.
        quantiser: `straight_through` or `gumbel`; see the module's docstring.
        cell: Side of the square of pixels that a token represents: a power of two that divides the
            sides of the image.
        tokenizer_width: Channels of the maps; the largest maps have half as many.
        tokenizer_blocks: Number of residual blocks of the encoder, and of the decoder.
        code_dim: Dimension of a code.
        has_unit_codes: Whether codes and vectors are scaled to length 1, for `straight_through`.
        commitment: Beta of equation 3, for `straight_through`.
        kl_weight: Weight of the mean divergence over tokens in nats, for `gumbel`.
        final_temperature: Final temperature of `gumbel`.
        anneal_steps: Number of training passes until the final temperature.
    """

    codes: int = 256
    quantiser: Literal["straight_through", "gumbel"] = "straight_through"
    cell: int = 8
    tokenizer_width: int = 64
    tokenizer_blocks: int = 1
    code_dim: int = 8
    has_unit_codes: bool = True
    commitment: float = 0.25
    kl_weight: float = 0.01
    final_temperature: float = 0.5
    anneal_steps: int = 500


_OF = {
    "straight_through": ("has_unit_codes", "commitment"),
    "gumbel": ("kl_weight", "final_temperature", "anneal_steps"),
}
_LEAST = {
    "codes": 2,
    "cell": 2,
    "tokenizer_width": 2,
    "tokenizer_blocks": 0,
    "code_dim": 1,
    "commitment": 0,
    "kl_weight": 0,
    "anneal_steps": 1,
}


def check_image_tokenizer(config: ImageTokenizerConfig, owner: str) -> None:
    """Raise for knobs that no autoencoder can have, and for those of the other quantiser.

    Raises:
        ModelError: A value is not allowed, as in
            ``discrete_vae: cell=6 is not a power of two``.
    """
    for key, least in _LEAST.items():
        if getattr(config, key) < least:
            raise ModelError(f"{owner}: {key}={getattr(config, key)} is not at least {least}")
    if config.cell & (config.cell - 1):
        raise ModelError(f"{owner}: cell={config.cell} is not a power of two")
    if config.final_temperature <= 0:
        raise ModelError(f"{owner}: final_temperature={config.final_temperature} is not above 0")
    for kind, keys in _OF.items():
        for key in keys if kind != config.quantiser else ():
            if (value := getattr(config, key)) != getattr(ImageTokenizerConfig, key):
                raise ModelError(f"{owner}: {key}={value!r} is of quantiser={kind!r}")


class Tokenized(NamedTuple):
    """Reconstructed images, with their tokens.

    Attributes:
        images: `[batch, rows, columns, channels]`.
        tokens: `[batch, places]`, row by row.
        penalty: `[batch]`, the term that the code adds to the loss of each image.
    """

    images: Tensor
    tokens: Tensor
    penalty: Tensor


class ImageTokenizer(nn.Module):
    """A map from images `[batch, rows, columns, channels]` to tokens `[batch, places]`, and back.

    Args:
        image: The input to read.
        outputs: Channels of the reconstruction.
        config: Knobs, already checked.
        seeds: Random streams of the tokenizer.
        owner: The model's name, for errors.

    Attributes:
        grid: Rows and columns of the places.

    Raises:
        ModelError: The cells do not tile the image.
    """

    no_weight_decay = ("codes.weight",)

    def __init__(
        self, image: Input, outputs: int, config: ImageTokenizerConfig, seeds: PartSeeds, owner: str
    ) -> None:
        super().__init__()
        assert image.grid is not None, "an image has rows and columns"
        rows, columns = image.grid
        if rows % config.cell or columns % config.cell:
            raise ModelError(
                f"{owner}: cell={config.cell} does not divide an image of {rows} x {columns} pixels"
            )
        self.config, self.grid = config, (rows // config.cell, columns // config.cell)
        with seeds.part("encoder"):
            self.encoder = _encoder(image.size, config)
        with seeds.part("codes"):
            self.codes = nn.Embedding(config.codes, config.code_dim)
        if config.quantiser == "gumbel":
            with seeds.part("shares"):
                self.shares = nn.Linear(config.code_dim, config.codes)
                scaled_normal(self.shares)
            self.num_passes: Tensor
            self.register_buffer("num_passes", torch.zeros(1))
        with seeds.part("decoder"):
            self.decoder = _decoder(outputs, config)

    @property
    def num_places(self) -> int:
        """Number of tokens per image."""
        return self.grid[0] * self.grid[1]

    def forward(self, images: Tensor) -> Tokenized:
        """Reconstruct images from their tokens."""
        vectors = self._vectors(images)
        tokens = self._nearest(vectors)
        relax = self._relaxed if self.config.quantiser == "gumbel" else self._straight_through
        read, penalty = relax(vectors, tokens)
        return Tokenized(self._decoded(read), tokens, penalty)

    def tokens(self, images: Tensor) -> Tensor:
        """Return tokens `[batch, places]`, without autocast, whose rounding would change them."""
        with torch.autocast(images.device.type, enabled=False):
            return self._nearest(self._vectors(images))

    def images(self, tokens: Tensor) -> Tensor:
        """Decode tokens to images `[batch, rows, columns, channels]`."""
        return self._decoded(self._codes()[tokens])

    def _codes(self) -> Tensor:
        """Return the codes, `[codes, code_dim]`."""
        return self._scaled(self.codes.weight)

    def _scaled(self, vectors: Tensor) -> Tensor:
        is_unit = self.config.has_unit_codes and self.config.quantiser == "straight_through"
        return functional.normalize(vectors, dim=-1) if is_unit else vectors

    def _vectors(self, images: Tensor) -> Tensor:
        """Encode images as `[batch, places, code_dim]`; contiguous, see `ResidualTrunk.forward`."""
        found: Tensor = self.encoder(images.movedim(-1, 1).contiguous())
        return self._scaled(found.flatten(2).transpose(1, 2))

    def _nearest(self, vectors: Tensor) -> Tensor:
        if self.config.quantiser == "gumbel":
            likeliest: Tensor = self.shares(vectors).argmax(dim=-1)
            return likeliest
        codes = self._codes()
        return (codes.square().sum(dim=-1) - 2 * vectors @ codes.T).argmin(dim=-1)

    def _decoded(self, vectors: Tensor) -> Tensor:
        places = vectors.transpose(1, 2).reshape(len(vectors), -1, *self.grid)
        found: Tensor = self.decoder(places)
        return found.movedim(1, -1)

    def _straight_through(self, vectors: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return codes with the gradient of the vectors, and equation 3 without its first term."""
        chosen = self._codes()[tokens]
        of_codes = (chosen - vectors.detach()).square().mean(dim=(1, 2))
        of_vectors = (chosen.detach() - vectors).square().mean(dim=(1, 2))
        handed_on = vectors + (chosen - vectors).detach()
        return handed_on, of_codes + self.config.commitment * of_vectors

    def _relaxed(self, vectors: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean codes in drawn shares (likeliest codes in evaluation), and the penalty."""
        logs = self.shares(vectors).log_softmax(dim=-1)
        divergence = (logs.exp() * (logs + math.log(self.config.codes))).sum(dim=-1).mean(dim=1)
        penalty = self.config.kl_weight * divergence
        if not self.training:
            return self._codes()[tokens], penalty
        noise = -torch.empty_like(logs).exponential_().log()
        shares = ((logs + noise) / self._temperature()).softmax(dim=-1)
        return shares @ self._codes(), penalty

    def _temperature(self) -> Tensor:
        """Return the temperature of this pass, and count the pass."""
        done = (self.num_passes / self.config.anneal_steps).clamp(max=1)
        last = self.config.final_temperature
        self.num_passes.add_(1)
        return last + (1 - last) * (1 + torch.cos(math.pi * done)) / 2

    def flops_of_tokens(self) -> float:
        """Return the FLOPs of computing the tokens of one image; norms are elementwise."""
        width = self.config.code_dim * self.config.codes
        sides = (self.grid[0] * self.config.cell, self.grid[1] * self.config.cell)
        return _flops(self.encoder, sides) + 2.0 * self.num_places * width

    def flops(self) -> float:
        """Return the FLOPs of reconstructing one image in evaluation mode."""
        repeated = self.config.quantiser == "gumbel"  # the shares, for the penalty
        of_shares = 2.0 * self.num_places * self.config.code_dim * self.config.codes
        return self.flops_of_tokens() + repeated * of_shares + _flops(self.decoder, self.grid)


class _MapBlock(nn.Module):
    """A residual block: x plus a 3 x 3 and a 1 x 1 convolution, each after a ReLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide = MapConvolution(width, width, 3, bias=True)
        self.narrow = MapConvolution(width, width, 1, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, width, rows, columns]` to the same shape."""
        added: Tensor = self.narrow(functional.relu(self.wide(functional.relu(x))))
        return x + added


def _channels(config: ImageTokenizerConfig) -> list[int]:
    """Return the channels of the maps between image and tokens, the largest map first."""
    levels = config.cell.bit_length() - 1
    return [max(1, config.tokenizer_width // 2), *[config.tokenizer_width] * (levels - 1)]


def _encoder(channels: int, config: ImageTokenizerConfig) -> nn.Sequential:
    """Return layers that map `[batch, channels, rows, columns]` to `[batch, code_dim, *grid]`."""
    layers: list[nn.Module] = []
    maps = _channels(config)
    for before, after in pairwise([channels, *maps]):
        layers += [nn.Conv2d(before, after, 4, stride=2, padding=1), nn.ReLU()]
    layers.append(MapConvolution(maps[-1], config.tokenizer_width, 3, bias=True))
    layers += [_MapBlock(config.tokenizer_width) for _ in range(config.tokenizer_blocks)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(config.tokenizer_width, config.code_dim, 1))


def _decoder(channels: int, config: ImageTokenizerConfig) -> nn.Sequential:
    """Return layers that map `[batch, code_dim, *grid]` to `[batch, channels, rows, columns]`."""
    layers: list[nn.Module] = [nn.Conv2d(config.code_dim, config.tokenizer_width, 3, padding=1)]
    layers += [_MapBlock(config.tokenizer_width) for _ in range(config.tokenizer_blocks)]
    maps = [config.tokenizer_width, *reversed(_channels(config)[:-1]), channels]
    for before, after in pairwise(maps):
        layers += [nn.ReLU(), nn.ConvTranspose2d(before, after, 4, stride=2, padding=1)]
    return nn.Sequential(*layers)


def _flops(layers: nn.Sequential, grid: Grid) -> float:
    """Return the FLOPs of one map; zeros of the padding are multiplied too."""
    total = 0.0
    for layer in layers.modules():
        if isinstance(layer, nn.Conv2d):
            grid = (grid[0] // layer.stride[0], grid[1] // layer.stride[1])
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            total += 2.0 * grid[0] * grid[1] * layer.weight.numel()
        if isinstance(layer, nn.ConvTranspose2d):
            grid = (grid[0] * layer.stride[0], grid[1] * layer.stride[1])
    return total
