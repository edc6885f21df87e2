"""Compare gates of channels and places with loops over the papers' equations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models.vision.channel_attention import (
    CBAM,
    ChannelAttentionConfig,
    SqueezeExcitation,
    build_channel_attention,
)

DIM, ROWS, COLUMNS = 6, 3, 5
SE = ChannelAttentionConfig(channel_attention="se", ratio=2)
OF_CBAM = ChannelAttentionConfig(channel_attention="cbam", ratio=2)
X = torch.randn(2, DIM, ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)).double()


def built(config: ChannelAttentionConfig) -> Any:
    """Build a module with every value moved from its initial one."""
    torch.manual_seed(0)
    module = build_channel_attention(DIM, config).double().eval()
    for number in (*module.parameters(), *module.buffers()):
        if number.is_floating_point():
            noise = torch.rand_like(number)
            number.data = number * (0.7 + 0.6 * noise) + (0.1 * noise if number.ndim < 2 else 0)
    return module


def mlp(module: SqueezeExcitation, read: list[float]) -> list[float]:
    """Compute W2 relu(W1 read), with the biases if there are any."""
    first, second = module.contract, module.expand
    hidden = []
    for j in range(first.out_features):
        total = 0.0 if first.bias is None else first.bias[j].item()
        total += sum(first.weight[j, i].item() * read[i] for i in range(len(read)))
        hidden.append(max(0.0, total))
    outputs = []
    for j in range(second.out_features):
        total = 0.0 if second.bias is None else second.bias[j].item()
        outputs.append(
            total + sum(second.weight[j, i].item() * hidden[i] for i in range(len(hidden)))
        )
    return outputs


def places(image: Tensor, channel: int) -> list[float]:
    return [image[channel, r, c].item() for r in range(ROWS) for c in range(COLUMNS)]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def channels_gated(module: SqueezeExcitation, image: Tensor, squeezes: list[Any]) -> list[float]:
    """Sum the MLP's outputs, one for each squeeze, before the gate's function."""
    outputs = [mlp(module, [f(places(image, i)) for i in range(DIM)]) for f in squeezes]
    return [sum(each) for each in zip(*outputs, strict=True)]


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("squeeze", "function"), [("mean", mean), ("max", max)])
@pytest.mark.parametrize(
    ("excitation", "gate"),
    [("sigmoid", sigmoid), ("tanh", math.tanh), ("relu", lambda x: max(0.0, x))],
)
def test_squeeze_and_excitation(
    excitation: Any, gate: Any, squeeze: Any, function: Any, has_bias: bool
) -> None:
    module = built(
        replace(SE, excitation=excitation, se_squeeze=squeeze, has_excitation_bias=has_bias)
    )
    for image, found in zip(X, module(X), strict=True):
        gates = [gate(each) for each in channels_gated(module, image, [function])]
        expected = image * torch.tensor(gates, dtype=torch.float64)[:, None, None]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def spatial_gate(module: CBAM, image: Tensor) -> Tensor:
    """Return the spatial gate, `[rows, columns]`."""
    assert module.spatial is not None
    conv, norm = module.spatial.conv, module.spatial.norm
    assert norm.running_mean is not None
    assert norm.running_var is not None
    reach = conv.kernel_size[0] // 2
    found = torch.zeros(ROWS, COLUMNS).double()
    for r in range(ROWS):
        for c in range(COLUMNS):
            total = 0.0
            for i in range(-reach, reach + 1):
                for j in range(-reach, reach + 1):
                    if 0 <= r + i < ROWS and 0 <= c + j < COLUMNS:
                        here = image[:, r + i, c + j].tolist()
                        weights = conv.weight[0, :, i + reach, j + reach].tolist()
                        total += weights[0] * mean(here) + weights[1] * max(here)
            scale = math.sqrt(norm.running_var.item() + norm.eps)
            normed = (total - norm.running_mean.item()) / scale
            found[r, c] = sigmoid(norm.weight.item() * normed + norm.bias.item())
    return found


def channel_gate(module: CBAM, image: Tensor, squeezes: list[Any]) -> Tensor:
    """Return the channel gate, `[channels, 1, 1]`."""
    assert module.channel is not None
    sums = channels_gated(module.channel, image, squeezes)
    gates = torch.tensor([sigmoid(each) for each in sums], dtype=torch.float64)
    return gates[:, None, None]


@pytest.mark.parametrize(
    "order", ["channel_first", "spatial_first", "parallel", "channel_only", "spatial_only"]
)
@pytest.mark.parametrize("window", [3, 7])
def test_cbam(order: Any, window: Any) -> None:
    module, both = built(replace(OF_CBAM, cbam_order=order, cbam_window=window)), [mean, max]
    for image, found in zip(X, module(X), strict=True):
        if order == "channel_first":
            expected = image * channel_gate(module, image, both)
            expected = expected * spatial_gate(module, expected)
        elif order == "spatial_first":
            expected = image * spatial_gate(module, image)
            expected = expected * channel_gate(module, expected, both)
        elif order == "parallel":
            expected = image * channel_gate(module, image, both) * spatial_gate(module, image)
        elif order == "channel_only":
            expected = image * channel_gate(module, image, both)
        else:
            expected = image * spatial_gate(module, image)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("squeeze", "function"), [("mean", mean), ("max", max)])
def test_cbam_may_squeeze_by_one_alone(squeeze: Any, function: Any) -> None:
    module = built(replace(OF_CBAM, cbam_order="channel_only", cbam_squeeze=squeeze))
    for image, found in zip(X, module(X), strict=True):
        expected = image * channel_gate(module, image, [function])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_a_hidden_layer_is_rounded_down_and_never_empty() -> None:
    assert built(replace(SE, ratio=4)).contract.out_features == 1
    assert built(replace(SE, ratio=16)).contract.out_features == 1
