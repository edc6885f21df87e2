"""Performer: softmax attention estimated by positive orthogonal random features (FAVOR+).

Paper: Choromanski et al. 2021, "Rethinking Attention with Performers" (arXiv:2009.14794), sections
    2.3 and 2.4, lemma 1.
Equation: exp(q.k / sqrt(d)) = E phi(q).phi(k) with phi(x) = exp(w_f.y - |y|^2 / 2) / sqrt(m) for
    f = 1..m, y = x / d^(1/4), w_f from normal(0, I); output i is sum_j phi(q_i).phi(k_j) v_j
    / sum_j phi(q_i).phi(k_j), over all j or j <= i. Orthogonal features: rows w_f are orthogonal in
    blocks of d, with the norms of independent Gaussians.
Cost: n m d for m features; one sequential operation, since a prefix sum is limited only by its
    depth; any two positions are one step apart.
Departures: no epsilon is added to the features, unlike in the authors' code; a denominator that
    underflows is clamped to 3e-29 (float32), so that its output fades to zero. The signs of a block
    are chosen so that each row is uniform on the sphere; with an unmodified QR decomposition, as in
    published code, the first row always points to the same side, and the estimate is biased. All
    heads of a layer share their features, as in the authors' code; layers do not.
Padding: padded keys and values are left out of both sums.
Features: drawn on the CPU with a seed that is chosen at construction, plus the number of the draw;
    every `redraw_interval`-th call in training draws new ones. Seed and number of calls are stored
    with the parameters (as extra state), so that a resumed training uses the same draws. Calls are
    counted on the CPU, and nothing waits for a GPU. Recomputation of activations (checkpointing)
    would count a call twice, and differentiate another draw: there, freeze the draw
    (`redraw_interval` above the number of steps).
Fast form: `kernels.kernel_attention`. The largest exponent is subtracted: over the features for a
    query, over the features and all visible keys for a key. Autograd treats these as constants,
    which cancel in the ratio. `step` holds the sums and the largest exponent so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bakeoff.models.kernels.kernel_mixer import KernelMixer
from bakeoff.models.mixer import Context, Cost, Mask


class Performer(KernelMixer):
    """Linear attention with random features; see the module docstring."""

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
            num_features: m, for each head. The error falls as m^-1/2 if exp(|q + k|^2 / sqrt(d)) is
                small compared to m, and far more slowly for longer queries and keys: for tokens of
                unit variance, m = 64 and width 16 it is as large as the weights themselves. The
                paper requires the order of d log d for heads of width d (theorem 4), and uses 256
                for 64.
            is_orthogonal: Whether the rows w_f of a block are orthogonal; otherwise they are
                independent.
            redraw_interval: Number of calls in training from one draw of features to the next.
            chunk: Number of tokens per chunk of the causal form, which computes all products in a
                chunk.
        """

        heads: int = 4
        num_features: int = 64
        is_orthogonal: bool = True
        redraw_interval: int = 1000
        chunk: int = field(default=64, metadata={"cost_only": True})

    def make_parameters(self, config: Config) -> None:
        """Create the projections, and draw the first features."""
        super().make_parameters(config)
        self.is_orthogonal = config.is_orthogonal
        self.redraw_interval = config.redraw_interval
        self.num_calls = 0  # counts calls in training mode
        self.seed = int(torch.randint(2**62, (), device="cpu"))
        self.directions: Tensor
        self.register_buffer("directions", torch.empty(config.num_features, self.head_dim))
        self._redraw()

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; in training, redraw features when due."""
        if self.training:
            # Redraw before a call, not after it, so that training ends with its last features.
            if self.num_calls and self.num_calls % self.redraw_interval == 0:
                self._redraw()
            self.num_calls += 1
        return super().forward(x, mask, context, context_mask)

    def get_extra_state(self) -> Tensor:
        """Return seed and number of calls as a tensor, which every checkpoint format supports."""
        return torch.tensor([self.seed, self.num_calls], device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Restore seed and number of calls; the features themselves are a buffer."""
        self.seed, self.num_calls = state.tolist()

    def num_features(self) -> int:
        """Return m, the number of features."""
        return len(self.directions)

    def feature_flops(self, length: int) -> float:
        """Return the FLOPs of the products of queries and keys with every w_f."""
        return 2 * 2 * length * self.dim * self.num_features()

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of features."""
        return {"k": self.num_features()}

    def query_features(self, queries: Tensor) -> Tensor:
        """Return the features of the queries; see `KernelMixer.query_features`.

        The factor exp(-|y|^2 / 2) is left out, since it cancels in the ratio.
        """
        exponents = self._products(queries)
        largest = exponents.detach().amax(dim=-1, keepdim=True)
        return exponents.sub_(largest).exp_()

    def key_features(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features of the keys, and the largest exponent of each as the log scale."""
        products = self._products(keys)
        squares = keys.to(products.dtype).square().sum(dim=-1, keepdim=True)
        exponents = products.sub_(squares / (2 * math.sqrt(self.head_dim)))
        largest = exponents.detach().amax(dim=-1, keepdim=True)
        return exponents.sub_(largest).exp_(), largest.squeeze(-1)

    def feature(self, x: Tensor) -> Tensor:
        """Return exp(w_f.y - |y|^2 / 2) / sqrt(m) for all tokens and f, `[tokens, features]`."""
        y = x / self.head_dim**0.25
        halves = (y * y).sum(dim=1, keepdim=True) / 2
        return torch.exp(y @ self.directions.T - halves) / math.sqrt(self.num_features())

    def _products(self, x: Tensor) -> Tensor:
        """Return w_f.y for each token and f, in float32 at least."""
        wide = torch.promote_types(x.dtype, torch.float32)
        scaled: Tensor = (self.directions.to(wide) * self.head_dim**-0.25).T
        return x.to(wide) @ scaled

    def _redraw(self) -> None:
        """Draw the features for the current number of calls."""
        generator = torch.Generator("cpu")
        generator.manual_seed(self.seed + self.num_calls // self.redraw_interval)
        shape = (self.num_features(), self.head_dim)
        drawn = draw_directions(*shape, self.is_orthogonal, generator)
        # Assign a new tensor: the gradient of an earlier call may still need the old one.
        self.directions = drawn.to(self.directions)


def draw_directions(
    num_features: int, width: int, is_orthogonal: bool, generator: torch.Generator
) -> Tensor:
    """Draw rows w_f of normal(0, I), `[num_features, width]`, on the CPU.

    Args:
        num_features: Number of rows.
        width: Width of a head, and number of rows in a block.
        is_orthogonal: Whether the rows of a block are orthogonal to one another.
        generator: Random generator on the CPU.
    """

    def gaussian(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device="cpu", dtype=torch.float64)

    independent = gaussian(num_features, width)
    if not is_orthogonal:
        return independent
    num_blocks = -(-num_features // width)
    q, r = torch.linalg.qr(gaussian(num_blocks, width, width))
    # The result is uniform over rotations and reflections only with the signs of the diagonal of r
    # (Mezzadri 2007, "How to generate random matrices from the classical compact groups").
    rows: Tensor = (q * r.diagonal(dim1=1, dim2=2).sign().unsqueeze(1)).mT.flatten(0, 1)
    norms: Tensor = independent.norm(dim=1, keepdim=True)
    return norms * rows[:num_features]
