"""The base of mixers with positive features: heads, projections, padding, state and reference.

A subclass defines the features. The sums are computed in `bakeoff.models.kernels.kernel_attention`.

Precision: features are computed in at least float32, also under autocast; products of features are
in the inputs' own dtype, but float16, which lacks their range, is widened.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.kernel_attention import (
    Features,
    Sizes,
    at_one_scale,
    kernel_flops,
    lowest_log_scale,
    numbers_of_sums,
    one_more,
    over_all,
    over_past,
    ratio,
)
from bakeoff.models.kernels.softmax_attention import merge_heads, split_heads, square_projections
from bakeoff.models.mixer import Context, Mask, Mixer, State, without_padding


class KernelMixer(Mixer):
    """Attention by features, between projections to and from heads.

    Attributes:
        has_log_scale: Whether the features of each key come with a log scale, taken out of them.
    """

    supports_causal = True
    supports_step = True
    supports_context = True
    why_not_relative = "it sums products of features and never forms the score of one pair"
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs: ClassVar[tuple[str, ...]] = ("chunk",)
    has_log_scale: ClassVar[bool] = False

    def make_parameters(self, config: Any) -> None:
        """Create four projections; a subclass adds its features."""
        self.heads: int = config.heads
        self.head_dim: int = self.dim // self.heads
        self.chunk: int = config.chunk
        self.query, self.key, self.value, self.output = square_projections(self.dim)

    @abstractmethod
    def feature(self, x: Tensor) -> Tensor:
        """Map `[tokens, head_dim]` to `[tokens, features]` by definition, for the reference."""

    @abstractmethod
    def query_features(self, queries: Tensor) -> Tensor:
        """Map `[batch, heads, time, head_dim]` to `[batch, heads, time, features]`.

        The result is in at least float32, up to a positive factor per query, which cancels.
        """

    @abstractmethod
    def key_features(self, keys: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return features of keys, and the log scale `[batch, heads, time]` taken out of them."""

    @abstractmethod
    def num_features(self) -> int:
        """Return the number of features per head."""

    @abstractmethod
    def feature_flops(self, length: int) -> float:
        """Return the FLOPs of the features of queries and keys, of all heads of one sequence."""

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Mix the tokens of a sequence, or a context into it; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        if context is not None:
            return self.attend(x, self.prepare(context, context_mask))
        projected = self._project(x, x)
        with torch.autocast(x.device.type, enabled=False):
            features = self._features(*projected, mask)
            mixed = over_past(features, self.chunk) if self.is_causal else over_all(features)
        return self._merge(mixed, like=projected[2])

    def prepare(self, context: Tensor, context_mask: Mask = None) -> State:
        """Return the sums over the whole context, `[batch, heads, features, head_dim + 1]`.

        Their size does not depend on the context; log scales are restored up to a factor, which
        cancels.
        """
        self.check_context_length(context.shape[1])
        source = without_padding(context, context_mask)
        keys, values = (split_heads(map_(source), self.heads) for map_ in (self.key, self.value))
        with torch.autocast(source.device.type, enabled=False):
            phi, values, log_scale = self._summed(keys, values, context_mask)
            return (phi.transpose(-1, -2) @ at_one_scale(values, log_scale),)

    def attend(self, x: Tensor, prepared: State) -> Tensor:
        """Mix a prepared context into `x`, `[batch, time, dim]` -> the same shape."""
        queries = split_heads(self.query(x), self.heads)
        with torch.autocast(x.device.type, enabled=False):
            mixed = ratio(self.query_features(queries).to(prepared[0].dtype) @ prepared[0])
        return self._merge(mixed, like=queries)

    def context_bytes(self, context_length: int) -> int:
        """Return the bytes of the sums; independent of the length."""
        self.check_context_length(context_length)
        return 4 * self.heads * self.num_features() * (self.head_dim + 1)

    def initial_state(self, batch: int) -> State:
        """Return sums over no tokens, `[batch, heads, features, head_dim + 1]`.

        The last column is the denominator. With log scales, the state also holds the largest so
        far, `[batch, heads]`, relative to which the sums are stored.
        """
        self.check_steps()
        weight = self.key.weight
        wide = torch.promote_types(weight.dtype, torch.float32)
        shape = (batch, self.heads, self.num_features(), self.head_dim + 1)
        sums = weight.new_zeros(shape, dtype=wide)
        largest = weight.new_full(shape[:2], -torch.inf, dtype=wide)
        return (sums, largest) if self.has_log_scale else (sums,)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Add one token to the sums, then read them."""
        self.check_steps()
        x = x_t.unsqueeze(1)
        projected = self._project(x, x)
        with torch.autocast(x.device.type, enabled=False):
            mixed, state = one_more(self._features(*projected, None), state)
        return self._merge(mixed, like=projected[2]).squeeze(1), state

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the sums and the log scales; independent of the length."""
        self.check_steps()
        num_sums = self.num_features() * (self.head_dim + 1)
        return 4 * self.heads * (num_sums + int(self.has_log_scale))

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of four projections, the features, and the sums; see `kernel_flops`.

        All of them are linear in the length; with a context, half belongs to the queries of one
        sequence, and half to the keys and values of the other.
        """
        self.check_context_length(context_length)
        if context_length is not None:
            return (self.flops(length, batch) + self.flops(context_length, batch)) / 2
        projections = 4 * 2 * length * self.dim**2
        chunk = self.chunk if self.is_causal else None
        sums = self.heads * kernel_flops(self.num_features(), self.head_dim, length, chunk)
        return float(batch * (projections + self.feature_flops(length) + sums))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the bytes of projections, features, log scales and sums; see `numbers_of_sums`."""
        if context_length is not None:
            raise ModelError(f"{self.name} gives no formula for the bytes of a context")
        features = Sizes(
            num_features=self.heads * self.num_features(),
            width=self.head_dim,
            heads=self.heads,
            has_log_scale=self.has_log_scale,
        )
        chunk = self.chunk if self.is_causal else None
        numbers = 3 * length * self.dim + length * features.a_token
        return 4.0 * batch * (numbers + numbers_of_sums(features, length, chunk))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Attend from one query of one head at a time to the keys visible to it."""
        heads = [self._one_head(h, x, others, seen) for h in range(self.heads)]
        mixed: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed

    def _one_head(self, head: int, x: Tensor, sequence: Tensor, seen: list[int]) -> Tensor:
        """Compute one head for each query i as a weighted mean of values, `[time, head_dim]`.

        Output i is sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j).
        """
        rows = slice(head * self.head_dim, (head + 1) * self.head_dim)
        queries = self.feature(x @ self.query.weight[rows].T)
        keys = self.feature(sequence[seen] @ self.key.weight[rows].T)
        values = sequence[seen] @ self.value.weight[rows].T
        outputs = []
        for i, query in enumerate(queries):
            num_seen = sum(j <= i for j in seen) if self.is_causal else len(seen)
            weights = keys[:num_seen] @ query
            total = weights.sum() if num_seen else 1.0
            outputs.append(weights / total @ values[:num_seen])
        return torch.stack(outputs)

    def _project(self, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, `[batch, heads, time, head_dim]` each."""
        projected = self.query(x), self.key(source), self.value(source)
        queries, keys, values = (split_heads(each, self.heads) for each in projected)
        return queries, keys, values

    def _features(
        self, queries: Tensor, keys: Tensor, values: Tensor, real: Tensor | None
    ) -> Features:
        """Return the features; a padded key has zero values and the lowest log scale."""
        phi, values, log_scale = self._summed(keys, values, real)
        phi_of_queries = self.query_features(queries).to(values.dtype)
        return Features(queries=phi_of_queries, keys=phi, values=values, log_scale=log_scale)

    def _summed(
        self, keys: Tensor, values: Tensor, real: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return features of keys, values with a column of ones, and log scales."""
        dtype = torch.float32 if values.dtype is torch.float16 else values.dtype
        phi, log_scale = self.key_features(keys)
        values = functional.pad(values, (0, 1), value=1.0)  # the denominator's column
        if real is not None:
            values = values.masked_fill(~real[:, None, :, None], 0.0)
        if real is not None and log_scale is not None:
            lowest = lowest_log_scale(log_scale.dtype)
            log_scale = log_scale.masked_fill(~real[:, None, :], lowest)
        return phi.to(dtype), values.to(dtype), log_scale

    def _merge(self, mixed: Tensor, like: Tensor) -> Tensor:
        """Merge the heads, in the dtype of `like`, and apply the output projection."""
        merged: Tensor = self.output(merge_heads(mixed.to(like.dtype)))
        return merged
