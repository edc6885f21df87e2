"""Nystromformer: softmax attention approximated through a few landmarks, by Nystrom's method.

Paper: Xiong et al. 2021, "Nystromformer: A Nystrom-Based Algorithm for Approximating
    Self-Attention" (arXiv:2102.03902), sections 3.2 and 3.3, equations 13 and 14.
Equation: for each head, landmarks Q~, K~ are the means of queries and keys over m segments of the
    sequence; with s(X, Y) = softmax(X Y^T / sqrt(d)), the output is s(Q, K~) Z s(Q~, K) V +
    conv(V), where Z approximates the pseudo-inverse of A = s(Q~, K~): starting from
    Z = A^T / (|A|_1 |A|_inf), iterate Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4. The
    convolution over time has one kernel for each head.
Cost: m n d; one sequential operation; any two positions are one step apart.
Departures: if m does not divide the length, the lengths of the segments differ by one token, where
    the authors' code pads with zeros; if there are at most m tokens, each is its own landmark.
    Norms are those of each matrix; the authors' first code used the largest of a batch, which makes
    its sequences depend on each other.
Padding: segments consist of real tokens only, so that each landmark is a mean over real tokens;
    sequences with fewer than m real tokens have fewer landmarks. Padded values enter the
    convolution as zeros.
Fast form: Z is multiplied with the summary s(Q~, K) V, so that both products with n tokens are a
    `scaled_dot_product_attention`. All steps but the last projection are in float32 at least, since
    Z amplifies rounding errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.short_conv import depthwise
from bakeoff.models.kernels.softmax_attention import (
    fused_scratch_bytes,
    masked_attention,
    merge_heads,
    project_to_head,
    softmax_of_shown,
    split_heads,
    square_projections,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, without_padding


class Nystromformer(Mixer):
    """Softmax attention through landmarks, by Nystrom's method; see the module docstring."""

    name = "nystromformer"
    paper = "Xiong et al. 2021, arXiv:2102.03902"
    family = "sparse attention"
    cost = Cost(time="k * n * d", sequential_operations="1", maximum_path_length="1")
    why_not_causal = "each landmark is a mean over a segment, later tokens too"
    why_not_relative = "landmarks stand at no place"
    is_position_aware = True
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs = ("landmarks", "inverse_steps")
    keeps_own_draw = ("taps",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of the Nystromformer.

        Attributes:
            heads: Number of heads; must divide dim.
            landmarks: m, the number of landmarks per sequence; the paper uses 64.
            inverse_steps: Number of iterations for the pseudo-inverse.
            kernel_size: Number of taps of the convolution of values, an odd number; 0 for none.
        """

        heads: int = 4
        landmarks: int = 32
        inverse_steps: int = 6
        kernel_size: int = 33

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if the kernel has no centre."""
        size = config.kernel_size
        if size < 0 or (size > 0 and size % 2 == 0):
            raise ModelError(f"{cls.name}: kernel_size={size} is neither 0 nor an odd number above")
        super().check_config(config, dim=dim)

    def make_parameters(self, config: Config) -> None:
        """Create four projections, and a kernel for each head, initialised as by the authors."""
        self.heads = config.heads
        self.head_dim = self.dim // config.heads
        self.query, self.key, self.value, self.output = square_projections(self.dim)
        self.taps = None
        if config.kernel_size:
            limit = config.kernel_size**-0.5
            self.taps = nn.Parameter(torch.empty(config.heads, config.kernel_size))
            nn.init.uniform_(self.taps, -limit, limit)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        wide = without_padding(x, mask).to(torch.promote_types(x.dtype, torch.float32))
        queries, keys, values = (
            functional.linear(wide, each.weight.to(wide.dtype))
            for each in (self.query, self.key, self.value)
        )
        mixed = self._attended(queries, keys, values, mask)
        if self.taps is not None:
            mixed = mixed + self._convolved(values)
        merged: Tensor = self.output(mixed.to(x.dtype))
        return merged

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the number of landmarks."""
        return {"k": self.config.landmarks}

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs: projections, means, two attentions, pseudo-inverse and taps."""
        self.check_context_length(context_length)
        m, dim = min(self.config.landmarks, length), self.dim
        products = 4 * length * dim**2 + (2 + 2 + 2) * m * length * dim
        products += 2 * m**2 * dim  # A, and Z times the summary
        products += 4 * self.config.inverse_steps * self.heads * m**3
        products += length * dim * self.config.kernel_size
        return float(2 * batch * products)

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: of the pseudo-inverse, the attention, or the convolution."""
        self.check_context_length(context_length)
        m = min(self.config.landmarks, length)
        tokens, few = 4 * batch * length * self.dim, 4 * batch * m * self.dim
        square = 4 * batch * self.heads * m**2
        held = 3 * tokens + 4 * m * length + 3 * few  # segment weights, landmarks, their summary
        inverse = held + 6 * square + 3 * 4 * m**2
        scratch = fused_scratch_bytes(
            rows=batch * self.heads, queries=length, keys=m, width=self.head_dim
        )
        attention = held + square + few + tokens + scratch
        last = 5 * tokens
        if self.taps is not None:
            last = 6 * tokens + 4 * self.dim * self.config.kernel_size
        return float(max(inverse, attention, last))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one head at a time, with each of the three matrices in full."""
        heads = []
        for h in range(self.heads):
            queries, keys, values = (
                project_to_head(each, h, self.head_dim, x)
                for each in (self.query, self.key, self.value)
            )
            mixed = torch.zeros_like(values)
            if seen:
                mixed = self._by_nystrom(queries, keys[seen], queries[seen], values[seen])
            rows = [row + self._sum_of_taps(h, i, values, seen) for i, row in enumerate(mixed)]
            heads.append(torch.stack(rows))
        mixed_heads: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed_heads

    def _by_nystrom(self, queries: Tensor, keys: Tensor, real: Tensor, values: Tensor) -> Tensor:
        """Return the output for `queries`, given keys, queries and values of the real tokens."""
        count = min(self.config.landmarks, len(keys))
        members: list[list[int]] = [[] for _ in range(count)]
        for rank in range(len(keys)):
            members[rank * count // len(keys)].append(rank)
        few_queries = torch.stack([real[ranks].mean(dim=0) for ranks in members])
        few_keys = torch.stack([keys[ranks].mean(dim=0) for ranks in members])
        first, a, last = (
            (left @ right.T / self.head_dim**0.5).softmax(dim=1)
            for left, right in ((queries, few_keys), (few_queries, few_keys), (few_queries, keys))
        )
        one = torch.eye(count).to(a)
        z = a.T / (torch.linalg.matrix_norm(a, 1) * torch.linalg.matrix_norm(a, torch.inf))
        for _ in range(self.config.inverse_steps):
            z = z @ (13 * one - a @ z @ (15 * one - a @ z @ (7 * one - a @ z))) / 4
        mixed: Tensor = first @ z @ last @ values
        return mixed

    def _sum_of_taps(self, head: int, place: int, values: Tensor, seen: list[int]) -> Tensor:
        total = torch.zeros_like(values[0])
        if self.taps is not None:
            for tap, weight in enumerate(self.taps[head]):
                met = place + tap - self.config.kernel_size // 2
                total = total + (weight * values[met] if met in seen else 0)
        return total

    def _attended(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Mask) -> Tensor:
        """Return the approximate attention `[batch, time, dim]` of tensors of the same shape."""
        means, is_landmark = self._segments(queries, mask)
        few_queries, few_keys = (split_heads(means @ each, self.heads) for each in (queries, keys))
        queries, keys, values = (split_heads(each, self.heads) for each in (queries, keys, values))
        seen = None if mask is None else mask[:, None, None, :]
        summary = self._softmax_of(few_queries, keys, values, seen)
        inverse = pseudo_inverse(
            self._between(few_queries, few_keys, is_landmark), self.config.inverse_steps
        )
        seen = None if is_landmark is None else is_landmark[:, None, None, :]
        return merge_heads(self._softmax_of(queries, few_keys, inverse @ summary, seen))

    def _segments(self, x: Tensor, mask: Mask) -> tuple[Tensor, Tensor | None]:
        """Return each token's weight in the means, `[batch or 1, m, time]`, and which means exist.

        The second value is None if all exist.
        """
        time = x.shape[1]
        m = min(self.config.landmarks, time)
        places = torch.arange(time, device=x.device)
        landmarks = torch.arange(m, device=x.device)
        if mask is None:
            members = (places * m // time == landmarks[:, None]).unsqueeze(0).to(x.dtype)
            return members / members.sum(dim=-1, keepdim=True), None
        count = mask.sum(dim=1, keepdim=True)
        several = count.clamp(max=m)
        segment = (mask.cumsum(dim=1) - 1) * several // count.clamp(min=1)
        segment = segment.masked_fill(~mask, m)
        members = (segment.unsqueeze(1) == landmarks[:, None]).to(x.dtype)
        return members / members.sum(dim=-1, keepdim=True).clamp(min=1), landmarks < several

    def _softmax_of(
        self, queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor | None
    ) -> Tensor:
        if seen is None:
            return functional.scaled_dot_product_attention(queries, keys, values)
        return masked_attention(queries, keys, values, seen, scale=self.head_dim**-0.5)

    def _between(self, queries: Tensor, keys: Tensor, is_landmark: Tensor | None) -> Tensor:
        """Return A, `[batch, heads, m, m]`, with zeros for missing landmarks."""
        scores = queries @ keys.mT * self.head_dim**-0.5
        if is_landmark is None:
            everywhere: Tensor = scores.softmax(dim=-1)
            return everywhere
        shown = is_landmark[:, None, None, :] & is_landmark[:, None, :, None]
        return softmax_of_shown(scores, ~shown)

    def _convolved(self, values: Tensor) -> Tensor:
        """Return the values convolved over time by the kernel of each head."""
        assert self.taps is not None
        kernels = self.taps.to(values.dtype).repeat_interleave(self.head_dim, dim=0).unsqueeze(1)
        return depthwise(values, kernels, None, before=self.config.kernel_size // 2)


def pseudo_inverse(a: Tensor, steps: int) -> Tensor:
    """Return the approximate pseudo-inverse of square matrices `[..., m, m]` (equation 14).

    Entries must not be negative. Rows and columns of zeros remain zeros.
    """
    one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    columns, rows = (a.sum(dim=side).amax(dim=-1) for side in (-2, -1))
    smallest = torch.finfo(a.dtype).tiny  # for a matrix of zeros
    z = a.mT / (columns * rows).clamp(min=smallest)[..., None, None]
    for _ in range(steps):
        product = a @ z
        z = 0.25 * z @ (13 * one - product @ (15 * one - product @ (7 * one - product)))
    return z
