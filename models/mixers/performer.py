"""Performer: softmax attention estimated by positive orthogonal random features (FAVOR+).

Paper: Choromanski et al. 2021, "Rethinking Attention with Performers" (arXiv:2009.14794),
    sections 2.3 and 2.4, lemma 1.
Equation: exp(q.k / sqrt(d)) = E phi(q).phi(k) with
    phi(x) = exp(w_f.y - |y|^2 / 2) / sqrt(m) for f = 1..m, y = x / d^(1/4), w_f from normal(0, I);
    output i is sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j), over all j or j <= i.
    Orthogonal: rows w_f are orthogonal in blocks of d, with the norms of independent Gaussians.
Cost: n m d for m features; one sequential operation, since a prefix sum does not wait for
    anything but its depth; any two positions are one step apart.
Departures: no epsilon is added to features, as the authors' code does; a denominator that
    underflows is held at 3e-29 (float32), so that its output fades to zero. Blocks have signs that
    make each row uniform on the sphere; taken from a QR decomposition as it comes, as published
    code does, the first row always points to the same side, and the estimate is biased. All heads
    of a layer share their features, as in the authors' code; layers do not.
Padding: padded keys and values are left out of both sums.
Features: drawn on the CPU from a seed, drawn at construction, plus the number of the draw; every
    `redraw_interval`-th call in training makes a new draw. Seed and number of calls are kept
    with the parameters (as extra state), so that a resumed training sees the same draws. They are
    counted on the CPU, and nothing waits for a GPU. Recomputing activations (checkpointing) would
    count a call twice, and differentiate another draw: freeze the draw there
    (`redraw_interval` beyond the number of steps).
Fast form: `kernels.kernel_attention`. Exponents are taken relative to their largest, over features
    for a query, over features and all keys that it may see for a key; constants to autograd, that
    cancel in the ratio. `step` holds the sums and the largest exponent so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from models.kernels.kernel_mixer import KernelMixer
from models.mixer import Context, Cost, Mask


class Performer(KernelMixer):
    """Every token takes a mean of all values, weighted by an estimate of softmax attention's."""

    name = "performer"
    paper = "Choromanski et al. 2021, arXiv:2009.14794"
    family = "linear attention"
    cost = Cost(time="n * k * d", sequential_operations="1", maximum_path_length="1")
    is_stochastic = True
    has_log_scale = True
    positive_knobs = ("chunk", "num_features", "redraw_interval")

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of the Performer.

        Attributes:
            heads: Number of heads; must divide dim.
            num_features: m, for each head. The error falls as m^-1/2 where exp(|q + k|^2 / sqrt(d))
                is small beside m, and far more slowly for longer queries and keys: with tokens
                of unit variance, m = 64 and width 16 it is as large as the weights themselves.
                The paper asks for the order of d log d with heads of width d (theorem 4), and
                takes 256 for 64.
            is_orthogonal: Whether the w of a block are orthogonal; else they are independent.
            redraw_interval: Calls in training from one draw of features to the next.
            chunk: Tokens to a chunk of the causal form; products inside one are formed.
        """

        heads: int = 4
        num_features: int = 64
        is_orthogonal: bool = True
        redraw_interval: int = 1000
        chunk: int = field(default=64, metadata={"cost_only": True})

    def make_parameters(self, config: Config) -> None:
        """Projections, and the first draw of features."""
        super().make_parameters(config)
        self.is_orthogonal = config.is_orthogonal
        self.redraw_interval = config.redraw_interval
        self.num_calls = 0  # in training
        self.seed = int(torch.randint(2**62, (), device="cpu"))
        self.directions: Tensor
        self.register_buffer("directions", torch.empty(config.num_features, self.head_dim))
        self._redraw()

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`; in training, draws features anew when it is time."""
        if self.training:
            # Before the next call, not after the last: a training ends with the features it knows.
            if self.num_calls and self.num_calls % self.redraw_interval == 0:
                self._redraw()
            self.num_calls += 1
        return super().forward(x, mask, context, context_mask)

    def get_extra_state(self) -> Tensor:
        """Seed and calls, as a tensor, which every format of checkpoints can hold."""
        return torch.tensor([self.seed, self.num_calls], device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Continue as the one that was saved; the features themselves are a buffer."""
        self.seed, self.num_calls = state.tolist()

    def num_features(self) -> int:
        """M."""
        return len(self.directions)

    def feature_flops(self, length: int) -> float:
        """Products of queries and keys with every w."""
        return 2 * 2 * length * self.dim * self.num_features()

    def cost_symbols(self) -> dict[str, float]:
        """k, the features."""
        return {"k": self.num_features()}

    def query_features(self, queries: Tensor) -> Tensor:
        """See `KernelMixer.query_features`; exp(-|y|^2 / 2) is such a factor."""
        exponents = self._products(queries)
        largest = exponents.detach().amax(dim=-1, keepdim=True)
        return exponents.sub_(largest).exp_()

    def key_features(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """See `KernelMixer.key_features`; the largest exponent of each key is taken out."""
        products = self._products(keys)
        squares = keys.to(products.dtype).square().sum(dim=-1, keepdim=True)
        exponents = products.sub_(squares / (2 * math.sqrt(self.head_dim)))
        largest = exponents.detach().amax(dim=-1, keepdim=True)
        return exponents.sub_(largest).exp_(), largest.squeeze(-1)

    def feature(self, x: Tensor) -> Tensor:
        """exp(w_f.y - |y|^2 / 2) / sqrt(m), of all tokens and f."""
        y = x / self.head_dim**0.25
        halves = (y * y).sum(dim=1, keepdim=True) / 2
        return torch.exp(y @ self.directions.T - halves) / math.sqrt(self.num_features())

    def _products(self, x: Tensor) -> Tensor:
        """w_f.y for each token and f, in float32 at least."""
        wide = torch.promote_types(x.dtype, torch.float32)
        scaled: Tensor = (self.directions.to(wide) * self.head_dim**-0.25).T
        return x.to(wide) @ scaled

    def _redraw(self) -> None:
        """The draw that the number of calls asks for."""
        generator = torch.Generator("cpu")
        generator.manual_seed(self.seed + self.num_calls // self.redraw_interval)
        shape = (self.num_features(), self.head_dim)
        drawn = draw_directions(*shape, self.is_orthogonal, generator)
        # A new tensor: the old one may still be needed for the gradient of an earlier call.
        self.directions = drawn.to(self.directions)


def draw_directions(
    num_features: int, width: int, is_orthogonal: bool, generator: torch.Generator
) -> Tensor:
    """Rows w_f of normal(0, I), `[num_features, width]`, on the CPU.

    Args:
        num_features: Rows.
        width: Of a head; so many rows make a block.
        is_orthogonal: Whether rows of a block are orthogonal to one another.
        generator: Of the CPU.
    """

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device="cpu", dtype=torch.float64)

    independent = gaussian(num_features, width)
    if not is_orthogonal:
        return independent
    num_blocks = -(-num_features // width)
    q, r = torch.linalg.qr(gaussian(num_blocks, width, width))
    # Uniform over all rotations and reflections only with the signs of the diagonal of r
    # (Mezzadri 2007, "How to generate random matrices from the classical compact groups").
    rows: Tensor = (q * r.diagonal(dim1=1, dim2=2).sign().unsqueeze(1)).mT.flatten(0, 1)
    norms: Tensor = independent.norm(dim=1, keepdim=True)
    return norms * rows[:num_features]
