"""Check CaiT: blocks for the patches only, then a class token without a position reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelError, ModelSpec, build_model, build_shapes
from bakeoff.models.model_spec import Knob
from bakeoff.models.vision.patches import patches

SPEC = ModelSpec(
    architecture="cait",
    mixer="talking_heads",
    knobs={"heads": 2, "bias": True},
    position="learned",
    dim=8,
    depth=3,
    length=48,
    input_kind="image",
    input_size=3,
    output_size=5,
    grid=(8, 6),
    settings={"patch": 2, "class_heads": 2},
)
IMAGES = torch.randn(2, 8, 6, 3, generator=torch.Generator().manual_seed(0)).double()


def cait(changes: dict[str, Any] | None = None, **settings: Knob) -> Any:
    torch.manual_seed(0)
    whole = replace(SPEC, settings={**SPEC.settings, **settings}, **(changes or {}))
    return build_model(whole).double()


def sharpened(model: Any) -> Any:
    drawn = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=drawn).double()
    return model.eval()


def added(model: Any, norm: nn.Module, add: Any, call: Any, x: Tensor) -> Tensor:
    """Compute x + scale * f(norm(x)), channel by channel."""
    change = call(norm(x))
    columns = [x[..., c] + add.scale[c] * change[..., c] for c in range(x.shape[-1])]
    return torch.stack(columns, dim=-1)


def test_it_is_the_papers_order_of_blocks() -> None:
    """Compare with the explicit order: positions of patches, blocks, class blocks, norm, head."""
    model = sharpened(cait(class_depth=2))
    x = model.embedding.map(patches(IMAGES, 2))
    x = x + model.trunk.position.vectors(12)
    for block in model.trunk.blocks:
        x = added(model, block.mixer_norm, block.mixer_sum, block.mixer.reference, x)
        x = added(model, block.mlp_norm, block.mlp_sum, block.mlp, x)
    first = model.class_token.vector.expand(2, 1, 8)
    for block in model.trunk.class_blocks:
        both = torch.cat([first, x], dim=1)
        first = first + block.sum.scale * block.attention(block.norm(both))
        first = added(model, block.mlp_norm, block.mlp_sum, block.mlp, first)
    expected = model.head(model.trunk.norm(first))[:, 0]
    torch.testing.assert_close(model(IMAGES), expected)


def test_the_class_token_has_no_position_and_patches_keep_theirs() -> None:
    model = sharpened(cait())
    assert model.trunk.position.max_length == 12
    read = model.embedding(patches(IMAGES, 2))
    hidden = model.trunk(*model.class_token(read, None))
    frozen = model.trunk.norm(model.trunk.mixed(read))
    assert torch.equal(hidden[:, 1:], frozen)
    other = torch.cat([torch.randn(2, 1, 8).double(), read], dim=1)
    assert torch.equal(model.trunk(other)[:, 1:], frozen)


def test_layer_scale_is_one_number_a_channel_and_starts_as_told() -> None:
    model = cait(layer_scale=1e-5)
    trunk = model.trunk
    scales = [p for name, p in trunk.named_parameters() if name.endswith("sum.scale")]
    assert len(scales) == 2 * (3 + 2)
    for scale in scales:
        torch.testing.assert_close(scale.data, torch.full((8,), 1e-5).double())
    assert not any("scale" in name for name, _ in cait(layer_scale=None).named_parameters())


def test_the_chance_of_stochastic_depth_is_constant_and_none_at_the_class_token() -> None:
    trunk = cait(stochastic_depth=0.25).trunk
    rates = [add.rate for block in trunk.blocks for add in (block.mixer_sum, block.mlp_sum)]
    assert rates == [0.25] * 6
    assert {add.rate for block in trunk.class_blocks for add in (block.sum, block.mlp_sum)} == {0.0}
    linear = cait(stochastic_depth=0.75, stochastic_depth_rule="linear").trunk
    assert [block.mlp_sum.rate for block in linear.blocks] == pytest.approx([0.25, 0.5, 0.75])


def test_without_class_blocks_it_is_a_vit() -> None:
    """Compare with a ViT whose class token passes all blocks and has a position."""
    ours = cait(class_depth=0, layer_scale=None, norm_eps=1e-5)
    torch.manual_seed(0)
    theirs = build_model(replace(SPEC, architecture="vit", settings={"patch": 2})).double()
    assert torch.equal(ours(IMAGES), theirs(IMAGES))
    assert ours.trunk.position.max_length == 13
    assert ours.flops(48, 2) == theirs.flops(48, 2)


def test_a_mixer_of_a_grid_fits_since_the_class_token_comes_later() -> None:
    model = cait({"mixer": "grid_conv", "knobs": {"window_size": 3}})
    assert [block.mixer.grid for block in model.trunk.blocks] == [(4, 3)] * 3
    assert model(IMAGES).shape == (2, 5)


@pytest.mark.parametrize(("rows", "columns", "channels", "patch"), [(28, 28, 1, 4), (32, 32, 3, 4)])
def test_it_reads_the_images_of_tasks(rows: int, columns: int, channels: int, patch: int) -> None:
    size = {"grid": (rows, columns), "length": rows * columns, "input_size": channels}
    model = cait(size, patch=patch)
    assert model(torch.randn(2, rows, columns, channels).double()).shape == (2, 5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"class_depth": -1}, "cait: class_depth=-1 is below 0"),
        ({"class_heads": 0}, "cait: class_heads=0 is below 1"),
        ({"class_heads": 3}, "cait: class_heads=3 does not divide dim=8"),
        ({"pooling": "mean"}, "pooling='mean' has no class token, which class_depth=2 is for"),
        ({"patch": 5}, "cait: patch=5 does not divide an image of 8 x 6 pixels"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build_shapes(replace(SPEC, settings={**SPEC.settings, **settings}))
