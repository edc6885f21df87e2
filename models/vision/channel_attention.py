"""Attention to channels and positions by gates: squeeze and excitation, and CBAM.

    se     Hu et al. 2018, "Squeeze-and-excitation networks" (arXiv:1709.01507, equations 2 to 4):
           x * sigmoid(W2 relu(W1 mean(x))), the mean over all positions of a map, W1 from d to
           d / ratio channels, W2 back.
    cbam   Woo et al. 2018, "CBAM" (arXiv:1807.06521, equations 1 to 3): the channels are gated by
           sigmoid(MLP(mean(x)) + MLP(max(x))) of one MLP, summed before the sigmoid; then the
           positions by sigmoid(norm(conv(m))), a 7 x 7 convolution of m, the mean and the maximum
           over channels, with the batch norm that the authors' code has.

Cost: two products of d^2 / ratio for each squeeze of a map; in CBAM also 2 k^2 per position.
Departures: biases are a knob, for both; in parallel order, CBAM multiplies x by both gates of x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from bakeoff.models.errors import ModelError
from bakeoff.models.vision.map_convolution import Grid, MapConvolution

Excitation = Literal["sigmoid", "tanh", "relu"]
CBAMOrder = Literal["channel_first", "spatial_first", "parallel", "channel_only", "spatial_only"]
_GATES: dict[Excitation, Callable[[Tensor], Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
}


@dataclass(frozen=True, kw_only=True)
class ChannelAttentionConfig:
    """Knobs of the attention to channels and positions by gates.

    Attributes:
        channel_attention: `se`, `cbam` or `none`; see the module's docstring.
        channel_attention_stages: Stages with the gate, counted from 1 and joined by hyphens, as in
            ``1-2`` (SE, Table 13, which counts them from 2), or None for all.
        ratio: Width of a map divided by that of the MLP's hidden layer, which is rounded down (SE,
            Table 10).
        has_excitation_bias: Whether both maps of the MLP have biases; the papers' have none.
        se_squeeze: Input of the MLP of `se` for each channel: its `mean` or its `max` (SE,
            Table 11).
        cbam_squeeze: Input of the MLP of `cbam`: either, or both, whose outputs are summed (CBAM,
            Table 1).
        excitation: Function from the MLP's output to a gate (SE, Table 12).
        channel_attention_place: Location of the gate: at the end of a block's branch (`standard`),
            at its start (`pre`), after the sum and its ReLU (`post`), or on the shortcut
            (`identity`) (SE, Table 14).
        cbam_order: Order of CBAM's two parts (CBAM, Table 3), or the only part used.
        cbam_window: Side of the convolution over positions (CBAM, Table 2).
    """

    channel_attention: Literal["none", "se", "cbam"] = "none"
    channel_attention_stages: str | None = None
    ratio: int = 16
    has_excitation_bias: bool = False
    se_squeeze: Literal["mean", "max"] = "mean"
    cbam_squeeze: Literal["mean_and_max", "mean", "max"] = "mean_and_max"
    excitation: Excitation = "sigmoid"
    channel_attention_place: Literal["standard", "pre", "post", "identity"] = "standard"
    cbam_order: CBAMOrder = "channel_first"
    cbam_window: Literal[3, 7] = 7


def check_channel_attention(config: ChannelAttentionConfig, owner: str) -> None:
    """Raise for knobs that no gate can have.

    Raises:
        ModelError: A value is not allowed, as in ``resnet: ratio=0 is not at least 1``.
    """
    if config.ratio < 1:
        raise ModelError(f"{owner}: ratio={config.ratio} is not at least 1")


def build_channel_attention(dim: int, config: ChannelAttentionConfig) -> SqueezeExcitation | CBAM:
    """Return the configured gate for maps of `dim` channels."""
    return SqueezeExcitation(dim, config) if config.channel_attention == "se" else CBAM(dim, config)


class SqueezeExcitation(nn.Module):
    """A gate of the channels of `[batch, dim, rows, columns]`; see the module's docstring."""

    def __init__(self, dim: int, config: ChannelAttentionConfig) -> None:
        super().__init__()
        is_se = config.channel_attention == "se"
        self.squeezes = (config.se_squeeze if is_se else config.cbam_squeeze).split("_and_")
        self.activation = _GATES[config.excitation]
        hidden = max(1, dim // config.ratio)
        self.contract = nn.Linear(dim, hidden, bias=config.has_excitation_bias)
        self.expand = nn.Linear(hidden, dim, bias=config.has_excitation_bias)
        for linear in (self.contract, self.expand):
            nn.init.kaiming_normal_(linear.weight, mode="fan_out", nonlinearity="relu")
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply `[batch, dim, rows, columns]` by the gate of its channels."""
        return x * self.gate(x)

    def gate(self, x: Tensor) -> Tensor:
        """Compute the gate, `[batch, dim, 1, 1]`."""
        first, *others = [self._excited(squeezed(x, each)) for each in self.squeezes]
        return self.activation(sum(others, first))[:, :, None, None]

    def _excited(self, x: Tensor) -> Tensor:
        """Apply the MLP to `[batch, dim]`, with output of the same shape."""
        excited: Tensor = self.expand(self.contract(x).relu())
        return excited

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of one map, which do not depend on its size."""
        return 2.0 * len(self.squeezes) * (self.contract.weight.numel() * 2)


def squeezed(x: Tensor, squeeze: str) -> Tensor:
    """Reduce `[batch, dim, rows, columns]` to `[batch, dim]` by the `mean` or the `max`."""
    return x.mean(dim=(2, 3)) if squeeze == "mean" else x.amax(dim=(2, 3))


class CBAM(nn.Module):
    """A gate of the channels and the positions of a map; see the module's docstring."""

    def __init__(self, dim: int, config: ChannelAttentionConfig) -> None:
        super().__init__()
        self.order = config.cbam_order
        self.channel = SqueezeExcitation(dim, config) if self.order != "spatial_only" else None
        self.spatial = SpatialGate(config.cbam_window) if self.order != "channel_only" else None

    def forward(self, x: Tensor) -> Tensor:
        """Multiply `[batch, dim, rows, columns]` by the gates of channels and positions."""
        parts = [part for part in (self.channel, self.spatial) if part is not None]
        read = x
        for part in reversed(parts) if self.order == "spatial_first" else parts:
            x = x * part.gate(read if self.order == "parallel" else x)
        return x

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of one map of this size."""
        return sum(part.flops(grid) for part in (self.channel, self.spatial) if part is not None)


class SpatialGate(nn.Module):
    """A gate for each position, the same for all channels."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.conv = MapConvolution(2, 1, window)
        self.norm = nn.BatchNorm2d(1)

    def gate(self, x: Tensor) -> Tensor:
        """Compute the gate of `[batch, dim, rows, columns]`, `[batch, 1, rows, columns]`."""
        both = torch.cat([x.mean(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)], dim=1)
        gate: Tensor = self.norm(self.conv(both)).sigmoid()
        return gate

    def flops(self, grid: Grid) -> float:
        """Return the FLOPs of the convolution."""
        return self.conv.flops(grid)
