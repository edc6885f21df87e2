import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from bakeoff.models import POSITIONS, ModelError, position_class
from bakeoff.models.positions.absolute import (
    LearnedPosition,
    NoPosition,
    Position,
    SinusoidalPosition,
    sinusoids,
)
from bakeoff.models.registry import relative_position


def test_sinusoids_are_the_papers_formula() -> None:
    table = sinusoids(50, 6)
    for pos in (0, 1, 7, 49):
        for i in range(3):
            angle = pos / 10000 ** (2 * i / 6)
            assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_a_shift_is_one_linear_map_for_all_positions() -> None:
    table, shift = sinusoids(64, 16), 5
    turns = [shift / 10000 ** (2 * i / 16) for i in range(8)]
    rotations = [[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]] for a in turns]
    shift_map = torch.block_diag(*torch.tensor(rotations, dtype=torch.float64))
    torch.testing.assert_close(table[:-shift] @ shift_map.T, table[shift:])


@pytest.mark.parametrize("name", [name for name in POSITIONS if not relative_position(name)])
@pytest.mark.parametrize("dim", [1, 7, 8])
def test_adds_the_same_table_to_every_sequence(name: str, dim: int) -> None:
    position = position_class(name)(dim=dim, max_length=9)
    x = torch.randn(2, 5, dim)
    added = position(x) - x
    assert added.shape == x.shape
    torch.testing.assert_close(added[0], added[1])
    torch.testing.assert_close(added, position(torch.zeros_like(x)))
    assert added.any() != (name == "none")
    vectors = position.vectors(5)
    assert (vectors is None) == (name == "none")
    if vectors is not None:
        torch.testing.assert_close(added[0], vectors)


def test_only_the_learned_table_is_trained_and_none_is_saved_twice() -> None:
    assert list(LearnedPosition(dim=4, max_length=9).state_dict()) == ["table"]
    assert not SinusoidalPosition(dim=4, max_length=9).state_dict()
    assert not NoPosition(dim=4, max_length=9).state_dict()


def test_learned_vectors_are_drawn_at_the_size_of_the_tokens() -> None:
    torch.manual_seed(0)
    assert LearnedPosition(dim=64, max_length=256).table.std().item() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("name", ["sinusoidal_2d", "learned_2d"])
@pytest.mark.parametrize("num_before", [0, 2])
def test_on_a_grid_rows_and_columns_have_a_half_each(name: str, num_before: int) -> None:
    rows, columns, dim = 3, 4, 7
    position = position_class(name)(dim=dim, max_length=num_before + 12, grid=(rows, columns))
    vectors = position.vectors(num_before + 12)
    of_rows, of_columns = position.tables()
    assert not vectors[:num_before].any()
    for r in range(rows):
        for c in range(columns):
            here = vectors[num_before + r * columns + c]
            assert here.tolist() == [*of_rows[r].tolist(), *of_columns[c].tolist()]
    if name == "sinusoidal_2d":
        assert torch.equal(of_rows, sinusoids(rows, 3).float())
        assert torch.equal(of_columns, sinusoids(columns, 4).float())
    assert torch.equal(position.vectors(num_before + 5), vectors[: num_before + 5])
    with pytest.raises(ModelError, match="has positions for"):
        position.vectors(num_before + 13)


def test_on_no_grid_all_tokens_stand_in_one_row() -> None:
    position = position_class("learned_2d")(dim=5, max_length=9)
    of_rows, of_columns = position.tables()
    assert (of_rows.shape, of_columns.shape) == ((1, 2), (9, 3))
    assert torch.equal(position.vectors(9)[:, 2:], of_columns)


# Resizing from one grid to another.


def _cubic(x: float) -> float:
    """Evaluate equation 15 of Keys 1981 with a = -1/2."""
    x = abs(x)
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def _triangle(x: float) -> float:
    return max(0.0, 1 - abs(x))


def _shares(new: int, old: int, kernel: Callable[[float], float]) -> torch.Tensor:
    """Return the share of each old place in each new one, `[new, old]`, by a slow loop."""
    stretch = max(1.0, old / new)
    shares = torch.zeros(new, old, dtype=torch.float64)
    for i in range(new):
        for j in range(old):
            shares[i, j] = kernel((j + 0.5 - (i + 0.5) * old / new) / stretch)
    return shares / shares.sum(dim=1, keepdim=True)


def _learned(name: str, grid: tuple[int, int] | None, num_before: int = 0) -> Position:
    length = num_before + (math.prod(grid) if grid else 12)
    position: Position = position_class(name)(dim=5, max_length=length, grid=grid).double()
    return position


