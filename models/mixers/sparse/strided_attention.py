"""Strided attention: one set of keys is near the query, the other is spread over the sequence.

Paper: Child et al. 2019, "Generating Long Sequences with Sparse Transformers" (arXiv:1904.10509),
    sections 4.2 and 4.3.
Equation: that of `attention`, where token i attends to the keys j of two sets, with the stride l:
    strided   |i - j| <= l, and (i - j) mod l = 0;
    fixed     i div l = j div l, and j mod l >= l - c.
    Half of the heads attend to the first set and the others to the second, or all attend to the
    union of both.
Cost: n (k + n / k) d for the stride k, n^1.5 d if k is the root of n; one sequential operation; two
    layers between any two positions.
Departures: the form that is not causal is not the paper's; its distances extend to both sides. Sets
    that alternate from layer to layer are left out. By default the stride is 16 and c a quarter of
    it, where the paper uses 128 and 8 to 32, since sequences here are shorter. In the form that is
    not causal, no summary covers the tokens of a truncated last block.
Padding: padded keys are hidden; each real token keeps its position.
Fast form: keys of both sets are gathered, for rows of queries that share them: blocks of l tokens,
    tokens l apart, or all. Heads with one set each use `scaled_dot_product_attention`; the union is
    two products under one softmax. `step` holds all keys and values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.softmax_attention import (
    masked_attention,
    merge_heads,
    project_to_head,
    softmax_of_shown,
    split_heads,
    square_projections,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding

Rule = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Rows:
    """Queries in rows, each row with the keys that any of its queries attends to.

    Attributes:
        queries: Positions, `[rows, in_row]`, each once; some may be beyond the end of the sequence.
        keys: Positions, `[rows, in_row2]`; some may be before the start or beyond the end.
        allowed: `[rows, in_row, in_row2]`, True where a query attends to a key.
    """

    queries: Tensor
    keys: Tensor
    allowed: Tensor

    def of_queries(self, x: Tensor) -> Tensor:
        """Gather queries `[batch, heads, time, width]` into rows.

        The result has the shape `[batch * heads, rows, in_row, width]`.
        """
        return x.flatten(0, 1)[:, self.queries.clamp(max=x.shape[2] - 1)]

    def of_keys(self, x: Tensor) -> Tensor:
        """Gather keys or values `[batch, heads, time, width]` into rows.

        The result has the shape `[batch * heads, rows, in_row2, width]`.
        """
        return x.flatten(0, 1)[:, self.keys.clamp(0, x.shape[2] - 1)]

    def shown(self, mask: Mask, heads: int) -> Tensor:
        """Return `allowed` for real keys, `[batch * heads or 1, rows, in_row, in_row2]`."""
        if mask is None:
            return self.allowed.unsqueeze(0)
        real = mask[:, self.keys.clamp(0, mask.shape[1] - 1)].unsqueeze(2)
        return (self.allowed & real).repeat_interleave(heads, dim=0)

    def by_token(self, x: Tensor) -> Tensor:
        """Return `[batch * heads, rows, in_row, width]` as `[batch * heads, time, width]`."""
        return x.flatten(1, 2)[:, self.queries.flatten().argsort()]

    def in_rows(self, x: Tensor) -> Tensor:
        """Invert `by_token`: return `[batch * heads, rows, in_row, width]`."""
        return x[:, self.queries]


class StridedAttention(Mixer):
    """Softmax attention to few near and few far keys; see the module docstring."""

    name = "strided_attention"
    paper = "Child et al. 2019, arXiv:1904.10509"
    family = "sparse attention"
    cost = Cost(time="n * k * d + n**2 / k * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    why_not_relative = "gathered keys stand at many distances"
    is_position_aware = True
    mask_mode = "exact"
    heads_divide_dim = True
    positive_knobs = ("stride",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of strided attention.

        Attributes:
            heads: Number of heads; must divide dim, and be even if `joined` is `heads`.
            pattern: Sets of keys, see the module docstring; the paper uses `strided` for images and
                music, and `fixed` for text.
            stride: l, about the root of the length.
            summaries: c, the number of last tokens of each block, to which all tokens attend; with
                None it is a quarter of the stride, at least 1. The pattern `strided` has none.
            joined: `heads` if half of the heads attend to each set, `merged` if all attend to the
                union.
        """

        heads: int = 4
        pattern: Literal["fixed", "strided"] = "fixed"
        stride: int = 16
        summaries: int | None = None
        joined: Literal["heads", "merged"] = "heads"

    @classmethod
    def check_config(cls, config: Any, *, dim: int) -> None:
        """Raise `ModelError` if heads are odd but share two sets, or summaries are invalid."""
        super().check_config(config, dim=dim)
        if config.joined == "heads" and config.heads % 2 != 0:
            raise ModelError(
                f"{cls.name}: joined='heads' gives half of the heads to each set, and "
                f"heads={config.heads} is odd; give even ones, or joined='merged'"
            )
        if config.summaries is None:
            return
        if config.pattern == "strided":
            raise ModelError(
                f"{cls.name}: summaries={config.summaries} is refused by pattern='strided', "
                "which has none"
            )
        if not 1 <= config.summaries <= config.stride:
            raise ModelError(
                f"{cls.name}: summaries={config.summaries} is not within 1 and "
                f"stride={config.stride}"
            )

    def make_parameters(self, config: Config) -> None:
        """Create four projections."""
        self.heads, self.stride = config.heads, config.stride
        self.head_dim = self.dim // config.heads
        self.is_fixed = config.pattern == "fixed"
        self.summaries = config.summaries or max(1, config.stride // 4)
        self.query, self.key, self.value, self.output = square_projections(self.dim)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        x = without_padding(x, mask)
        projected = [split_heads(each(x), self.heads) for each in self._projections()]
        near, far = self._near(x.shape[1], x.device), self._far(x.shape[1], x.device)
        if self.config.joined == "merged":
            heads = self._of_both(near, far, projected, mask)
        else:
            halves = zip(*(each.chunk(2, dim=1) for each in projected), strict=True)
            of_each = [
                self._of_one(rows, list(half), mask)
                for rows, half in zip((near, far), halves, strict=True)
            ]
            heads = torch.cat(of_each, dim=1)
        mixed: Tensor = self.output(merge_heads(heads))
        return mixed

    def initial_state(self, batch: int) -> State:
        """Return empty caches of keys and values, `[batch, heads, 0, head_dim]` each."""
        self.check_steps()
        empty = self.key.weight.new_zeros(batch, self.heads, 0, self.head_dim)
        return empty, empty

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to the cached tokens in its sets."""
        self.check_steps()
        x = x_t.unsqueeze(1)
        query, *newest = (split_heads(each(x), self.heads) for each in self._projections())
        keys, values = (torch.cat(pair, dim=2) for pair in zip(state, newest, strict=True))
        places = torch.arange(keys.shape[2], device=x.device)
        near, far = (rule(places[-1:], places) for rule in (self._is_near, self._is_far))
        sets = [near | far] * 2 if self.config.joined == "merged" else [near, far]
        allowed = torch.stack(sets).repeat_interleave(self.heads // 2, dim=0)
        if self.heads == 1:
            allowed = sets[0]
        seen = masked_attention(
            query, keys, values, allowed.reshape(1, self.heads, 1, -1), scale=self.head_dim**-0.5
        )
        mixed: Tensor = self.output(merge_heads(seen))
        return mixed.squeeze(1), (keys, values)

    def state_bytes(self, length: int) -> int:
        """Return the bytes of the cached keys and values, which grow with the length."""
        self.check_steps()
        return 4 * 2 * self.dim * length

    def cost_symbols(self) -> dict[str, float]:
        """Return k, the stride."""
        return {"k": self.stride}

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections, and of each query with all keys of its row."""
        self.check_context_length(context_length)
        num_blocks = -(-length // self.stride)
        near = self.stride * (1 if self.is_fixed else 2 if self.is_causal else 3)
        far = num_blocks * (self.summaries if self.is_fixed else 1)
        pairs = num_blocks * self.stride * (near + far)
        width = self.dim if self.config.joined == "merged" else self.dim // 2
        return float(2 * batch * (4 * length * self.dim**2 + 2 * pairs * width))

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query of one head at a time, over the keys of its sets."""
        heads = []
        for h in range(self.heads):
            queries, keys, values = (
                project_to_head(each, h, self.head_dim, x) for each in self._projections()
            )
            rows = []
            for i, query in enumerate(queries):
                met = [j for j in seen if self._is_seen(h, i, j)]
                terms = torch.exp(keys[met] @ query / self.head_dim**0.5)
                rows.append(terms / terms.sum() @ values[met] if met else 0 * query)
            heads.append(torch.stack(rows))
        mixed: Tensor = self.output(torch.cat(heads, dim=1))
        return mixed

    def _is_seen(self, head: int, i: int, j: int) -> bool:
        """Return True if token i attends to token j in this head, by definition."""
        if self.is_causal and j > i:
            return False
        if self.is_fixed:
            first, second = i // self.stride == j // self.stride, False
            second = j % self.stride in range(self.stride - self.summaries, self.stride)
        else:
            first, second = abs(i - j) <= self.stride, (i - j) % self.stride == 0
        if self.config.joined == "merged":
            return first or second
        return first if head < self.heads // 2 else second

    def _projections(self) -> tuple[torch.nn.Linear, ...]:
        return self.query, self.key, self.value

    def _is_near(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return True where a key is in the first set of a query."""
        if self.is_fixed:
            return queries // self.stride == keys // self.stride
        return (queries - keys).abs() <= self.stride

    def _is_far(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return True where a key is in the second set of a query."""
        if self.is_fixed:
            return keys % self.stride + 0 * queries >= self.stride - self.summaries
        return (queries - keys) % self.stride == 0

    def _near(self, length: int, device: torch.device) -> Rows:
        """Return rows of l tokens with their own block and, if strided, its neighbours."""
        places = self._blocks(length, device)
        sides = [0] if self.is_fixed else [-1, 0] if self.is_causal else [-1, 0, 1]
        keys = torch.cat([places + side * self.stride for side in sides], dim=1)
        return self._rows(places, keys, length, self._is_near)

    def _far(self, length: int, device: torch.device) -> Rows:
        """Return the rows of the second set.

        If strided, these are tokens l apart; if fixed, one row with the summaries of all blocks.
        """
        places = self._blocks(length, device)
        if not self.is_fixed:
            return self._rows(places.T, places.T, length, self._is_far)
        keys = places[:, -self.summaries :].reshape(1, -1)
        return self._rows(places.reshape(1, -1), keys, length, self._is_far)

    def _blocks(self, length: int, device: torch.device) -> Tensor:
        """Return the positions in blocks, `[blocks, l]`."""
        num_blocks = -(-length // self.stride)
        return torch.arange(num_blocks * self.stride, device=device).reshape(-1, self.stride)

    def _rows(self, queries: Tensor, keys: Tensor, length: int, rule: Rule) -> Rows:
        """Return the rows with their mask: `rule`, within the sequence, and causal if required."""
        seen, met = queries.unsqueeze(-1), keys.unsqueeze(-2)
        allowed = rule(seen, met) & (met >= 0) & (met < length)
        return Rows(queries, keys, allowed & (met <= seen) if self.is_causal else allowed)

    def _of_one(self, rows: Rows, projected: list[Tensor], mask: Mask) -> Tensor:
        """Return heads that attend to one set, `[batch, heads, time, head_dim]`."""
        queries, keys, values = projected
        mixed = masked_attention(
            rows.of_queries(queries),
            rows.of_keys(keys),
            rows.of_keys(values),
            rows.shown(mask, queries.shape[1]),
            scale=self.head_dim**-0.5,
        )
        return rows.by_token(mixed)[:, : queries.shape[2]].reshape(queries.shape)

    def _of_both(self, near: Rows, far: Rows, projected: list[Tensor], mask: Mask) -> Tensor:
        """Return heads that attend to the union of both sets; a key in both counts once."""
        queries, keys, values = projected
        once = far.allowed & ~self._is_near(far.queries.unsqueeze(-1), far.keys.unsqueeze(-2))
        sets = [near, Rows(far.queries, far.keys, once)]
        scores, hidden = [], []
        for rows in sets:
            products = rows.of_queries(queries) @ rows.of_keys(keys).mT
            scores.append(rows.by_token(products * self.head_dim**-0.5))
            hidden.append(~rows.by_token(rows.shown(mask, self.heads)))
        weights = _softmax(torch.cat(scores, dim=-1), torch.cat(hidden, dim=-1)).to(values.dtype)
        width = scores[0].shape[-1]
        of_near, of_far = (
            rows.by_token(rows.in_rows(each) @ rows.of_keys(values))
            for rows, each in zip(sets, (weights[..., :width], weights[..., width:]), strict=True)
        )
        mixed = of_near + of_far
        return mixed[:, : queries.shape[2]].reshape(queries.shape)


def _softmax(scores: Tensor, hidden: Tensor) -> Tensor:
    """Return the softmax in float32 at least over visible keys; zeros if there are none."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return softmax_of_shown(scores, hidden)
