"""Check that our residual networks equal timm's with the same weights.

The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import build_model
from bakeoff.models.vision.channel_attention import ChannelAttentionConfig, build_channel_attention
from bakeoff.models.vision.map_attention import GlobalMapAttention, MapAttentionConfig, NonLocal
from tests.models.full_size import full_size
from tests.parity.without_torchvision import timm

pytestmark = pytest.mark.parity

SIDE = 40  # so that maps are 10, 5, 3 and 2 pixels wide
THEIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet18": ("resnet18", {}),
    "resnet50": ("resnet50", {}),
    "se_resnet50": ("seresnet50", {}),
    "resnet18_cbam": ("resnet18", {"block_args": {"attn_layer": "cbam"}}),
    "resnet50_cbam": ("resnet50", {"block_args": {"attn_layer": "cbam"}}),
}
RENAMED = (
    (r"^trunk\.stem\.conv\.", "conv1."),
    (r"^trunk\.stem\.norm\.", "bn1."),
    (r"^head\.", "fc."),
    (r"\.shortcut\.", ".downsample."),
    (r"\.convs\.0\.", ".conv1."),
    (r"\.convs\.1\.", ".conv2."),
    (r"\.convs\.2\.", ".conv3."),
    (r"\.norms\.0\.", ".bn1."),
    (r"\.norms\.1\.", ".bn2."),
    (r"\.norms\.2\.", ".bn3."),
    (r"channel_attention\.", "se."),
    (r"contract\.", "fc1."),
    (r"expand\.", "fc2."),
    (r"spatial\.norm\.", "spatial.conv.bn."),
    (r"spatial\.conv\.weight", "spatial.conv.conv.weight"),
)


def moved(module: nn.Module) -> Any:
    """Convert to float64, and move every parameter and buffer from its initial value."""
    module = module.double().eval()
    drawn = torch.Generator().manual_seed(1)
    for number in (*module.parameters(), *module.buffers()):
        if number.is_floating_point():
            noise = torch.rand(number.shape, generator=drawn).to(number)
            number.data = number * (0.7 + 0.6 * noise) + (0.1 * noise if number.ndim < 2 else 0)
    return module


def load(theirs: nn.Module, ours: nn.Module, blocks: list[str]) -> None:
    """Load our parameters and buffers under their names and in their shapes."""
    shapes, found = theirs.state_dict(), {}
    for name, value in ours.state_dict().items():
        name = re.sub(r"^trunk\.layers\.(\d+)", lambda match: blocks[int(match[1])], name)
        for old, new in RENAMED:
            name = re.sub(old, new, name)
        found[name] = value.reshape(shapes[name].shape)
    theirs.load_state_dict(found)


@pytest.mark.parametrize(
    ("name", "is_training"),
    [*((name, False) for name in THEIRS), ("resnet18", True), ("resnet18_cbam", True)],
)
def test_logits_and_gradients_are_those_of_timm(name: str, is_training: bool) -> None:
    torch.manual_seed(0)
    ours = moved(build_model(full_size(name, side=SIDE, num_classes=7)))
    system, changes = THEIRS[name]
    theirs = timm().create_model(system, num_classes=7, **changes).double().eval()
    stages = [getattr(theirs, f"layer{stage}") for stage in (1, 2, 3, 4)]
    blocks = [f"layer{i}.{j}" for i, stage in enumerate(stages, 1) for j in range(len(stage))]
    load(theirs, ours, blocks)
    images = torch.randn(2, SIDE, SIDE, 3, generator=torch.Generator().manual_seed(2)).double()
    ours.train(is_training), theirs.train(is_training)
    found, expected = ours(images), theirs(images.permute(0, 3, 1, 2))
    assert expected.std(dim=0).min() > 1e-4
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    gradients = [
        torch.autograd.grad(logits.square().sum(), [model_first, model_last])
        for logits, model_first, model_last in (
            (found, ours.trunk.stem.conv.weight, ours.trunk.layers[-1].convs[0].weight),
            (expected, theirs.conv1.weight, theirs.layer4[-1].conv1.weight),
        )
    ]
    for mine, other in zip(*gradients, strict=True):
        assert other.abs().max() > 0
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-8 * float(other.abs().max()))


X = torch.randn(2, 32, 5, 7, generator=torch.Generator().manual_seed(3)).double()


@pytest.mark.parametrize("has_bias", [False, True])
def test_squeeze_and_excitation_alone(has_bias: bool) -> None:
    timm()
    from timm.layers import SEModule

    config = ChannelAttentionConfig(channel_attention="se", ratio=4, has_excitation_bias=has_bias)
    ours = moved(build_channel_attention(32, config))
    theirs = SEModule(32, rd_ratio=1 / 4, bias=has_bias).double()
    load(theirs, ours, [])
    torch.testing.assert_close(ours(X), theirs(X), rtol=1e-12, atol=1e-12)


def test_cbam_alone() -> None:
    timm()
    from timm.layers.cbam import CbamModule

    ours = moved(
        build_channel_attention(32, ChannelAttentionConfig(channel_attention="cbam", ratio=4))
    )
    theirs = CbamModule(32, rd_ratio=1 / 4).double().eval()
    load(theirs, ours, [])
    torch.testing.assert_close(ours(X), theirs(X), rtol=1e-12, atol=1e-12)


def test_a_non_local_block_but_for_their_scale() -> None:
    """Compare but for the scale, theirs by the width of the map; the bias before a norm is zero."""
    timm()
    from timm.layers import NonLocalAttn

    ours: Any = moved(NonLocal(32))
    theirs = NonLocalAttn(32, rd_ratio=1 / 2).double().eval()
    names = {"query": "t", "key": "p", "value": "g", "output": "z"}
    found = {}
    for name, value in ours.state_dict().items():
        part, _, rest = name.partition(".")
        found[f"{names.get(part, part)}.{rest}"] = value * (2**0.5 if part == "query" else 1)
    theirs.load_state_dict({**found, "z.bias": torch.zeros(32).double()})
    torch.testing.assert_close(ours(X), theirs(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stride", [1, 2])
def test_attention_of_a_bottleneck_transformer(stride: int) -> None:
    """Compare with scaled relative logits, as in the authors' code."""
    timm()
    from timm.layers.bottleneck_attn import BottleneckAttn

    grid = (4, 6)  # theirs drops the rest of a map with odd sides
    x = X[:, :, :4, :6]
    config = MapAttentionConfig(heads=4)
    ours: Any = moved(GlobalMapAttention(32, 24, stride=stride, grid=grid, config=config))
    theirs = BottleneckAttn(
        32, 24, feat_size=grid, stride=stride, num_heads=4, scale_pos_embed=True
    ).double()
    maps: list[Tensor] = [each.weight for each in (ours.query, ours.key, ours.value)]
    theirs.load_state_dict(
        {
            "qkv.weight": torch.cat(maps),
            "pos_embed.height_rel": ours.row.table,
            "pos_embed.width_rel": ours.column.table,
        }
    )
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)
