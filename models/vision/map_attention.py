"""Self-attention between the positions of a feature map, in residual networks.

    non_local     Wang et al. 2018, "Non-local neural networks" (arXiv:1711.07971, sections 3.2 and
                  3.3, the embedded Gaussian): x + norm(W y), y_i = sum_j softmax_j(q_i . k_j) v_j,
                  with queries, keys and values half as wide as x; the norm's gain starts at 0, so
                  that the block starts as the identity.
    botnet        Srinivas et al. 2021, "Bottleneck transformers" (arXiv:2101.11605, Figure 4): each
                  position attends to all, by scores q . (k + r_row + r_column) / sqrt(d). The
                  tables of r have a row for each distance, are separate for rows and columns, and
                  are shared by heads. A stride is a mean over squares of the output.
    augmented     Bello et al. 2019, "Attention augmented convolutional networks"
                  (arXiv:1904.09925, equations 1 to 5): channels of a convolution, concatenated with
                  channels of the same attention, which one more map mixes.
    stand_alone   Ramachandran et al. 2019, "Stand-alone self-attention in vision models"
                  (arXiv:1906.05909, equations 2 and 3): a position attends to the square around it,
                  by scores q . (k + r), where half of r is for the distance in rows, half for that
                  in columns; not scaled. A stride is a mean over squares of the output.

Cost: n^2 d; for stand_alone n w c d, with a window of w x w cut from rows of c positions.
Departures: non_local scales its scores by 1 / sqrt(d) as its authors' code does, and keys are not
    subsampled; in augmented, keys are as wide as values, and a stride is that of botnet. In
    stand_alone, positions outside the map are not attended to, and heads share their tables of r.
Fast form: a distance looks up its row of a table, so nothing is shifted from relative to absolute
    positions. The window is cut by rows, and columns outside it are hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.vision.map_convolution import Grid, MapConvolution, pooled, strided


@dataclass(frozen=True, kw_only=True)
class MapAttentionConfig:
    """Knobs of self-attention between positions of a map.

    Attributes:
        attention: `non_local` before the last block of a stage; or, instead of the first 3 x 3
            convolution of each block, `augmented`, `stand_alone` or `botnet`; or `none`. See
            `bakeoff.models.vision.map_attention`.
        attention_stages: Stages with attention, counted from 1 and joined by hyphens, as in
            ``2-3-4``.
        heads: Number of heads; `non_local` always has one.
        attention_share: Share of the channels of an `augmented` convolution that come from
            attention; their number is rounded to a multiple of the heads.
        attention_window: Side of the square to which a position attends in `stand_alone`.
        has_relative_logits: Whether scores depend on the distance, except in `non_local`.
    """

    attention: Literal["none", "non_local", "augmented", "stand_alone", "botnet"] = "none"
    attention_stages: str = "4"
    heads: int = 4
    attention_share: float = 0.25
    attention_window: Literal[3, 5, 7, 9, 11] = 7
    has_relative_logits: bool = True


def check_map_attention(config: MapAttentionConfig, owner: str) -> None:
    """Raise for knobs that no attention can have.

    Raises:
        ModelError: A value is not allowed, as in ``resnet: heads=0 is not at least 1``.
    """
    if config.heads < 1:
        raise ModelError(f"{owner}: heads={config.heads} is not at least 1")
    if not 0 < config.attention_share < 1:
        raise ModelError(
            f"{owner}: attention_share={config.attention_share} is not above 0 and below 1"
        )


class NonLocal(nn.Module):
    """One head over all positions, added to the map `[batch, dim, rows, columns]`."""

    stride = 1

    def __init__(self, dim: int) -> None:
        super().__init__()
        inner = max(1, dim // 2)
        self.query, self.key, self.value = (MapConvolution(dim, inner, bias=True) for _ in range(3))
        self.output = MapConvolution(inner, dim)
        self.norm = nn.BatchNorm2d(dim)
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Add the attention to `[batch, dim, rows, columns]`, with output of the same shape."""
        maps = self.query, self.key, self.value
        queries, keys, values = (of_heads(each(x), 1).flatten(2, 3) for each in maps)
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
        change: Tensor = self.norm(self.output(as_map(mixed, x)))
        return x + change

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of the maps, and of two products between all positions."""
        maps = self.query, self.key, self.value, self.output
        places = grid[0] * grid[1]
        return sum(each.flops(grid) for each in maps) + 4.0 * places**2 * self.query.out_channels


class GlobalMapAttention(nn.Module):
    """BoTNet's attention to all positions by content and distance; see the module's docstring."""

    def __init__(
        self, inputs: int, outputs: int, *, stride: int, grid: Grid, config: MapAttentionConfig
    ) -> None:
        super().__init__()
        self.stride, self.heads = stride, config.heads
        width = width_of_head(outputs, config)
        self.query, self.key, self.value = (MapConvolution(inputs, outputs) for _ in range(3))
        self.row, self.column = None, None
        if config.has_relative_logits:
            self.row, self.column = (DistanceLogits(side, side - 1, width) for side in grid)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, inputs, rows, columns]` to `[batch, outputs, rows / stride, ...]`."""
        maps = self.query, self.key, self.value
        queries, keys, values = (of_heads(each(x), self.heads) for each in maps)
        queries = queries * queries.shape[-1] ** -0.5
        mixed = functional.scaled_dot_product_attention(
            queries.flatten(2, 3),
            keys.flatten(2, 3),
            values.flatten(2, 3),
            attn_mask=self._of_distance(queries),
            scale=1.0,
        )
        return pooled(as_map(mixed, x), self.stride)

    def _of_distance(self, queries: Tensor) -> Tensor | None:
        """Return the scores of distances, `[batch, heads, places, places]`, or None."""
        if self.row is None or self.column is None:
            return None
        across: Tensor = self.column(queries).unsqueeze(-2)
        down: Tensor = self.row(queries.transpose(2, 3)).transpose(2, 3).unsqueeze(-1)
        return (down + across).flatten(4, 5).flatten(2, 3)

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of the maps, two products between all positions, and the tables."""
        maps, places = (self.query, self.key, self.value), grid[0] * grid[1]
        reached = 2 * places + (0 if self.row is None else sum(grid))
        products = 2.0 * places * reached * self.query.out_channels
        return sum(each.flops(grid) for each in maps) + products


class AugmentedConvolution(nn.Module):
    """Channels of a convolution, then channels of attention; see the module's docstring."""

    def __init__(
        self, inputs: int, outputs: int, *, stride: int, grid: Grid, config: MapAttentionConfig
    ) -> None:
        super().__init__()
        self.stride = stride
        heads, share = config.heads, config.attention_share
        attending = heads * max(1, round(share * outputs / heads))
        if attending >= outputs:
            raise ModelError(
                f"attention_share={share} with heads={heads} leaves none of {outputs} channels to "
                "the convolution"
            )
        self.conv = MapConvolution(inputs, outputs - attending, 3, stride=stride)
        self.attention = GlobalMapAttention(
            inputs, attending, stride=stride, grid=grid, config=config
        )
        self.output = MapConvolution(attending, attending)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, inputs, rows, columns]` to `[batch, outputs, rows / stride, ...]`."""
        return torch.cat([self.conv(x), self.output(self.attention(x))], dim=1)

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of both kinds of channels."""
        attended = self.attention.flops(grid) + self.output.flops(strided(grid, self.stride))
        return self.conv.flops(grid) + attended


class LocalMapAttention(nn.Module):
    """Ramachandran's attention to the square around a position; see the module's docstring."""

    def __init__(
        self, inputs: int, outputs: int, *, stride: int, grid: Grid, config: MapAttentionConfig
    ) -> None:
        super().__init__()
        self.stride, self.heads, self.window = stride, config.heads, config.attention_window
        self.reach = self.window // 2
        width = width_of_head(outputs, config)
        self.query, self.key, self.value = (MapConvolution(inputs, outputs) for _ in range(3))
        self.row, self.column = None, None
        if config.has_relative_logits:
            if width % 2:
                raise ModelError(f"heads={self.heads} leaves {width} channels a head, not even")
            self.row = nn.Parameter(torch.empty(self.window, width // 2))
            nn.init.normal_(self.row, std=width**-0.5)
            self.column = DistanceLogits(grid[1], self.reach, width // 2)
        self.register_buffer("hidden", self._hidden(grid), persistent=False)

    def _hidden(self, grid: Grid) -> Tensor:
        """Return the mask `[rows, columns, window * columns]`: -inf if hidden, else 0."""
        down = torch.arange(grid[0])[:, None] + torch.arange(self.window) - self.reach
        across = torch.arange(grid[1])[:, None] - torch.arange(grid[1])
        is_row, is_near = (down >= 0) & (down < grid[0]), across.abs() <= self.reach
        seen = is_row[:, None, :, None] & is_near[None, :, None, :]
        return torch.zeros(seen.shape).masked_fill(~seen, -torch.inf).flatten(2)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[batch, inputs, rows, columns]` to `[batch, outputs, rows / stride, ...]`."""
        maps = self.query, self.key, self.value
        queries, keys, values = (of_heads(each(x), self.heads) for each in maps)
        mixed = functional.scaled_dot_product_attention(
            queries,
            self._windows(keys),
            self._windows(values),
            attn_mask=self._of_distance(queries),
            scale=1.0,
        )
        return pooled(as_map(mixed.flatten(2, 3), x), self.stride)

    def _windows(self, x: Tensor) -> Tensor:
        """Return the rows around each row: `[batch, heads, rows, window * columns, width]`."""
        padded = functional.pad(x, (0, 0, 0, 0, self.reach, self.reach))
        return padded.unfold(2, self.window, 1).movedim(-1, 3).flatten(3, 4)

    def _of_distance(self, queries: Tensor) -> Tensor:
        """Return scores that broadcast to `[batch, heads, rows, columns, window * columns]`."""
        hidden: Tensor = self.get_buffer("hidden").to(queries.dtype)
        if self.row is None or self.column is None:
            return hidden
        of_row, of_column = queries.chunk(2, dim=-1)
        down = (of_row @ self.row.mT).unsqueeze(-1)
        across: Tensor = self.column(of_column).unsqueeze(-2)
        return (down + across).flatten(4, 5) + hidden

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of the maps, two products with rows of the window, and the tables."""
        maps, columns = (self.query, self.key, self.value), grid[1]
        reached = 2.0 * self.window * columns
        reached += 0 if self.row is None else (self.window + columns) / 2
        products = 2.0 * grid[0] * columns * reached * self.query.out_channels
        return sum(each.flops(grid) for each in maps) + products


