"""Check a Swin transformer: smaller maps, blocks that start as the identity, fitting windows."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Architecture, ModelError, ModelSpec, build_model
from bakeoff.models.architectures.swin import PatchMerging
from bakeoff.models.sublayers import StackConfig

BOTH = pytest.mark.parametrize("name", ["swin", "swin_v2"])


def spec(name: str = "swin", side: int = 16, channels: int = 1, **settings: Any) -> ModelSpec:
    return ModelSpec(
        architecture=name,
        dim=8,
        length=side**2,
        grid=(side, side),
        input_kind="image",
        input_size=channels,
        output_size=5,
        settings={"patch": 2, "window": 4, **settings},
    )


def build(model_spec: ModelSpec) -> Any:
    torch.manual_seed(0)
    return build_model(model_spec).double().eval()


def images(side: int = 16, channels: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, side, side, channels, generator=generator).double()


def blocks(model: Architecture) -> list[Any]:
    return [block for stage in model.stages for block in stage.blocks]


@BOTH
@pytest.mark.parametrize(
    ("side", "channels", "patch", "maps"),
    [(28, 1, 4, (7, 4, 2)), (28, 1, 2, (14, 7, 4)), (32, 3, 4, (8, 4, 2)), (48, 3, 4, (12, 6, 3))],
)
def test_it_reads_the_images_of_small_tasks(
    name: str, side: int, channels: int, patch: int, maps: tuple[int, ...]
) -> None:
    model = build(spec(name, side, channels, patch=patch, window=7))
    assert [stage.spec.grid for stage in model.stages] == [(side, side) for side in maps]
    assert [stage.spec.dim for stage in model.stages] == [8, 16, 32]
    windows = [max(2, min(7, side)) for side in maps]
    assert [block.mixer.config.window for block in blocks(model)[::2]] == windows
    shifts = [
        block.mixer._windows(s**2).shifts[0]
        for s in maps
        for block in model.stages[maps.index(s)].blocks
    ]
    assert shifts == [shift for side in maps for shift in (0, 3 if side > 7 else 0)]
    assert model(images(side, channels)).shape == (2, 5)


@pytest.mark.parametrize("placement", ["pre", "res_post"])
@pytest.mark.parametrize("grid", [(4, 6), (3, 5), (1, 1)])
def test_merging_is_the_loop_over_its_neighbours(grid: tuple[int, int], placement: Any) -> None:
    rows, columns = grid
    torch.manual_seed(0)
    config = StackConfig(norm_placement=placement)
    merging = PatchMerging(replace(spec(), grid=grid, length=rows * columns), config).double()
    for parameter in merging.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    x = torch.randn(2, rows * columns, 8).double()
    found, expected = merging(x), []
    for row in range(0, rows, 2):
        for column in range(0, columns, 2):
            four = [(row, column), (row + 1, column), (row, column + 1), (row + 1, column + 1)]
            vectors = [
                x[:, r * columns + c] if r < rows and c < columns else 0 * x[:, 0] for r, c in four
            ]
            together = torch.cat(vectors, dim=1)
            if placement == "pre":
                expected.append(merging.norm(together) @ merging.map.weight.T)
            else:
                expected.append(merging.norm(together @ merging.map.weight.T))
    torch.testing.assert_close(found, torch.stack(expected, dim=1))
    assert merging.norm.weight.shape == (32 if placement == "pre" else 16,)
    assert merging.map.bias is None
    assert merging.spec.grid == (math.ceil(rows / 2), math.ceil(columns / 2))


def test_every_block_of_the_second_version_starts_as_the_identity() -> None:
    model = build(spec("swin_v2", initialisation="truncated_normal"))
    for block in blocks(model):
        x = torch.randn(2, block.mixer.max_length, block.mixer.dim).double()
        assert torch.equal(block(x), x)
    x = torch.randn(2, 64, 8).double()
    moves = [build(spec("swin")), build(spec("swin_v2", norm_placement="pre"))]
    assert all(not torch.equal(blocks(model)[0](x), x) for model in moves)
    without_sum = build(spec("swin_v2", has_residual=False))
    assert without_sum(images()).std() > 0


def test_the_second_version_is_the_first_with_other_knobs() -> None:
    knobs = {"norm_placement": "res_post", "relative_bias": "mlp", "score": "cosine"}
    first, second = build(spec("swin", **knobs)), build(spec("swin_v2"))
    second.load_state_dict(first.state_dict())
    for model in (first, second):
        for block in blocks(model):
            block.mixer_norm.weight.data.fill_(0.7)
    assert torch.equal(first(images()), second(images()))
    assert not torch.equal(build(spec("swin"))(images()), build(spec("swin_v2"))(images()))
    mixer = blocks(second)[0].mixer
    assert mixer.log_factor is not None
    assert (mixer.key.bias is None, mixer.query.bias is None) == (True, False)


def test_the_last_block_of_all_is_left_out_most_often() -> None:
    model = build(spec(depths="1-2-1", stochastic_depth=0.4))
    rates = [block.mixer_sum.rate for block in blocks(model)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert [block.mlp_sum.rate for block in blocks(model)] == rates


def test_one_number_of_heads_doubles_with_the_width() -> None:
    for heads, expected in (("2", [2, 4, 8]), ("1-2-4", [1, 2, 4]), ("4-4-4", [4, 4, 4])):
        model = build(spec(depths="1-1-1", heads=heads))
        assert [block.mixer.heads for block in blocks(model)] == expected


@pytest.mark.parametrize(
    ("settings", "is_blind"),
    [
        ({"relative_bias": "none"}, True),
        ({"relative_bias": "none", "has_absolute_position": True}, False),
        ({"relative_bias": "table"}, False),
        ({"relative_bias": "mlp"}, False),
    ],
)
def test_without_a_position_one_window_knows_no_order(settings: Any, is_blind: bool) -> None:
    model = build(spec(side=8, depths="2", **settings))
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    x = images(side=8)
    turned = x.flip(1).reshape(2, 4, 2, 8, 1).flip(2).reshape(2, 8, 8, 1)  # rows of whole patches
    assert torch.allclose(model(x), model(turned), rtol=0, atol=1e-9) == is_blind


def test_shifted_windows_carry_a_pixel_across_the_edge_of_a_window() -> None:
    for shift, reaches in (("alternate", True), ("none", False)):
        stage = build(spec(depths="2", shift=shift)).stages[0]
        x = torch.randn(1, 64, 8).double().requires_grad_()
        (gradient,) = torch.autograd.grad(stage(x)[0, 3 * 8 + 3].sum(), x)
        met = gradient[0].abs().sum(-1).reshape(8, 8) > 0
        assert met[4:, 4:].any() == reaches
        assert met[:4, :4].all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"depths": "2-0"}, "swin: depths='2-0' are not whole numbers of at least 1, joined"),
        ({"heads": "2,4"}, "heads='2,4' are not whole numbers"),
        ({"depths": ""}, "depths='' are not whole numbers"),
        ({"heads": "2-4"}, "heads='2-4' has 2 numbers, and depths='2-2-2' has 3; give one or as"),
        ({"heads": "3"}, "heads=3 does not divide dim=8"),
        ({"window": 1}, "swin: window=1 is not at least 2"),
        ({"patch": 0}, "swin: patch=0 is not at least 1"),
        ({"patch": 3}, "swin: patch=3 does not divide an image of 16 x 16 pixels"),
        ({"residual": "reversible"}, "residual='reversible' ends where a map is merged"),
        ({"position_mode": "concatenated"}, "='concatenated' needs has_absolute_position=True"),
        ({"position_std": 0.02}, "position_std=0.02 needs has_absolute_position=True"),
        ({"depth": 2}, "swin has no knob 'depth'"),
    ],
)
def test_what_cannot_be_is_refused(settings: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        build(spec(**settings))
