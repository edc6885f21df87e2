"""Check DeiT: two tokens with a position each, two heads, and the target of each head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bakeoff.models import Architecture, ModelSpec, build_model
from bakeoff.models.interface import Outputs
from bakeoff.models.vision.patches import patches

SPEC = ModelSpec(
    architecture="deit",
    mixer="attention",
    knobs={"heads": 2},
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
IMAGES = torch.randn(3, 8, 6, 3, generator=torch.Generator().manual_seed(0))


def deit(**settings: Any) -> Any:
    torch.manual_seed(0)
    return build_model(replace(SPEC, settings={"patch": 2, **settings}))


def logits_of_both(model: Any, pooling: str = "class_token") -> tuple[Tensor, Tensor]:
    """Return both logits from class token, distillation token and patches, each with a position."""
    of_patches = model.embedding.map(patches(IMAGES, 2))
    x = of_patches
    if pooling == "class_token":
        tokens = (model.class_token.vector, model.distillation_token.vector)
        x = torch.cat([*(token.expand(3, 1, -1) for token in tokens), of_patches], dim=1)
    x = x + model.trunk.position.table
    for block in model.trunk.blocks:
        x = block(x)
    x = model.trunk.norm(x)
    read = (x[:, 0], x[:, 1]) if pooling == "class_token" else (x.mean(dim=1),) * 2
    return model.head(read[0]), model.distillation_head(read[1])


@pytest.mark.parametrize("pooling", ["class_token", "mean"])
def test_each_head_reads_its_token(pooling: str) -> None:
    model = deit(pooling=pooling)
    own, taught = logits_of_both(model, pooling)
    found = model(IMAGES)
    assert isinstance(found, Outputs)
    torch.testing.assert_close(found.logits, own)
    assert list(found.auxiliary) == ["distillation"]
    torch.testing.assert_close(found.auxiliary["distillation"], taught)
    assert not torch.allclose(own, taught, atol=0.1)


def test_in_evaluation_the_answer_is_the_mean_of_both_heads() -> None:
    model = deit().eval()
    torch.testing.assert_close(model(IMAGES), sum(logits_of_both(model)) / 2)


def test_it_has_a_token_a_place_and_a_head_more_than_vit() -> None:
    torch.manual_seed(0)
    vit: Architecture = build_model(replace(SPEC, architecture="vit"))
    model = deit()
    assert model.num_parameters() - vit.num_parameters() == 8 + 8 + (8 + 1) * 5
    assert model.trunk.position.table.shape == (2 + 12, 8)
    names = model.state_dict().keys() - vit.state_dict().keys()
    assert names == {
        "distillation_token.vector",
        "distillation_head.weight",
        "distillation_head.bias",
    }
    shared = [name for name in vit.state_dict() if "position" not in name]
    assert all(torch.equal(model.state_dict()[n], vit.state_dict()[n]) for n in shared), "paired"


def test_a_mixer_on_a_grid_is_told_of_both_tokens() -> None:
    """Check the number of extra tokens, without which Swin's window begins two places early."""
    assert deit().num_extra == 2
    assert deit(pooling="mean").num_extra == 0


@pytest.mark.parametrize("pooling", ["class_token", "mean"])
def test_flops_are_those_that_torch_counts(pooling: str) -> None:
    model = deit(pooling=pooling).eval()
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter, torch.no_grad():
        model(IMAGES)
    assert model.flops(48, batch=3) == counter.get_total_flops()


def test_truncated_normal_is_of_both_heads() -> None:
    model = deit(initialisation="truncated_normal")
    for head in (model.head, model.distillation_head):
        assert head.weight.abs().max() <= 0.04
        assert head.weight.std() > 0.01
        assert not head.bias.any()
    assert not torch.equal(model.head.weight, model.distillation_head.weight)
