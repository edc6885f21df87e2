"""Check that a vision transformer is a classifier of patches, which it cuts itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import ModelError, ModelSpec, build_model, build_shapes
from bakeoff.models.vision.patches import patches

SPEC = ModelSpec(
    architecture="vit",
    mixer="conv",
    position="learned",
    dim=8,
    depth=2,
    length=48,
    input_kind="image",
    input_size=3,
    output_size=5,
    grid=(8, 6),
    settings={"patch": 2},
)
IMAGES = torch.randn(2, 8, 6, 3, generator=torch.Generator().manual_seed(0))


def test_patches_are_cut_as_torch_cuts_them() -> None:
    """Compare with `unfold`, which puts channels first."""
    cut = torch.nn.functional.unfold(IMAGES.permute(0, 3, 1, 2), 2, stride=2)  # (b, 3 * 4, 12)
    expected = cut.unflatten(1, (3, 4)).permute(0, 3, 2, 1).flatten(2)
    assert torch.equal(patches(IMAGES, 2), expected)


@pytest.mark.parametrize("pooling", ["class_token", "mean"])
def test_it_is_a_classifier_of_patches(pooling: str) -> None:
    torch.manual_seed(0)
    model = build_model(replace(SPEC, settings={"patch": 2, "pooling": pooling}))
    torch.manual_seed(0)
    of_patches = build_model(
        replace(
            SPEC,
            architecture="classifier",
            input_kind="vectors",
            input_size=12,
            length=12,
            grid=None,
            settings={"pooling": pooling},
        )
    )
    assert torch.equal(model(IMAGES), of_patches(patches(IMAGES, 2)))
    assert model.flops(48, batch=2) == of_patches.flops(12, batch=2)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(IMAGES)
    assert model.flops(48, batch=2) == counter.get_total_flops()


@pytest.mark.parametrize("pooling", ["class_token", "mean"])
def test_a_position_of_the_grid_knows_the_patches_and_the_class_token(pooling: str) -> None:
    model: Any = build_model(
        replace(SPEC, position="learned_2d", settings={"patch": 2, "pooling": pooling})
    )
    position = model.trunk.position
    is_first = int(pooling == "class_token")
    assert (position.rows, position.columns, position.num_before) == (4, 3, is_first)
    assert model(IMAGES).shape == (2, 5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"patch": 5}}, "patch=5 does not divide an image of 8 x 6 pixels"),
        ({"settings": {"patch": 0}}, "patch=0 is not at least 1"),
        ({"grid": None}, "an image of no grid"),
        ({"input_kind": "tokens"}, "vit takes image as inputs, not tokens"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build_shapes(replace(SPEC, **changes))
