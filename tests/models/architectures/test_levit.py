"""Compare LeViT with loops over places, after the paper and its code; and check its errors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import ModelError, ModelSpec, build_model, build_shapes
from bakeoff.models.architectures.levit import LeViT
from bakeoff.models.initialisation import declared
from bakeoff.models.interface import Outputs
from bakeoff.models.vision.biased_attention import BiasedAttention, HardswishMLP

SIZES = {"dims": "8-12-16", "depths": "1-2-1", "heads": "1-3-2", "key_dim": 4, "halvings": 1}
SPEC = ModelSpec(
    architecture="levit",
    length=126,
    input_kind="image",
    input_size=3,
    output_size=5,
    grid=(14, 9),
    settings=SIZES,
)
IMAGES = torch.randn(4, 14, 9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
GRID = (5, 4)


def levit(*, is_moved: bool = True, **settings: Any) -> Any:
    """Build in float64; if moved, change every parameter and statistic from its initial value."""
    torch.manual_seed(0)
    model = build_model(replace(SPEC, settings={**SIZES, **settings})).double()
    return moved(model) if is_moved else model


def moved(model: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for tensor in model.state_dict().values():
        if tensor.is_floating_point():
            tensor += (0.3 * torch.randn_like(tensor)).clamp(-0.8, 0.8)
    return model


def normed(part: Any, x: Tensor) -> Tensor:
    """Apply a linear map and its batch norm in evaluation mode, to one token or to all."""
    norm, y = part.norm, x @ part.linear.weight.T
    scaled = (y - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
    return scaled * norm.weight + norm.bias


def hardswish(x: Tensor) -> Tensor:
    return x * (x + 3).clamp(0, 6) / 6


def slow_attention(
    layer: Any,
    x: Tensor,
    grid: tuple[int, int],
    *,
    heads: int,
    key_dim: int,
    shrinks: bool,
    has_bias: bool = True,
    has_activation: bool = True,
) -> Tensor:
    """Compute attention query by query and head by head for one image, `[time, dim]`."""
    rows, columns = grid
    step, value_dim = (2, 4 * key_dim) if shrinks else (1, 2 * key_dim)
    places = [(r, c) for r in range(rows) for c in range(columns)]
    both = normed(layer.key_value, x).view(len(places), heads, key_dim + value_dim)
    found = []
    for r in range(0, rows, step):
        for c in range(0, columns, step):
            query = normed(layer.query, x[r * columns + c]).view(heads, key_dim)
            mixed = []
            for head in range(heads):
                scores = []
                for place, (r2, c2) in enumerate(places):
                    score = query[head] @ both[place, head, :key_dim] / math.sqrt(key_dim)
                    if has_bias:
                        score = score + layer.biases[head, abs(r - r2) * columns + abs(c - c2)]
                    scores.append(score)
                weights = torch.stack(scores).softmax(dim=0)
                values = both[:, head, key_dim:]
                mixed.append(sum(w * v for w, v in zip(weights, values, strict=True)))
            joined = torch.cat(mixed)
            found.append(normed(layer.output, hardswish(joined) if has_activation else joined))
    return torch.stack(found)


def attention(**how: Any) -> Any:
    torch.manual_seed(0)
    whole = {"has_bias": True, "has_activation": True, **how}
    layer = BiasedAttention(6, grid=GRID, heads=3, key_dim=2, **whole)
    return moved(layer.double().eval())


@pytest.mark.parametrize("shrinks", [False, True])
@pytest.mark.parametrize("how", [{}, {"has_bias": False}, {"has_activation": False}], ids=str)
def test_attention_is_the_slow_loop(how: dict[str, bool], shrinks: bool) -> None:
    layer = attention(shrinks_to=10 if shrinks else None, **how)
    x = torch.randn(2, 20, 6, generator=torch.Generator().manual_seed(2)).double()
    found = layer(x)
    assert found.shape == ((2, 3 * 2, 10) if shrinks else (2, 20, 6))
    for image, expected in zip(x, found, strict=True):
        slow = slow_attention(layer, image, GRID, heads=3, key_dim=2, shrinks=shrinks, **how)
        torch.testing.assert_close(expected, slow, rtol=0, atol=1e-10)


def test_a_bias_is_of_distances_whatever_the_direction() -> None:
    """Check that the bias ignores direction but not the axis, on a grid that is not a square."""
    bias = attention().bias(torch.float64).unflatten(1, GRID).unflatten(3, GRID)
    torch.testing.assert_close(bias[:, 1, 0, 3, 1], bias[:, 4, 3, 2, 2])
    assert not torch.isclose(bias[:, 0, 0, 1, 2], bias[:, 0, 0, 2, 1]).any()
    assert attention().biases.shape == (3, 20)


def slow_levit(model: Any, image: Tensor) -> list[Tensor]:
    """Return the logits of both heads for one image, in evaluation mode."""
    x, grid = image, (14, 9)
    padded = torch.zeros(16, 11, 3).double()
    padded[1:15, 1:10] = x
    kernel, norm = model.stem.convs[0].weight, model.stem.norms[0]
    tokens = []
    for r in range(0, 14, 2):
        for c in range(0, 9, 2):
            y = torch.einsum("ijk,okij->o", padded[r : r + 3, c : c + 3], kernel)
            y = (y - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
            tokens.append(y * norm.weight + norm.bias)
    x, grid, before = torch.stack(tokens), (7, 5), 8
    stages = zip(model.stages, (8, 12, 16), (1, 2, 1), (1, 3, 2), strict=True)
    for number, (stage, dim, depth, heads) in enumerate(stages):
        branches = iter(stage.branches)
        if number:
            x = slow_attention(stage.shrink, x, grid, heads=before // 4, key_dim=4, shrinks=True)
            grid = ((grid[0] + 1) // 2, (grid[1] + 1) // 2)
            x = x + slow_mlp(next(branches), x)
        for _ in range(depth):
            of_block = next(branches)
            x = x + slow_attention(of_block, x, grid, heads=heads, key_dim=4, shrinks=False)
            x = x + slow_mlp(next(branches), x)
        assert not list(branches)
        before = dim
    return [slow_head(head, x.mean(dim=0)) for head in (model.head, model.distillation_head)]


def slow_mlp(part: Any, x: Tensor) -> Tensor:
    return normed(part.contract, hardswish(normed(part.expand, x)))


def slow_head(head: Any, x: Tensor) -> Tensor:
    norm, linear = head
    x = (x - norm.running_mean) / (norm.running_var + 1e-5).sqrt() * norm.weight + norm.bias
    found: Tensor = linear.weight @ x + linear.bias
    return found


def test_it_is_the_papers_model_and_answers_by_the_mean_of_its_heads() -> None:
    model = levit().eval()
    with torch.no_grad():
        found = model(IMAGES[:2])
        both = [slow_levit(model, image) for image in IMAGES[:2]]
    expected = torch.stack([(own + taught) / 2 for own, taught in both])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    own, taught = both[0]
    assert not torch.allclose(own, taught)


def test_in_training_each_head_answers_for_itself() -> None:
    model = levit()
    read: list[Tensor] = []
    model.head.register_forward_hook(lambda *call: read.append(call[2]))
    model.distillation_head.register_forward_hook(lambda *call: read.append(call[2]))
    found = model(IMAGES)
    assert isinstance(found, Outputs)
    assert found.logits is read[0]
    assert found.auxiliary == {"distillation": read[1]}
    alone = levit(has_distillation_head=False)
    assert isinstance(alone(IMAGES), Tensor)
    assert alone.num_parameters() == model.num_parameters() - (2 * 16 + 16 * 5 + 5)


def test_every_block_starts_as_the_identity_and_every_shrinking_does_not() -> None:
    model = levit(is_moved=False)
    x = model.stem(IMAGES)
    for stage in model.stages:
        if stage.shrink is not None:
            x = stage.shrink(x)
            assert x.std() > 0.5
        torch.testing.assert_close(stage(x) if stage.shrink is None else x, x)
        for branch in stage.branches:
            assert not branch(x).any()


def test_batch_norm_stands_behind_every_map_which_has_no_bias() -> None:
    model = levit()
    maps = [part for part in model.modules() if isinstance(part, nn.Linear | nn.Conv2d)]
    heads = [model.head[1], model.distillation_head[1]]
    assert all((part.bias is None) == (part not in heads) for part in maps)
    norms = [p for p in model.modules() if isinstance(p, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert len(norms) == len(maps)
    parts = [p for p in model.modules() if isinstance(p, BiasedAttention | HardswishMLP)]
    assert len(parts) == (1 + 2 + 1) * 2 + 2 * 2


def test_biases_are_drawn_as_zeros_and_do_not_decay() -> None:
    model = levit(is_moved=False)
    tables = {p for name, p in model.named_parameters() if name.endswith("biases")}
    assert len(tables) == 4 + 2
    assert not any(table.any() for table in tables)
    assert declared(model, "no_weight_decay") == tables
    assert not declared(levit(has_attention_bias=False), "no_weight_decay")


def test_stochastic_depth_leaves_out_branches_in_training_alone() -> None:
    plain, dropping = levit(), levit(stochastic_depth=0.5)
    torch.testing.assert_close(dropping.eval()(IMAGES), plain.eval()(IMAGES))
    torch.manual_seed(3)
    assert not torch.allclose(dropping.train()(IMAGES).logits, plain.train()(IMAGES).logits)


@pytest.mark.parametrize(("side", "halvings"), [(28, 2), (32, 3), (48, 4)])
def test_it_reads_the_images_of_our_tasks(side: int, halvings: int) -> None:
    small = replace(
        SPEC,
        length=side**2,
        grid=(side, side),
        input_size=1,
        settings={"dims": "32-48-64", "heads": "2-3-4", "halvings": halvings},
    )
    model: Any = build_model(small)
    assert model(torch.randn(2, side, side, 1)).logits.shape == (2, 5)
    first = math.ceil(side / 2**halvings)
    assert [stage.grid[0] for stage in model.stages] == [
        first,
        (first + 1) // 2,
        ((first + 1) // 2 + 1) // 2,
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dims": "8-x-16"}, "levit: dims='8-x-16' are not whole numbers of at least 1, joined"),
        ({"dims": "8-0-16"}, "dims='8-0-16' are not whole numbers"),
        ({"depths": ""}, "depths='' are not whole numbers"),
        ({"depths": "1-2"}, "depths='1-2' is not of 3 stages, as dims='8-12-16' is"),
        ({"heads": "1-2-3-4"}, "heads='1-2-3-4' is not of 3 stages"),
        ({"halvings": 0}, "halvings=0 is not a number of at least 1"),
        ({"halvings": 5}, "halvings=5 is not .* can begin with 8 channels"),
        ({"key_dim": 0}, "key_dim=0 does not divide"),
        ({"key_dim": 8}, "key_dim=8 does not divide all but the last of dims='8-12-16'"),
        ({"feed_forward_ratio": 0.0}, "feed_forward_ratio=0.0 is not above 0"),
        ({"stochastic_depth": 1.0}, "stochastic_depth=1.0 is not at least 0 and below 1"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build_shapes(replace(SPEC, settings={**SIZES, **changes}))


def test_an_image_without_a_grid_is_refused() -> None:
    with pytest.raises(ModelError, match="an image of no grid"):
        build_shapes(replace(SPEC, grid=None))


def test_it_says_what_its_training_needs() -> None:
    for num_parts, said in ((1, ""), (3, "would be cut into 3")):
        why = LeViT.why_whole(SPEC, num_parts=num_parts, are_parameters_divided=True)
        assert why.endswith(said)
        assert bool(why) == bool(said)
