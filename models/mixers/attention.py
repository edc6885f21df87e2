"""Multi-head softmax attention.

Paper: Vaswani et al. 2017, "Attention Is All You Need" (arXiv:1706.03762), sections 3.2.1-3.2.2.
Equation: head_h = softmax(s Q_h K_h^T / T) V_h with Q_h = x W^Q_h, K_h = x W^K_h, V_h = x W^V_h,
    s = 1 / sqrt(d_k) and T = 1; output = concat(head_1, ..., head_H) W^O.
    `bakeoff.models.kernels.scores` defines the scores other than the product Q_h K_h^T. A relative
    position (`bakeoff.models.positions.relative`) rotates the queries and keys, or adds a term to
    the keys, the scores or the values.
Cost: n^2 d; one sequential operation; any two positions are one step apart.
Departures: general scores are scaled by 1/sqrt(d) by default; Luong's are not scaled. The weights
    have no dropout. A query without a visible key gets zeros from every head (the paper's softmax
    is undefined there). Attention to a context uses no relative position, as in T5.
Kernels: torch's (`bakeoff.models.kernels.attention_kernels`), most of which never write the
    weights to memory, and `materialised`, which does, so that its cost can be measured. Only
    `materialised` supports additive scores and Shaw's positions; unless it is asked for, a GPU
    then computes a chunk of queries at a time (`bakeoff.models.kernels.query_chunks`). A bias
    (alibi, t5) is passed as a mask, which is written to memory.
Fast form: `step` appends to a cache of keys and values, which copies the cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.kernels.attention_kernels import Kernel, checked_kernel, why_no_kernel
from bakeoff.models.kernels.query_chunks import SIZE, over_queries
from bakeoff.models.kernels.scores import SCORES
from bakeoff.models.kernels.softmax_attention import (
    Visibility,
    draw_projections,
    fused_attention,
    fused_scratch_bytes,
    merge_heads,
    newest_token,
    project_to_head,
    softmax_weights,
    split_heads,
    whole_sequence,
)
from bakeoff.models.mixer import Context, Cost, Mask, Mixer, State, without_padding
from bakeoff.models.positions.relative import (
    RelativeKind,
    RelativePosition,
    RotaryPosition,
    ShawPosition,
)

_SCALE_OF_SCORE = {
    "dot": "1/sqrt(d)",
    "general": "1/sqrt(d)",
    "additive": "none",
    "cosine": "learned",
}


class Attention(Mixer):
    """Multi-head softmax attention; see the module docstring."""

    name = "attention"
    paper = "Vaswani et al. 2017, arXiv:1706.03762"
    family = "attention"
    cost = Cost(time="n**2 * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    supports_context = True
    supports_relative = True
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of softmax attention.

        Attributes:
            heads: Number of heads; must divide dim. The numbers of parameters and FLOPs do not
                depend on it if queries, keys and values have the default width.
            score: Similarity of a query and a key: `dot` is the product (the paper's scaled dot
                product, with the default scale), `general` Luong's bilinear form, `additive`
                Bahdanau's network, `cosine` the cosine of their angle.
            scale: Factor of the scores before the softmax; d is the width of a head's keys.
                `learned` is one learned factor per head, which starts at 1/sqrt(d), or for cosines
                at 10 (as in Liu et al. 2022, arXiv:2111.09883). With None it depends on the score:
                1/sqrt(d) for `dot` and `general`, whose spread grows with sqrt(d); `none` for
                `additive`, as in its paper; `learned` for `cosine`. With one scale for all scores,
                the weights of the last two would be almost uniform.
            temperature: T, the divisor of the scaled scores before the softmax, above 0. Higher
                values bring the weights closer to uniform. Terms that a position adds to the scores
                are not divided.
            key_dim: Width of a head's queries and keys; with None it is dim / heads.
            value_dim: Width of a head's values; with None it is dim / heads.
            has_tied_values: Whether the keys also serve as values, without a projection of their
                own.
            kernel: `fused` (torch chooses the kernel), `flash`, `cudnn`, `efficient` or `math`
                (only that kernel is allowed), or `materialised`; with None it is `fused` wherever
                that is possible.
            bias: Whether the projections have biases; the paper's have none. With `output` only the
                output projection has one, as in VOLO.
        """

        heads: int = 4
        score: Literal["dot", "general", "additive", "cosine"] = "dot"
        scale: Literal["1/sqrt(d)", "none", "1/d", "learned"] | None = None
        temperature: float = 1.0
        key_dim: int | None = None
        value_dim: int | None = None
        has_tied_values: bool = False
        kernel: Kernel | None = field(default=None, metadata={"cost_only": True})
        bias: bool | Literal["output"] = False

    def __init__(self, *, position: RelativeKind = None, **given: Any) -> None:
        super().__init__(**given)
        self.position = self._placed(self.config, position)
        self.kernel = checked_kernel(
            self.config.kernel,
            self.position,
            score=self.config.score,
            is_product=self.score.is_product,
            widths=(self.key_dim, self.value_dim),
        )
        self.is_fused = self.kernel != "materialised"

    def make_parameters(self, config: Config) -> None:
        """Create the projections, the score and the scale."""
        dim, bias = self.dim, config.bias is True
        self.heads = config.heads
        self.key_dim = config.key_dim or dim // config.heads
        self.value_dim = config.value_dim or dim // config.heads
        self.own_value_dim = 0 if config.has_tied_values else self.value_dim  # 0: no projection
        key_width, value_width = self.heads * self.key_dim, self.heads * self.value_dim
        self.query = nn.Linear(dim, key_width, bias=bias)
        self.key = nn.Linear(dim, key_width, bias=bias)
        self.value = None if config.has_tied_values else nn.Linear(dim, value_width, bias=bias)
        self.output = nn.Linear(value_width, dim, bias=bias or config.bias == "output")
        draw_projections(self.query, self.key, self.value, self.output)
        self.score = SCORES[config.score](heads=self.heads, key_dim=self.key_dim)
        self.scale, self.log_temperature = self._scaling(config)

    @classmethod
    def check_config(cls, config: Config, *, dim: int) -> None:
        """Raise `ModelError` if heads or widths do not fit, or the temperature is not positive."""
        is_split = config.key_dim is None or config.value_dim is None
        if config.heads < 1 or (is_split and dim % config.heads != 0):
            raise ModelError(f"{cls.name}: heads={config.heads} does not divide dim={dim}")
        if not 0 < config.temperature < math.inf:
            raise ModelError(
                f"{cls.name}: temperature={config.temperature} is not a finite number above 0"
            )
        for key in ("key_dim", "value_dim"):
            if getattr(config, key) is not None and getattr(config, key) < 1:
                raise ModelError(f"{cls.name}: {key}={getattr(config, key)} is below 1")
        widths = [width or dim // config.heads for width in (config.key_dim, config.value_dim)]
        if config.has_tied_values and widths[0] != widths[1]:
            raise ModelError(
                f"{cls.name}: keys of width {widths[0]} cannot serve as values of width "
                f"{widths[1]}; has_tied_values=True needs key_dim = value_dim"
            )

    @classmethod
    def why_not_on(cls, config: Config, **where: Any) -> str:
        """Return why the kernel cannot run under the given conditions; empty if it can."""
        return why_no_kernel(config.kernel, **where)

    def forward(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the mixed tokens, `[batch, time, dim]`; see `Mixer.forward`."""
        self.check_inputs(x, mask, context, context_mask)
        if context is not None:
            return self.attend(without_padding(x, mask), self.prepare(context, context_mask))
        queries, keys, values = self._project(x, mask, None, None)
        visible = whole_sequence(x, mask, None, None, is_causal=self.is_causal)
        return self._attend(queries, keys, values, visible, self.position)

    def prepare(self, context: Tensor, context_mask: Mask = None) -> State:
        """Return keys and values, `[batch, heads, time2, width]` each, and the mask if any."""
        self.check_context_length(context.shape[1])
        prepared = self._keys_and_values(without_padding(context, context_mask))
        return prepared if context_mask is None else (*prepared, context_mask)

    def attend(self, x: Tensor, prepared: State) -> Tensor:
        """Attend to a prepared context; see `Mixer.attend`.

        No relative position is used, since distances between two sequences are not meaningful.
        """
        keys, values, *real = prepared
        visible = whole_sequence(x, None, keys[:, 0], real[0] if real else None, is_causal=False)
        queries = split_heads(self.query(x), self.heads)
        return self._attend(queries, keys, values, visible, None)

    def context_bytes(self, context_length: int) -> int:
        """Return the bytes of one key and one value per head for each token of the context."""
        self.check_context_length(context_length)
        return 4 * self.heads * (self.key_dim + self.own_value_dim) * context_length

    def attention_weights(
        self, x: Tensor, mask: Mask = None, context: Context = None, context_mask: Mask = None
    ) -> Tensor:
        """Return the weights, `[batch, heads, time, time2]`.

        Each row sums to one, or to zero if the query has no visible key.
        """
        self.check_inputs(x, mask, context, context_mask)
        queries, keys, _ = self._project(x, mask, context, context_mask)
        visible = whole_sequence(x, mask, context, context_mask, is_causal=self.is_causal)
        position = self.position if context is None else None
        return softmax_weights(self._scores(queries, keys, visible, position), visible)

    def initial_state(self, batch: int) -> State:
        """Return empty caches `[batch, heads, 0, width]` of keys and, unless tied, of values."""
        self.check_steps()
        widths = (self.key_dim,) if self.value is None else (self.key_dim, self.value_dim)
        return tuple(self.key.weight.new_zeros(batch, self.heads, 0, width) for width in widths)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend from one token, `[batch, dim]`, to itself and all cached tokens."""
        self.check_steps()
        queries, *new = self._project(x_t.unsqueeze(1), None, None, None)
        cached = tuple(torch.cat(pair, dim=2) for pair in zip(state, new, strict=False))
        keys, values = cached[0], cached[-1]  # the same tensor if values are tied
        visible = newest_token(keys.shape[2], x_t.device)
        return self._attend(queries, keys, values, visible, self.position).squeeze(1), cached

    def state_bytes(self, length: int) -> int:
        """Return the bytes of a key and a value per token, which grow with the length."""
        self.check_steps()
        return 4 * self.heads * (self.key_dim + self.own_value_dim) * length

    def flops(self, length: int, batch: int = 1, context_length: int | None = None) -> float:
        """Return the FLOPs of the projections, the scores and the weighted sum of values."""
        self.check_context_length(context_length)
        keys = length if context_length is None else context_length
        num_projected = length * (self.key_dim + self.value_dim)  # queries and outputs
        num_projected += keys * (self.key_dim + self.own_value_dim)
        projections = 2 * self.dim * self.heads * num_projected
        attention = self.score.flops(length, keys)
        attention += 2 * length * keys * self.heads * self.value_dim
        if isinstance(self.position, ShawPosition) and context_length is None:
            attention += self.position.flops(length)
        return float(batch * (projections + attention))

    def forward_bytes(
        self, length: int, batch: int = 1, context_length: int | None = None
    ) -> float:
        """Return the peak bytes: the projections and the largest of three stages.

        `_bytes_of_weights` gives those of the stage that holds the n x n weights.
        """
        self.check_context_length(context_length)
        if self.position is not None:
            raise ModelError(
                f"{self.name} gives no formula for its bytes with {self.position.name}"
            )
        is_even = self.key_dim == self.value_dim  # otherwise torch writes the weights to memory
        if self.is_fused and not (is_even and self.kernel in ("fused", "flash")):
            raise ModelError(f"{self.name} gives no formula for such heads by kernel={self.kernel}")
        is_plain = self.is_fused and self.config.score == "dot" and self.log_temperature is None
        if context_length is not None and not is_plain:
            raise ModelError(f"{self.name} gives no formula for these scores over a context")
        keys = length if context_length is None else context_length
        numbers = length * self.key_dim + keys * (self.key_dim + self.own_value_dim)
        held = 8 * (length + keys) + 4 * batch * self.heads * numbers  # positions and projections
        output = 4 * batch * length * self.dim
        heads = 4 * batch * length * self.heads * self.value_dim
        is_split = not self.is_fused or self.config.score == "general"  # head by head in memory
        merged = heads if is_split and self.heads > 1 else 0  # merging the heads copies them
        if not self.is_fused:
            weights = 4 * batch * length**2 * self.heads
            made = self._bytes_of_weights(length, batch)
            return held + max(made, weights + heads + merged + output)
        scratch = fused_scratch_bytes(
            rows=batch * self.heads, queries=length, keys=keys, width=self.key_dim
        )
        changed = self._bytes_of_changed(length, batch)
        return held + changed + heads + max(scratch, merged + output)

    def _bytes_of_weights(self, length: int, batch: int) -> float:
        """Return the bytes held while the n x n weights are computed, both scores and weights.

        A causal mixer also holds a mask and a penalty, of 1 and 4 bytes per pair, and before that
        the distances, of 8 bytes, with two masks. With additive scores each pair of a query and a
        key has a hidden layer of the key's width, which a product copies.
        """
        pairs = length**2
        scores = 4 * batch * self.heads * pairs
        if not self.score.is_product:
            return (2 * self.key_dim + 1) * scores + scores * self.key_dim / length
        changed = self._bytes_of_changed(length, batch)
        if not self.is_causal:
            return changed + 2 * scores
        return changed + scores + pairs * max(5 + 4 * batch * self.heads, 10)

    def _bytes_of_changed(self, length: int, batch: int) -> float:
        """Return the bytes of queries and keys that the score or the scale transforms."""
        num_changed = {"dot": 0, "general": 1, "additive": 0, "cosine": 2}[self.config.score]
        is_scaled = self.log_temperature is not None or not (self.is_fused or self.scale == 1.0)
        if is_scaled and self.score.is_product:
            num_changed = max(num_changed, 1)
        return 4 * batch * length * self.heads * self.key_dim * num_changed

    def reference_of_one(self, x: Tensor, others: Tensor, seen: list[int]) -> Tensor:
        """Compute one query of one head at a time, over the keys that it may attend to."""
        position = self.position if others is x else None
        rows = []
        for i in range(len(x)):
            past = others[some := self._seen_from(i, seen)]
            heads = [self._one_head(h, x[i], i, past, some, position) for h in range(self.heads)]
            rows.append(self.output(torch.cat(heads)))
        return torch.stack(rows)

    def _seen_from(self, place: int, seen: list[int]) -> list[int]:
        return [j for j in seen if not self.is_causal or j <= place]

    def _one_head(
        self,
        head: int,
        token: Tensor,
        place: int,
        others: Tensor,
        places: list[int],
        position: RelativePosition | None,
    ) -> Tensor:
        """Return the sum over the tokens `others` `[seen, dim]` of softmax(score) times value."""
        query = project_to_head(self.query, head, self.key_dim, token)
        keys = project_to_head(self.key, head, self.key_dim, others)
        values = keys
        if self.value is not None:
            values = project_to_head(self.value, head, self.value_dim, others)
        query = self.score.reference_query(head, query)
        added = torch.zeros_like(keys[:, 0])
        if position is not None and places:
            distances = [other - place for other in places]
            query = position.turned(query, place)
            pairs = zip(keys, places, distances, strict=True)
            keys = torch.stack([position.turned(k, j) + position.key(r) for k, j, r in pairs])
            moved = zip(values, distances, strict=True)
            values = torch.stack([value + position.value(r) for value, r in moved])
            added = torch.stack([position.added(head, r) for r in distances]).to(added.dtype)
        scores = self._reference_scale(head) * self.score.reference(head, query, keys)
        terms = torch.exp(scores + added)
        weights = terms / terms.sum() if len(terms) else terms
        return self.reference_reading(weights) @ values

    def reference_reading(self, weights: Tensor) -> Tensor:
        """Return the weights `[seen]` that the reference applies to the values; here unchanged."""
        return weights

    def _reference_scale(self, head: int) -> Tensor | float:
        """Return the scale as the knobs define it, independently of what the fast form stores."""
        if self.log_temperature is not None:
            learned: Tensor = self.log_temperature[head].exp() / self.config.temperature
            return learned
        d: int = self.key.weight.shape[0] // self.config.heads
        scales = {"1/sqrt(d)": 1 / math.sqrt(d), "1/d": 1 / d, "none": 1.0}
        own = "none" if self.config.score == "additive" else "1/sqrt(d)"
        return float(scales[self.config.scale or own] / self.config.temperature)

    def _scaling(self, config: Config) -> tuple[float, nn.Parameter | None]:
        """Return the constant factor of the scores, and the logarithm of the learned one or None.

        The constant factor includes the temperature, which therefore costs nothing.
        """
        by_name = {"1/sqrt(d)": self.key_dim**-0.5, "1/d": 1 / self.key_dim, "none": 1.0}
        scale = config.scale or _SCALE_OF_SCORE[config.score]
        if scale != "learned":
            return by_name[scale] / config.temperature, None
        start = torch.tensor(10.0 if config.score == "cosine" else by_name["1/sqrt(d)"])
        return 1 / config.temperature, nn.Parameter(start.log().repeat(self.heads))

    def _placed(self, config: Config, position: RelativeKind) -> RelativePosition | None:
        """Return the relative position for these heads; raise if the score does not support it."""
        if position is None:
            return None
        if issubclass(position, RotaryPosition) and config.score == "additive":
            raise ModelError("rope turns products of queries and keys; score='additive' has none")
        is_shaw, widths = issubclass(position, ShawPosition), (self.key_dim, self.value_dim)
        if is_shaw and config.score not in ("dot", "general"):
            raise ModelError(f"shaw adds to products with keys; score={config.score!r} has none")
        if is_shaw and widths[0] != widths[1]:
            said = "shaw adds vectors of one width to keys and values"
            raise ModelError(f"{said}, not of {widths[0]} and {widths[1]}")
        return position(heads=self.heads, head_dim=self.key_dim, is_causal=self.is_causal)

    def _project(
        self, x: Tensor, mask: Mask, context: Context, context_mask: Mask
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, `[batch, heads, time, width]` each; padding as zeros."""
        x = without_padding(x, mask)
        source = x if context is None else without_padding(context, context_mask)
        queries = split_heads(self.query(x), self.heads)
        keys, values = self._keys_and_values(source)
        return queries, keys, values

    def _keys_and_values(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, `[batch, heads, time, width]` each; the same tensor if tied."""
        keys = split_heads(self.key(source), self.heads)
        return keys, keys if self.value is None else split_heads(self.value(source), self.heads)

    def _attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        visible: Visibility,
        position: RelativePosition | None,
    ) -> Tensor:
        """Return the heads merged by the output projection, `[batch, time, dim]`."""
        if self.is_fused:
            queries, keys = self._prepare(queries, keys, visible, position)
            queries = self._learned_scaled(queries)
            bias = None if position is None else position.bias(visible.distance(), queries.dtype)
            how: dict[str, Any] = {"scale": self.scale, "bias": bias, "kernel": self.kernel}
            heads = fused_attention(queries, keys, values, visible, **how)
        elif self.config.kernel == "materialised":
            # The weights are whole and kept to the end, since their cost is what it is for.
            weights = softmax_weights(self._scores(queries, keys, visible, position), visible)
            heads = self._attended(weights, values, visible, position)
        else:
            attend = partial(self._weighted, position=position)
            size = SIZE if self.score.is_product else SIZE // 8  # a hidden layer for each pair
            (heads,) = over_queries(attend, (queries,), (keys, values), visible, size=size)
        merged: Tensor = self.output(merge_heads(heads))
        return merged

    def _weighted(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        visible: Visibility,
        *,
        position: RelativePosition | None,
    ) -> tuple[Tensor]:
        """Return the heads `[batch, heads, time, width]` by explicit weights, as a tuple of one."""
        weights = softmax_weights(self._scores(queries, keys, visible, position), visible)
        return (self._attended(weights, values, visible, position),)

    def _attended(
        self,
        weights: Tensor,
        values: Tensor,
        visible: Visibility,
        position: RelativePosition | None,
    ) -> Tensor:
        """Return the values weighted, `[batch, heads, time, width]`."""
        heads = weights @ values
        if isinstance(position, ShawPosition):
            heads = heads + position.added_to_values(weights, visible.distance())
        return heads

    def _prepare(
        self,
        queries: Tensor,
        keys: Tensor,
        visible: Visibility,
        position: RelativePosition | None,
    ) -> tuple[Tensor, Tensor]:
        """Return queries and keys transformed for the score and rotated to their positions."""
        queries, keys = self.score.prepare(queries, keys)
        if position is None:
            return queries, keys
        return position.rotate(queries, visible.queries), position.rotate(keys, visible.keys)

    def _scores(
        self,
        queries: Tensor,
        keys: Tensor,
        visible: Visibility,
        position: RelativePosition | None,
    ) -> Tensor:
        """Return the scaled scores `[batch, heads, time, time2]`, those of hidden keys included."""
        queries, keys = self._prepare(queries, keys, visible, position)
        if self.score.is_product:  # cheaper than scaling the scores
            queries = self._scaled(queries)
        scores = self.score.scores(queries, keys)
        if isinstance(position, ShawPosition):
            scores = scores + position.added_to_scores(queries, visible.distance())
        if not self.score.is_product:
            scores = self._scaled(scores)
        bias = None if position is None else position.bias(visible.distance(), queries.dtype)
        return scores if bias is None else scores + bias

    def _scaled(self, x: Tensor) -> Tensor:
        """Return queries or scores `[batch, heads, ...]` times the constant and learned scale."""
        x = self._learned_scaled(x)
        return x if self.scale == 1.0 else x * self.scale

    def _learned_scaled(self, x: Tensor) -> Tensor:
        """Return queries or scores times the learned scale of each head, if there is one."""
        if self.log_temperature is None:
            return x
        return x * self.log_temperature.exp().reshape(-1, 1, 1)
