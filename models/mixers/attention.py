"""Softmax attention, multi-head.

Paper: Vaswani et al. 2017, "Attention Is All You Need" (arXiv:1706.03762), sections 3.2.1-3.2.2.
Equation: head_h = softmax(Q_h K_h^T / sqrt(d_h)) V_h with Q_h = x W^Q_h, K_h = x W^K_h,
    V_h = x W^V_h and d_h = dim / heads; output = concat(head_1, ..., head_H) W^O.
Cost: n^2 d; one sequential operation; any two positions are one step apart.
Departures: keys and values have the same width as queries. Dropout of the weights is left out.
    A query that may see nothing takes zeros from every head (the paper's softmax is undefined).
Fast form: `scaled_dot_product_attention`, which never writes the weights to memory where a fused
    kernel exists. `step` appends to a cache of keys and values by copying it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.errors import ModelError
from models.mixer import Cost, Mixer, State, without_padding


class Attention(Mixer):
    """Every token takes a weighted mean of all tokens' values; see the module's note."""

    name = "attention"
    paper = "Vaswani et al. 2017, arXiv:1706.03762"
    family = "attention"
    cost = Cost(time="n**2 * d", sequential_operations="1", maximum_path_length="1")
    supports_causal = True
    supports_step = True
    supports_context = True
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs of softmax attention.

        Attributes:
            heads: Number of heads; must divide dim. Parameters and FLOPs do not depend on it.
            scale: What scores are multiplied by before the softmax; d is the width of a head.
            bias: Whether the four projections have biases; the paper's have none.
        """

        heads: int = 4
        scale: Literal["1/sqrt(d)", "none"] = "1/sqrt(d)"
        bias: bool = False

    def __init__(self, *, dim: int, max_length: int, is_causal: bool, config: Config) -> None:
        super().__init__(dim=dim, max_length=max_length, is_causal=is_causal, config=config)
        self.heads = config.heads
        self.head_dim = dim // config.heads
        self.scale = self.head_dim**-0.5 if config.scale == "1/sqrt(d)" else 1.0
        self.query = nn.Linear(dim, dim, bias=config.bias)
        self.key = nn.Linear(dim, dim, bias=config.bias)
        self.value = nn.Linear(dim, dim, bias=config.bias)
        self.output = nn.Linear(dim, dim, bias=config.bias)
        for linear in (self.query, self.key, self.value, self.output):
            # Keeps the variance of a normalised input, so that scores have variance d unscaled:
            # the premise of the paper's footnote on 1/sqrt(d).
            nn.init.xavier_uniform_(linear.weight)

    @classmethod
    def check_config(cls, config: Config, *, dim: int) -> None:
        """Refuse heads that do not divide dim."""
        if config.heads < 1 or dim % config.heads != 0:
            raise ModelError(f"{cls.name}: heads={config.heads} does not divide dim={dim}")

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """See `Mixer.forward`."""
        self.check_inputs(x, mask, context)
        queries, keys, values = self._project(x, mask, context, context_mask)
        allowed = self._allowed(x, mask, context, context_mask)
        if allowed is None:
            heads = functional.scaled_dot_product_attention(
                queries, keys, values, is_causal=self.is_causal, scale=self.scale
            )
        else:
            # Kernels differ in a softmax over nothing: such a row looks everywhere, then is zeroed.
            sees_nothing = ~allowed.any(dim=-1, keepdim=True)
            heads = functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=allowed | sees_nothing, scale=self.scale
            ).masked_fill(sees_nothing, 0.0)
        return self._merge(heads)

    def attention_weights(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """`[batch, heads, time, time2]`; a row sums to one, or to zero if it may see nothing."""
        self.check_inputs(x, mask, context)
        queries, keys, _ = self._project(x, mask, context, context_mask)
        scores = queries @ keys.transpose(-1, -2) * self.scale  # (batch, heads, time, time2)
        allowed = self._allowed(x, mask, context, context_mask)
        if allowed is None:
            allowed = self._past(scores.shape[-1], scores.device)
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~allowed, lowest).softmax(dim=-1) * allowed

    def initial_state(self, batch: int) -> State:
        """Empty caches of keys and values, `[batch, heads, 0, head_dim]` each."""
        self.check_steps()
        empty = self.key.weight.new_zeros(batch, self.heads, 0, self.head_dim)
        return empty, empty

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One token attends to itself and to all cached ones."""
        self.check_steps()
        queries, new_keys, new_values = self._project(x_t.unsqueeze(1), None, None, None)
        keys = torch.cat([state[0], new_keys], dim=2)
        values = torch.cat([state[1], new_values], dim=2)
        heads = functional.scaled_dot_product_attention(queries, keys, values, scale=self.scale)
        return self._merge(heads).squeeze(1), (keys, values)

    def state_bytes(self, length: int) -> int:
        """A key and a value per token: grows with the length."""
        self.check_steps()
        return 4 * 2 * self.dim * length

    def flops(self, length: int, batch: int = 1) -> float:
        """Four projections, the scores, and the weighted sum of values."""
        projections = 4 * 2 * length * self.dim**2
        attention = 2 * 2 * length**2 * self.dim
        return float(batch * (projections + attention))

    def reference(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """One query of one head at a time, over the keys that it may see."""
        sequence, real = (x, mask) if context is None else (context, context_mask)
        rows = []
        for b in range(x.shape[0]):
            seen = range(sequence.shape[1]) if real is None else real[b].nonzero().flatten()
            for i in range(x.shape[1]):
                query_token = torch.zeros_like(x[b, i]) if _is_pad(mask, b, i) else x[b, i]
                past = [int(j) for j in seen if not self.is_causal or int(j) <= i]
                heads = [self._one_head(h, query_token, sequence[b, past]) for h in self._heads()]
                rows.append(self.output(torch.cat(heads)))
        return torch.stack(rows).reshape(x.shape)

    def _one_head(self, rows: slice, token: Tensor, others: Tensor) -> Tensor:
        """softmax(q k_j / sqrt(d)) v_j summed over the tokens j in `others` `[seen, dim]`."""
        query = _rows(self.query, rows, token)
        terms = [torch.exp(self.scale * query.dot(_rows(self.key, rows, o))) for o in others]
        total = sum(terms, start=torch.zeros_like(query[0]))
        head = torch.zeros_like(query)
        for term, other in zip(terms, others, strict=True):
            head = head + term / total * _rows(self.value, rows, other)
        return head

    def _heads(self) -> list[slice]:
        """The rows of the projections that belong to each head."""
        return [slice(h * self.head_dim, (h + 1) * self.head_dim) for h in range(self.heads)]

    def _project(
        self, x: Tensor, mask: Tensor | None, context: Tensor | None, context_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys, values, `[batch, heads, time, head_dim]` each; padding enters as zeros."""
        x = without_padding(x, mask)
        source = x if context is None else without_padding(context, context_mask)
        return (
            self._split(self.query(x)),
            self._split(self.key(source)),
            self._split(self.value(source)),
        )

    def _allowed(
        self, x: Tensor, mask: Tensor | None, context: Tensor | None, context_mask: Tensor | None
    ) -> Tensor | None:
        """Who may see whom, broadcastable to `[batch, heads, time, time2]`; None: no padding."""
        real = mask if context is None else context_mask
        if real is None:
            return None
        return real[:, None, None, :] & self._past(real.shape[1], x.device)

    def _past(self, length: int, device: torch.device) -> Tensor:
        """`[time or 1, time2]`, True where a key is not in a query's future."""
        if not self.is_causal:
            return torch.ones(1, length, dtype=torch.bool, device=device)
        return torch.ones(length, length, dtype=torch.bool, device=device).tril()

    def _split(self, x: Tensor) -> Tensor:
        batch, time, _ = x.shape
        heads = x.reshape(batch, time, self.heads, self.head_dim)
        return heads.transpose(1, 2)  # (batch, heads, time, head_dim)

    def _merge(self, heads: Tensor) -> Tensor:
        merged: Tensor = self.output(heads.transpose(1, 2).flatten(2))  # (batch, time, dim)
        return merged


def _rows(linear: nn.Linear, rows: slice, token: Tensor) -> Tensor:
    """The projection of one token `[dim]` to one head `[head_dim]`."""
    head = linear.weight[rows] @ token
    return head if linear.bias is None else head + linear.bias[rows]


def _is_pad(mask: Tensor | None, batch: int, time: int) -> bool:
    return mask is not None and not bool(mask[batch, time])
