"""Branches of LeViT's blocks: attention with a bias for each distance, and its feed-forward.

Source: Graham et al. 2021 (arXiv:2104.01136), section 4.2; `bakeoff.models.architectures.levit`
gives the equations. Batch norms are over all tokens of a batch; there is never a mask.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.kernels.attention_kernels import attended
from bakeoff.models.kernels.softmax_attention import merge_heads, split_heads

Grid = tuple[int, int]  # rows and columns


def shrunk(grid: Grid) -> Grid:
    """Return the size of a grid after every second row and column is dropped, rounded up."""
    return (grid[0] + 1) // 2, (grid[1] + 1) // 2


class NormedLinear(nn.Module):
    """A linear map without bias, and a batch norm: `[batch, time, inputs]` -> `[..., outputs]`.

    Args:
        inputs: Width of the input.
        outputs: Width of the output.
        gain: Initial gain of the norm.
    """

    def __init__(self, inputs: int, outputs: int, *, gain: float = 1.0) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.norm = nn.BatchNorm1d(outputs)
        nn.init.constant_(self.norm.weight, gain)

    def forward(self, x: Tensor) -> Tensor:
        """Map each token separately, except for the statistics of the norm."""
        mapped: Tensor = self.linear(x)
        normed: Tensor = self.norm(mapped.flatten(0, 1))
        return normed.view_as(mapped)

    def flops(self, num_tokens: int) -> float:
        """Return the FLOPs of the map."""
        return 2.0 * num_tokens * self.linear.weight.numel()


class BiasedAttention(nn.Module):
    """Attention on a grid, `[batch, time, dim]` to the same, or to `[batch, time2, shrinks_to]`.

    Args:
        dim: Width of the input.
        grid: Rows and columns of the input.
        heads: Number of heads.
        key_dim: Width of a head's queries and keys.
        has_bias: Whether scores have a bias for |dr| and |dc|; it starts at 0.
        has_activation: Whether Hardswish is applied to values before the output map.
        shrinks_to: Width of the output if only tokens of every second row and column are queries,
            or None if all are. Values are four times as wide as keys if it shrinks, else twice; the
            last gain starts at 1 if it shrinks, else at 0.
    """

    no_weight_decay = ("biases",)

    def __init__(
        self,
        dim: int,
        *,
        grid: Grid,
        heads: int,
        key_dim: int,
        has_bias: bool,
        has_activation: bool,
        shrinks_to: int | None = None,
    ) -> None:
        super().__init__()
        shrinks = shrinks_to is not None
        self.grid, self.heads, self.has_activation = grid, heads, has_activation
        self.stride = 2 if shrinks else 1
        self.widths = (key_dim, (4 if shrinks else 2) * key_dim)  # per head, of keys and values
        self.query = NormedLinear(dim, heads * key_dim)
        self.key_value = NormedLinear(dim, heads * sum(self.widths))
        outputs, gain = (dim, 0.0) if shrinks_to is None else (shrinks_to, 1.0)
        self.output = NormedLinear(heads * self.widths[1], outputs, gain=gain)
        self.biases = nn.Parameter(torch.zeros(heads, grid[0] * grid[1])) if has_bias else None
        self.register_buffer("distances", distances(grid, self.stride), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend between the tokens of a grid, `[batch, time, dim]`."""
        queries = split_heads(self.query(self._asking(x)), self.heads)
        both = split_heads(self.key_value(x), self.heads)
        keys, values = both[..., : self.widths[0]], both[..., self.widths[0] :]
        scale = self.widths[0] ** -0.5
        bias = self.bias(queries.dtype)
        mixed = merge_heads(attended("fused", queries, keys, values, attn_mask=bias, scale=scale))
        found: Tensor = self.output(functional.hardswish(mixed) if self.has_activation else mixed)
        return found

    def _asking(self, x: Tensor) -> Tensor:
        """Return the tokens from which queries are made, `[batch, time2, dim]`."""
        if self.stride == 1:
            return x
        on_grid = x.reshape(len(x), *self.grid, x.shape[2])
        return on_grid[:, :: self.stride, :: self.stride].flatten(1, 2)

    def bias(self, dtype: torch.dtype) -> Tensor | None:
        """Return the bias B of the scores, `[heads, time2, time]`."""
        if self.biases is None:
            return None
        return self.biases[:, self.get_buffer("distances")].to(dtype)

    def flops(self) -> float:
        """Return the FLOPs of one image: three maps, scores, and the weighted sum of values."""
        num_queries, num_keys = self.get_buffer("distances").shape
        maps = self.query.flops(num_queries) + self.key_value.flops(num_keys)
        scores = 2.0 * num_queries * num_keys * self.heads * sum(self.widths)
        return maps + scores + self.output.flops(num_queries)


def distances(grid: Grid, stride: int) -> Tensor:
    """Return the index of each query and key in a table of |dr| by |dc|, as large as the grid.

    Returns:
        `[time2, time]`; queries are the tokens of every `stride`-th row and column.
    """
    rows, columns = grid
    down = (torch.arange(0, rows, stride)[:, None] - torch.arange(rows)).abs()
    across = (torch.arange(0, columns, stride)[:, None] - torch.arange(columns)).abs()
    places = down[:, None, :, None] * columns + across[None, :, None, :]
    return places.flatten(2, 3).flatten(0, 1)


class HardswishMLP(nn.Module):
    """The feed-forward, `[batch, time, dim]` to the same; the last gain starts at 0.

    Args:
        dim: Width of the input and output.
        hidden: Width between the two maps.
        num_tokens: Number of tokens of an image.
    """

    def __init__(self, dim: int, hidden: int, num_tokens: int) -> None:
        super().__init__()
        self.num_tokens = num_tokens
        self.expand = NormedLinear(dim, hidden)
        self.contract = NormedLinear(hidden, dim, gain=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Map each token separately, except for the statistics of the norms."""
        mapped: Tensor = self.contract(functional.hardswish(self.expand(x)))
        return mapped

    def flops(self) -> float:
        """Return the FLOPs of one image."""
        return self.expand.flops(self.num_tokens) + self.contract.flops(self.num_tokens)