class DistanceLogits(nn.Module):
    """The scores of a query for the distances to all positions of its row, or of its column.

    Attributes:
        table: `[2 * reach + 1, width]`; the row of distance j - i, from a query at i to a key at j,
            is reach + j - i. Distances beyond `reach`, which the caller must hide, are clamped to
            the first or last row.
    """

    def __init__(self, places: int, reach: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(2 * reach + 1, width))
        nn.init.normal_(self.table, std=width**-0.5)
        distance = torch.arange(places) - torch.arange(places)[:, None]
        row = (distance + reach).clamp(0, 2 * reach)
        self.register_buffer("row_of_pair", row, persistent=False)

    def forward(self, queries: Tensor) -> Tensor:
        """Map queries `[..., places, width]` to scores `[..., places, places]`."""
        keys = self.table[self.get_buffer("row_of_pair")]
        return torch.einsum("...iw,ijw->...ij", queries, keys)


def width_of_head(outputs: int, config: MapAttentionConfig) -> int:
    """Return the width of a head of `outputs` channels.

    Raises:
        ModelError: The number of heads does not divide them.
    """
    if outputs % config.heads:
        raise ModelError(f"heads={config.heads} does not divide the {outputs} channels of a map")
    return outputs // config.heads


def of_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape `[batch, channels, rows, columns]` to `[batch, heads, rows, columns, width]`."""
    batch, channels, rows, columns = x.shape
    return x.reshape(batch, heads, channels // heads, rows, columns).movedim(2, -1)


def as_map(x: Tensor, like: Tensor) -> Tensor:
    """Reshape `[batch, heads, places, width]` to `[batch, channels, rows, columns]` of `like`."""
    batch, heads, _, width = x.shape
    return x.transpose(2, 3).reshape(batch, heads * width, *like.shape[2:])
