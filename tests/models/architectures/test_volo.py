"""Check outlookers on a fine grid, attention on a coarse one, and the class token after them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import (
    ModelError,
    ModelSpec,
    Outputs,
    architecture_class,
    build_model,
    build_shapes,
)
from bakeoff.models.model_spec import Knob

SPEC = ModelSpec(
    architecture="volo",
    mixer="attention",
    knobs={"heads": 2, "bias": "output"},
    position="learned",
    dim=8,
    depth=2,
    length=16 * 24,
    input_kind="image",
    input_size=3,
    output_size=5,
    grid=(16, 24),
    settings={
        "patch": 4,
        "class_heads": 2,
        "stem_width": 4,
        "outlook_dim": 4,
        "outlook_heads": 2,
    },
)
IMAGES = torch.randn(2, 16, 24, 3, generator=torch.Generator().manual_seed(0)).double()


def volo(changes: dict[str, Any] | None = None, **settings: Knob) -> Any:
    torch.manual_seed(0)
    whole = replace(SPEC, settings={**SPEC.settings, **settings}, **(changes or {}))
    model = build_model(whole).double()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def by_hand(model: Any) -> Tensor:
    """Return the normalised [class; patches]: the stem, both grids and the class blocks by hand."""
    x = IMAGES.permute(0, 3, 1, 2)
    for conv, norm in zip(model.stem.convs, model.stem.norms, strict=True):
        x = norm(conv(x)).relu()
    fine = model.stem.map(x).permute(0, 2, 3, 1)
    assert fine.shape == (2, 4, 6, 4)
    tokens = fine.reshape(2, 24, 4)
    for block in model.outlookers:
        tokens = tokens + block.mixer.reference(block.mixer_norm(tokens))
        tokens = tokens + block.mlp(block.mlp_norm(tokens))
    fine = tokens.reshape(2, 4, 6, 4)
    down = nn.Conv2d(4, 8, 2, stride=2).double()
    down.weight.data = model.embedding.map.weight.data.view(8, 2, 2, 4).permute(0, 3, 1, 2)
    down.bias.data = model.embedding.map.bias.data
    x = down(fine.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
    x = x + model.trunk.position.vectors(6)
    for block in model.trunk.blocks:
        x = block(x)
    first = model.class_token.vector.expand(2, 1, 8)
    for block in model.trunk.class_blocks:
        first = block(first, x)
    hidden: Tensor = model.trunk.norm(torch.cat([first, x], dim=1))
    return hidden


def test_it_is_the_papers_order() -> None:
    """Check that positions follow the outlookers; the means of the stem's norms are moved."""
    model = volo()
    model(IMAGES)
    model.eval()
    torch.testing.assert_close(model(IMAGES), model.head(by_hand(model)[:, 0]))


def test_a_head_of_tokens_adds_half_of_its_largest_logits_and_gives_all() -> None:
    model = volo(has_token_head=True).eval()
    found, hidden = model(IMAGES), by_hand(model)
    assert isinstance(found, Outputs)
    of_tokens = torch.stack([model.token_head(hidden[:, 1 + p]) for p in range(6)], dim=1)
    torch.testing.assert_close(found.auxiliary["tokens"], of_tokens)
    largest = torch.stack([of_tokens[..., c].max(dim=1).values for c in range(5)], dim=1)
    torch.testing.assert_close(found.logits, model.head(hidden[:, 0]) + largest / 2)


def test_every_parameter_gets_a_gradient() -> None:
    model = volo(has_token_head=True)
    model(IMAGES).logits.square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_outlookers_are_never_left_out_by_chance() -> None:
    model = volo(stochastic_depth=0.5)
    assert {block.mlp_sum.rate for block in model.outlookers} == {0.0}
    assert [block.mixer_sum.rate for block in model.trunk.blocks] == [0.25, 0.5]


def test_its_mixers_are_named_and_its_batch_is_not_cut() -> None:
    kind = architecture_class("volo")
    assert kind.mixers_of(SPEC) == ("outlook_attention", "attention")
    how: dict[str, Any] = {"are_parameters_divided": False}
    assert kind.why_whole(SPEC, num_parts=1, **how) == ""
    assert "batch norm is over a whole batch" in kind.why_whole(SPEC, num_parts=2, **how)


@pytest.mark.parametrize(("side", "channels", "patch"), [(28, 1, 2), (32, 3, 4), (48, 3, 8)])
def test_it_reads_the_images_of_tasks(side: int, channels: int, patch: int) -> None:
    size = {"grid": (side, side), "length": side**2, "input_size": channels}
    assert volo(size, patch=patch)(torch.randn(2, side, side, channels).double()).shape == (2, 5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"patch": 16}, "volo: two patches of patch=16 do not divide an image of 16 x 24 pixels"),
        ({"patch": 3}, "patch=3 is not allowed, give 2 or 4 or 8 or 16"),
        ({"stem_width": 0}, "volo: stem_width=0 is below 1"),
        ({"outlook_depth": -1}, "volo: outlook_depth=-1 is below 0"),
        ({"outlook_dim": 0}, "volo: outlook_dim=0 is below 1"),
        ({"outlook_heads": 3}, "outlook_attention: heads=3 does not divide dim=4"),
        ({"class_heads": 3}, "volo: class_heads=3 does not divide dim=8"),
        (
            {"has_token_head": True, "class_depth": 0, "pooling": "mean"},
            "volo: has_token_head=True needs pooling='class_token'",
        ),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build_shapes(replace(SPEC, settings={**SPEC.settings, **settings}))
