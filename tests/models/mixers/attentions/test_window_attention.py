"""Check windows of a grid: the tokens of each, the effect of a shift, and the relative bias."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import Mixer, ModelError, ModelSpec, build_mixer, build_model
from bakeoff.models.initialisation import PartSeeds, redraw
from bakeoff.models.vision.windows import BiasTable, Windows
from bakeoff.suite.probes.tensor_bytes import growth_bytes

# The windows fit, need padding in both directions, or are at least the size of the map.
GRIDS = [(8, 8, 4), (9, 7, 4), (5, 8, 3), (8, 4, 5), (3, 7, 3), (4, 3, 7)]
on_grids = pytest.mark.parametrize(("rows", "columns", "window"), GRIDS)
of_layers = pytest.mark.parametrize("layer", [0, 1])


def on_grid(rows: int, columns: int, layer: int = 0, **knobs: Any) -> Any:
    torch.manual_seed(0)
    mixer = build_mixer("window_attention", dim=8, max_length=rows * columns, **knobs).double()
    for parameter in mixer.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    mixer.take_grid((rows, columns), 0)
    mixer.take_place(layer, mixer)
    return mixer


def tokens(length: int) -> Tensor:
    return torch.randn(2, length, 8, generator=torch.Generator().manual_seed(1)).double()


@on_grids
@of_layers
def test_it_equals_its_loop_and_sees_what_it_says(
    rows: int, columns: int, window: int, layer: int
) -> None:
    mixer = on_grid(rows, columns, layer, window=window, heads=2, bias=True)
    length = rows * columns
    x = tokens(length).requires_grad_()
    mixed = mixer(x)
    torch.testing.assert_close(mixed, mixer.reference(x))
    mask = torch.arange(length) % 3 != 0
    masks = torch.stack([mask, ~mask])
    torch.testing.assert_close(mixer(x, masks)[masks], mixer.reference(x, masks)[masks])


@on_grids
def test_the_mask_of_a_shifted_layer_is_that_of_a_loop(
    rows: int, columns: int, window: int
) -> None:
    windows = on_grid(rows, columns, 1, window=window)._windows(rows * columns)
    places = windows.cut(1 + torch.arange(rows * columns).reshape(1, -1, 1))[0, :, :, 0]
    assert sorted(places[places > 0].tolist()) == list(range(1, rows * columns + 1))
    seen = windows.seen(None, 1, places.device)
    for number, together in enumerate(places.tolist()):
        for i, query in enumerate(together):
            for j, key in enumerate(together):
                is_seen = query > 0 < key and shares(query - 1, key - 1, columns, windows)
                assert is_seen == (seen is None or seen[number, 0, i, j]), (query, key)


def shares(place: int, other: int, columns: int, windows: Windows) -> bool:
    """Return True if no edge of a shifted window lies between the two places."""
    for a, b, side, shift in zip(
        divmod(place, columns), divmod(other, columns), windows.sides, windows.shifts, strict=True
    ):
        edges = [edge for edge in range(1, 100) if (edge - shift) % side == 0]
        if any(min(a, b) < edge <= max(a, b) for edge in edges):
            return False
    return True


def test_a_map_that_is_not_larger_is_one_window_without_shift() -> None:
    for rows, columns, sides, shifts in (
        (4, 4, (4, 4), (0, 0)),
        (3, 5, (3, 4), (0, 2)),
        (5, 5, (4, 4), (2, 2)),
    ):
        windows = on_grid(rows, columns, 1, window=4)._windows(rows * columns)
        assert (windows.sides, windows.shifts) == (sides, shifts)
        assert on_grid(rows, columns, 0, window=4)._windows(rows * columns).shifts == (0, 0)
        still = on_grid(rows, columns, 1, window=4, shift="none")
        assert still._windows(rows * columns).shifts == (0, 0)


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (2, 3)])
def test_the_bias_of_a_step_stands_where_the_paper_has_it(rows: int, columns: int) -> None:
    table = BiasTable(heads=2, window=3)
    table.table.data = torch.arange(50.0).reshape(25, 2)
    found = table((rows, columns))
    for i in range(rows * columns):
        for j in range(rows * columns):
            down, across = i // columns - j // columns, i % columns - j % columns
            index = (down + 2) * 5 + across + 2
            assert found[0, :, i, j].tolist() == [2.0 * index, 2.0 * index + 1]


def test_the_network_says_the_formula_of_a_step() -> None:
    mixer = on_grid(3, 4, window=4, relative_bias="mlp")
    found = mixer.relative_bias((3, 4))
    first, second = mixer.relative_bias.expand, mixer.relative_bias.contract
    for i in range(12):
        for j in range(12):
            step = torch.tensor([i // 4 - j // 4, i % 4 - j % 4]).double() / 3
            scaled = step.sign() * (8 * step.abs() + 1).log2() / math.log2(8)
            hidden = (first.weight @ scaled + first.bias).clamp(min=0)
            expected = 16 / (1 + torch.exp(-(second.weight @ hidden)))
            torch.testing.assert_close(found[0, :, i, j], expected)


def test_cosines_are_multiplied_by_a_hundred_at_most() -> None:
    mixer = build_mixer("window_attention", dim=8, score="cosine")
    torch.testing.assert_close(mixer._factors(), torch.full((4,), 10.0))
    mixer.log_factor.data = torch.tensor([0.0, math.log(99), math.log(101), 50.0])
    torch.testing.assert_close(mixer._factors(), torch.tensor([1.0, 99.0, 100.0, 100.0]))


def test_keys_have_no_bias_where_scores_are_cosines() -> None:
    for score, bias, expected in (
        ("scaled", True, [True] * 4),
        ("cosine", True, [True, False, True, True]),
        ("scaled", False, [False] * 4),
        ("cosine", False, [False] * 4),
    ):
        mixer = build_mixer("window_attention", dim=8, score=score, bias=bias)
        linears = (mixer.query, mixer.key, mixer.value, mixer.output)
        assert [each.bias is not None for each in linears] == expected


@pytest.mark.parametrize("relative_bias", ["table", "mlp"])
def test_no_initialisation_draws_the_bias_again(relative_bias: str) -> None:
    torch.manual_seed(0)
    mixer = build_mixer("window_attention", dim=8, relative_bias=relative_bias)
    before = {key: value.clone() for key, value in mixer.state_dict().items()}
    redraw(mixer, "xavier_uniform", PartSeeds())
    for key, value in mixer.state_dict().items():
        assert torch.equal(value, before[key]) == key.startswith("relative_bias"), key
    bias = mixer.relative_bias((7, 7))
    mean, spread = (0.0, 0.02) if relative_bias == "table" else (8.0, 0.1)
    assert bias.mean().item() == pytest.approx(mean, abs=0.1)
    assert 0 < bias.std() < 1.2 * spread


def vision_transformer(pooling: str) -> Any:
    spec = ModelSpec(
        architecture="vit",
        mixer="window_attention",
        knobs={"window": 2},
        position="none",
        dim=8,
        depth=3,
        length=48,
        input_kind="image",
        input_size=1,
        grid=(8, 6),
        output_size=3,
        settings={"patch": 2, "pooling": pooling},
    )
    return build_model(spec)


def test_in_a_vision_transformer_every_other_layer_is_shifted() -> None:
    mixers = [block.mixer for block in vision_transformer("mean").trunk.blocks]
    assert [mixer.grid for mixer in mixers] == [(4, 3)] * 3
    assert [mixer._windows(12).shifts for mixer in mixers] == [(0, 0), (1, 1), (0, 0)]
    assert vision_transformer("mean")(torch.randn(2, 8, 6, 1)).shape == (2, 3)


def test_what_has_no_place_in_windows_is_refused() -> None:
    with pytest.raises(ModelError, match="a class token has no place on it; give pooling='mean'"):
        vision_transformer("class_token")
    with pytest.raises(ModelError, match="takes the 2 x 3 tokens of its grid, not 5"):
        on_grid(2, 3)(torch.zeros(1, 5, 8).double())
    with pytest.raises(ModelError, match="window=1 is below 2, where no token would see another"):
        build_mixer("window_attention", window=1)


def test_a_shifted_layer_costs_what_the_others_cost() -> None:
    plain, shifted = (on_grid(8, 8, layer, window=4) for layer in (0, 1))
    assert isinstance(plain, Mixer)
    assert plain.flops(64) == shifted.flops(64) == 64 * (4 * 2 * 8 * 8 + 2 * 2 * 16 * 8)


@pytest.mark.parametrize("knobs", [{}, {"score": "cosine"}, {"relative_bias": "mlp"}], ids=str)
@pytest.mark.parametrize("grid", [(14, 14), (9, 12)])
@of_layers
def test_bytes_on_a_grid_are_those_that_are_held(
    grid: tuple[int, int], layer: int, knobs: dict[str, Any]
) -> None:
    mixer = build_mixer("window_attention", dim=64, max_length=math.prod(grid), **knobs)
    mixer.take_grid(grid, 0)
    mixer.take_place(layer, mixer)
    x = torch.randn(2, math.prod(grid), 64)
    with torch.no_grad():
        held = growth_bytes(lambda: mixer(x), "cpu")
    assert mixer.forward_bytes(math.prod(grid), 2) == pytest.approx(held, rel=0.02)
