"""What mixers by positive features share: heads, projections, padding, the state, the reference.

A subclass says which features. The sums are those of `models.kernels.kernel_attention`.

Precision: features are computed in float32 at least, under autocast too; products of features are
in the inputs' own precision, save that float16, which lacks their range, is widened.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from models.errors import ModelError
from models.kernels.kernel_attention import (
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
from models.kernels.softmax_attention import merge_heads, split_heads, square_projections
from models.mixer import Context, Mask, Mixer, State, without_padding


class KernelMixer(Mixer):
    """Attention by features between projections to heads.

    Attributes:
        has_log_scale: Whether a logarithm is taken out of the features of each key.
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
        """Four projections; a subclass adds its features."""
        self.heads: int = config.heads
        self.head_dim: int = self.dim // self.heads
        self.chunk: int = config.chunk
        self.query, self.key, self.value, self.output = square_projections(self.dim)

    @abstractmethod
    def feature(self, x: Tensor) -> Tensor:
        """The definition, for the reference: `[tokens, head_dim]` -> `[tokens, features]`."""

    @abstractmethod
    def query_features(self, queries: Tensor) -> Tensor:
        """`[batch, heads, time, head_dim]` -> `[batch, heads, time, features]`.

        In float32 at least; each query's up to a positive factor, which cancels.
        """

    @abstractmethod
    def key_features(self, keys: Tensor) -> tuple[Tensor, Tensor | None]:
        """The same of keys, and the log scale `[batch, heads, time]` that was taken out."""

    @abstractmethod
    def num_features(self) -> int:
        """Of one head."""

    @abstractmethod
    def feature_flops(self, length: int) -> float:
        """Of the features of queries and keys, of all heads of one sequence."""

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """See `Mixer.forward`."""
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
        """The sums over all of the context, `[batch, heads, features, head_dim + 1]`.

        They do not grow with it; log scales are brought back, and the factor left cancels.
        """
        self.check_context_length(context.shape[1])
        source = without_padding(context, context_mask)
        keys, values = (split_heads(map_(source), self.heads) for map_ in (self.key, self.value))
        with torch.autocast(source.device.type, enabled=False):
            phi, values, log_scale = self._summed(keys, values, context_mask)
            return (phi.transpose(-1, -2) @ at_one_scale(values, log_scale),)

    def attend(self, x: Tensor, prepared: State) -> Tensor:
        """See `Mixer.attend`."""
        queries = split_heads(self.query(x), self.heads)
        with torch.autocast(x.device.type, enabled=False):
            mixed = ratio(self.query_features(queries).to(prepared[0].dtype) @ prepared[0])
        return self._merge(mixed, like=queries)

    def context_bytes(self, context_length: int) -> int:
        """The sums: does not grow."""
        self.check_context_length(context_length)
        return 4 * self.heads * self.num_features() * (self.head_dim + 1)

    def initial_state(self, batch: int) -> State:
        """Sums over no tokens, `[batch, heads, features, head_dim + 1]`; the last column is z.

        With log scales also the largest so far, `[batch, heads]`, which the sums stand relative to.
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
        """The sums, and with log scales a number a head: does not grow."""
        self.check_steps()
        num_sums = self.num_features() * (self.head_dim + 1)
        return 4 * self.heads * (num_sums + int(self.has_log_scale))

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Four projections, the features, and the sums; see `kernel_flops`.

        All of it is linear; of two sequences, half is for the queries of one, half for the other.
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
        """Projections, features, log scales, and the sums; see `numbers_of_sums`."""
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
        """One query of one head at a time, over the keys that it may see."""
        heads = [self._one_head(h, x, others, seen) for h in range(self.heads)]
        mixed: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed

    def _one_head(self, head: int, x: Tensor, sequence: Tensor, seen: list[int]) -> Tensor:
        """sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j) for each i, `[time, head_dim]`."""
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
        """Queries, keys, values, `[batch, heads, time, head_dim]` each."""
        projected = self.query(x), self.key(source), self.value(source)
        queries, keys, values = (split_heads(each, self.heads) for each in projected)
        return queries, keys, values

    def _features(
        self, queries: Tensor, keys: Tensor, values: Tensor, real: Tensor | None
    ) -> Features:
        """What is summed; a padded key has zeros for values, and the lowest log scale."""
        phi, values, log_scale = self._summed(keys, values, real)
        phi_of_queries = self.query_features(queries).to(values.dtype)
        return Features(queries=phi_of_queries, keys=phi, values=values, log_scale=log_scale)

    def _summed(
        self, keys: Tensor, values: Tensor, real: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Features of keys, values with a column of ones, log scales; see `_features`."""
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
        """Heads side by side, in the precision of `like`, and projected."""
        merged: Tensor = self.output(merge_heads(mixed.to(like.dtype)))
        return merged