@pytest.mark.parametrize("num_before", [0, 1, 2])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((4, 6), (8, 12)),
        ((4, 6), (6, 9)),
        ((6, 9), (4, 6)),
        ((2, 2), (7, 7)),
        ((6, 2), (3, 1)),
        ((2, 6), (1, 3)),
        ((3, 3), (1, 1)),
        ((1, 1), (3, 3)),
    ],
)
def test_a_table_is_interpolated_bicubically_over_its_grid(
    old: tuple[int, int], new: tuple[int, int], num_before: int
) -> None:
    theirs, ours = (_learned("learned", grid, num_before) for grid in (old, new))
    moved = ours.resampled("table", theirs.table)
    assert moved.shape == ours.table.shape
    assert torch.equal(moved[:num_before], theirs.table[:num_before])
    down, across = (_shares(n, o, _cubic) for n, o in zip(new, old, strict=True))
    on_grid = theirs.table[num_before:].reshape(*old, 5)
    expected = torch.einsum("ij,kl,jld->ikd", down, across, on_grid)
    torch.testing.assert_close(moved[num_before:].reshape(*new, 5), expected)


def test_on_a_finer_grid_a_linear_table_stays_linear_but_for_the_edge() -> None:
    def plane(rows: int, columns: int) -> torch.Tensor:
        down, across = ((torch.arange(n, dtype=torch.float64) + 0.5) / n for n in (rows, columns))
        return 3 * down[:, None, None] - 7 * across[:, None] + torch.arange(5).double()

    moved = _learned("learned", (8, 12)).resampled("table", plane(4, 6).flatten(0, 1))
    inside = slice(3, -3)
    found, expected = moved.reshape(8, 12, 5), plane(8, 12)
    torch.testing.assert_close(found[inside, inside], expected[inside, inside])
    assert (found - expected).abs().max() > 1e-3, "at the edge, neighbours are missing"


@pytest.mark.parametrize(("old", "new"), [((3, 5), (6, 9)), ((6, 9), (3, 5)), ((4, 4), (4, 8))])
def test_rows_and_columns_are_interpolated_linearly_each_for_itself(
    old: tuple[int, int], new: tuple[int, int]
) -> None:
    theirs, ours = (_learned("learned_2d", grid, 1) for grid in (old, new))
    for name, n, o in zip(("row_table", "column_table"), new, old, strict=True):
        table = theirs.get_parameter(name)
        moved = ours.resampled(name, table)
        torch.testing.assert_close(moved, _shares(n, o, _triangle) @ table)
        if n > o:
            places = [(i + 0.5) * o / n - 0.5 for i in range(n)]
            first = np.interp(places, range(o), table[:, 0].tolist())
            assert moved[:, 0].tolist() == pytest.approx(first.tolist(), abs=1e-12)


@pytest.mark.parametrize("name", ["learned", "learned_2d"])
def test_at_equal_size_a_table_stays_itself(name: str) -> None:
    position = _learned(name, (3, 6), 2)
    for each, table in position.named_parameters():
        torch.testing.assert_close(position.resampled(each, table), table.data, rtol=0, atol=1e-15)


@pytest.mark.parametrize("count", [1, 2, 8, 17, 18, 25])
def test_a_table_of_no_grid_of_that_ratio_does_not_fit(count: int) -> None:
    """Check one vector before 3 x 6 places; 1 + 2 x 4 has the right count, but not the ratio."""
    ours = _learned("learned", (3, 6), 1)
    assert ours.resampled("table", torch.randn(count, 5).double()) is None
    assert ours.resampled("table", torch.randn(1 + 8, 5).double()) is not None
    assert ours.resampled("table", torch.randn(1 + 8, 4).double()) is None
    assert ours.resampled("table", torch.randn(5).double()) is None


@pytest.mark.parametrize("name", ["learned", "learned_2d"])
def test_on_no_grid_nothing_is_interpolated(name: str) -> None:
    ours = _learned(name, None)
    for each, table in ours.named_parameters():
        assert ours.resampled(each, torch.randn(9, table.shape[1]).double()) is None


# The initial scale.


@pytest.mark.parametrize("name", ["learned", "learned_2d"])
def test_smaller_vectors_are_the_same_draws(name: str) -> None:
    drawn = []
    for std in (1.0, 0.02):
        torch.manual_seed(0)
        drawn.append(position_class(name)(dim=64, max_length=48, grid=(6, 8), std=std))
    for usual, small in zip(*(each.parameters() for each in drawn), strict=True):
        torch.testing.assert_close(small, 0.02 * usual)
