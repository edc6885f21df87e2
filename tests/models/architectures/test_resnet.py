"""Check a residual network: its blocks by hand, its stages, its attention and its sizes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, cross_entropy, max_pool2d

from bakeoff.models import ModelError, ModelSpec, architecture_class, build_model, build_shapes
from bakeoff.models.architectures.resnet import ResNet
from bakeoff.models.vision.map_attention import AugmentedConvolution, NonLocal
from bakeoff.models.vision.residual_network import ResidualBlock
from tests.models.full_size import full_size

SPEC = ModelSpec(
    architecture="resnet",
    dim=8,
    length=63,
    input_kind="image",
    input_size=3,
    output_size=5,
    grid=(9, 7),
    settings={"blocks": "1-2"},
)
IMAGES = torch.randn(2, 9, 7, 3, generator=torch.Generator().manual_seed(0))
PLACES = ["standard", "pre", "post", "identity"]
ATTENTIONS = ["non_local", "augmented", "stand_alone", "botnet"]


def built(**settings: Any) -> ResNet:
    torch.manual_seed(0)
    whole = {**SPEC.settings, **settings}
    return cast("ResNet", build_model(replace(SPEC, settings=whole)))


def moved(model: ResNet) -> ResNet:
    """Convert to float64, and move every parameter and buffer from its initial value."""
    model = model.double().eval()
    for number in (*model.parameters(), *model.buffers()):
        if number.is_floating_point():
            noise = torch.rand_like(number)
            number.data = number * (0.7 + 0.6 * noise) + (0.1 * noise if number.ndim < 2 else 0)
    return model


def normed(norm: Any, x: Tensor) -> Tensor:
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    shape = 1, -1, 1, 1
    return (x - norm.running_mean.view(shape)) * scale.view(shape) + norm.bias.view(shape)


def block_by_hand(block: Any, x: Tensor, kind: str, place: str, stride: int) -> Tensor:
    """Compute relu(shortcut + F), with F layer by layer and its strides and paddings."""
    gate = block.channel_attention or (lambda x: x)
    strides = [stride, 1] if kind == "basic" else [1, stride, 1]
    paddings = [1, 1] if kind == "basic" else [0, 1, 0]
    y = gate(x) if place == "pre" else x
    for i, (step, padding) in enumerate(zip(strides, paddings, strict=True)):
        if i:
            y = y.clamp(min=0)
        y = conv2d(y, block.convs[i].weight, stride=step, padding=padding)
        y = normed(block.norms[i], y)
    if place == "standard":
        y = gate(y)
    shortcut = x
    if len(block.shortcut):
        conv, norm = block.shortcut
        shortcut = normed(norm, conv2d(x, conv.weight, stride=stride))
    if place == "identity":
        shortcut = gate(shortcut)
    y = (shortcut + y).clamp(min=0)
    return gate(y) if place == "post" else y


@pytest.mark.parametrize(
    ("channel_attention", "place"),
    [("none", "standard"), *itertools.product(["se", "cbam"], PLACES)],
)
@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
@pytest.mark.parametrize("stem", ["3x3", "7x7"])
def test_it_is_the_paper_written_out(
    stem: str, kind: str, channel_attention: str, place: str
) -> None:
    model = moved(
        built(
            block=kind,
            stem=stem,
            channel_attention=channel_attention,
            ratio=2,
            channel_attention_place=place,
        )
    )
    x = IMAGES.double()
    with torch.no_grad():
        maps = x.permute(0, 3, 1, 2)
        side, stride = (7, 2) if stem == "7x7" else (3, 1)
        maps = conv2d(maps, model.trunk.stem.conv.weight, stride=stride, padding=side // 2)
        maps = normed(model.trunk.stem.norm, maps).clamp(min=0)
        maps = max_pool2d(maps, 3, stride=2, padding=1) if stem == "7x7" else maps
        for block, stride in zip(model.trunk.layers, [1, 2, 1], strict=True):
            maps = block_by_hand(block, maps, kind, place, stride)
        head = model.head
        expected = maps.flatten(2).sum(dim=2) / maps[0, 0].numel() @ head.weight.T + head.bias
        assert len({round(each, 6) for each in expected.flatten().tolist()}) == 10
        torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-12)


def test_each_stage_doubles_the_width_and_halves_the_map() -> None:
    """Check that sizes are rounded up, as in a padded convolution: 28 pixels become 4."""
    for block, expansion in [("basic", 1), ("bottleneck", 4)]:
        spec = replace(SPEC, grid=(28, 28), length=784, settings={"block": block})
        model = cast("ResNet", build_model(spec))
        maps, sizes = model.trunk.stem(torch.randn(2, 3, 28, 28)), []
        for layer in model.trunk.layers:
            maps = layer(maps)
            sizes.append(list(maps.shape[1:]))
        stages = [(8, 28), (16, 14), (32, 7), (64, 4)]
        assert sizes == [[expansion * w, side, side] for w, side in stages for _ in range(2)]


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("block", ["basic", "bottleneck"])
def test_attention_stands_in_the_stages_that_are_named(block: str, attention: str) -> None:
    model = moved(built(block=block, attention=attention, attention_stages="2"))
    kinds = [type(layer) for layer in model.trunk.layers]
    if attention == "non_local":
        assert kinds == [ResidualBlock, ResidualBlock, NonLocal, ResidualBlock]
    else:
        assert kinds == [ResidualBlock] * 3
        for number, layer in enumerate(cast("Any", layer) for layer in model.trunk.layers):
            convs = [isinstance(conv, nn.Conv2d) for conv in layer.convs]
            first = 1 if block == "bottleneck" else 0
            assert [i for i, is_conv in enumerate(convs) if not is_conv] == (
                [first] if number else []
            )
    model.zero_grad()
    model(IMAGES.double()).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_gates_stand_in_the_stages_that_are_named() -> None:
    for stages, expected in [(None, [1, 1, 1]), ("1", [1, 0, 0]), ("2", [0, 1, 1])]:
        model = built(channel_attention="se", channel_attention_stages=stages)
        found = [cast("Any", layer).channel_attention is not None for layer in model.trunk.layers]
        assert found == expected


def test_augmented_channels_are_a_share_of_the_outputs() -> None:
    model = built(attention="augmented", attention_stages="1-2", attention_share=0.5)
    for layer, width in zip(model.trunk.layers, [8, 16, 16], strict=True):
        first = cast("AugmentedConvolution", cast("ResidualBlock", layer).convs[0])
        assert first.conv.out_channels == width // 2


@pytest.mark.parametrize("setting", [{"channel_attention": "cbam"}, {"attention": "botnet"}])
def test_variants_of_a_seed_start_alike_outside_the_attention(setting: dict[str, Any]) -> None:
    ours, theirs = built(attention_stages="1"), built(**setting, attention_stages="1")
    mine, other = ours.state_dict(), theirs.state_dict()
    shared = {name for name in mine if name in other and "layers.0.convs.0" not in name}
    assert len(shared) >= len(mine) - 1
    assert all(torch.equal(mine[name], other[name]) for name in shared)
    drawn = [p for p in theirs.parameters() if p.unique().numel() > 1]
    assert not any(
        a.shape == b.shape and torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i]
    )


def test_convolutions_are_drawn_by_their_outputs() -> None:
    """Check normal(0, 2 / (k^2 outputs)): He et al. 2015, equation 14."""
    torch.manual_seed(0)
    model = cast("Any", build_model(replace(SPEC, dim=64)))
    first, shortcut = (
        model.trunk.layers[1].convs[0].weight,
        model.trunk.layers[1].shortcut[0].weight,
    )
    assert first.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)
    assert shortcut.std().item() == pytest.approx((2 / 128) ** 0.5, rel=0.03)


def test_with_zero_gains_a_block_starts_as_its_shortcut() -> None:
    model = built(zero_init_residual=True)
    x = torch.rand(2, 8, 9, 7)
    assert torch.equal(model.trunk.layers[0](x), x)
    assert not torch.equal(built().trunk.layers[0](x), x)


@pytest.mark.battery
@pytest.mark.parametrize(
    "settings",
    [{"block": "bottleneck"}, {"channel_attention": "se"}, {"channel_attention": "cbam"}]
    + [{"attention": attention, "attention_stages": "3"} for attention in ATTENTIONS],
    ids=str,
)
def test_a_few_steps_lower_the_loss(settings: dict[str, Any]) -> None:
    """Train on images of one channel and 28 x 28 pixels."""
    torch.manual_seed(0)
    spec = replace(
        SPEC,
        dim=16,
        grid=(28, 28),
        length=784,
        input_size=1,
        settings={"blocks": "1-1-1", **settings},
    )
    model, losses = build_model(spec), []
    images, targets = torch.randn(8, 28, 28, 1), torch.arange(8) % 5
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(5):
        loss = cross_entropy(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("name", "changes", "millions"),
    [
        ("botnet50", {}, 20.85),  # Srinivas et al. 2021, Table 1: 20.8
        # Ramachandran et al. 2019, Table 1: 18.0 with a convolutional stem
        (
            "resnet50",
            {"attention": "stand_alone", "attention_stages": "1-2-3-4", "heads": 8},
            18.02,
        ),
        ("se_resnet50", {"has_excitation_bias": False}, 28.071976),
    ],
)
def test_sizes_of_models_that_no_preset_counts(name: str, changes: Any, millions: float) -> None:
    counted = build_shapes(full_size(name, **changes)).num_parameters() / 1e6
    assert counted == pytest.approx(millions, abs=0.005 if millions < 28 else 1e-9)


def test_a_batch_is_trained_on_whole() -> None:
    kind = architecture_class("resnet")
    assert "cut into 2" in kind.why_whole(SPEC, num_parts=2, are_parameters_divided=False)
    assert kind.why_whole(SPEC, num_parts=1, are_parameters_divided=True) == ""


@pytest.mark.parametrize("settings", [{"attention": each} for each in ATTENTIONS], ids=str)
def test_bfloat16_stays_bfloat16(settings: dict[str, Any]) -> None:
    model = built(**settings, attention_stages="2", channel_attention="cbam").bfloat16()
    logits = model(IMAGES.bfloat16())
    assert logits.dtype is torch.bfloat16
    assert logits.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"blocks": "2-0"}}, "resnet: blocks='2-0' are not whole numbers of at least"),
        ({"settings": {"blocks": "2,2"}}, "resnet: blocks='2,2' are not whole numbers of at least"),
        ({"settings": {"attention_stages": ""}}, "attention_stages='' are not whole numbers"),
        (
            {"settings": {"blocks": "1-1", "attention": "botnet"}},
            "resnet: attention_stages='4' names a stage beyond the 2 of blocks='1-1'",
        ),
        (
            {"settings": {"channel_attention": "se", "channel_attention_stages": "1-5"}},
            "resnet: channel_attention_stages='1-5' names a stage beyond the 4 of blocks='2-2-2-2'",
        ),
        ({"settings": {"channel_attention_stages": "0"}}, "attention_stages='0' are not whole num"),
        ({"settings": {"ratio": 0}}, "resnet: ratio=0 is not at least 1"),
        ({"settings": {"heads": 0}}, "resnet: heads=0 is not at least 1"),
        ({"settings": {"attention_share": 1}}, "attention_share=1.0 is not above 0 and below 1"),
        (
            {"settings": {"attention": "botnet", "heads": 3}},
            r"resnet: heads=3 does not divide the 64 channels of a map \(stage 4\)",
        ),
        ({"grid": None}, "resnet needs the rows and columns of an image"),
        ({"input_kind": "tokens"}, "resnet takes image as inputs, not tokens"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build_shapes(replace(SPEC, **changes))
