import math

import pytest
import torch

from models import POSITIONS, ModelError, position_class
from models.positions.absolute import (
    LearnedPosition,
    NoPosition,
    SinusoidalPosition,
    sinusoids,
)
from models.registry import relative_position


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


# The size that they start with


@pytest.mark.parametrize("name", ["learned", "learned_2d"])
def test_smaller_vectors_are_the_same_draws(name: str) -> None:
    drawn = []
    for std in (1.0, 0.02):
        torch.manual_seed(0)
        drawn.append(position_class(name)(dim=64, max_length=48, grid=(6, 8), std=std))
    for usual, small in zip(*(each.parameters() for each in drawn), strict=True):
        torch.testing.assert_close(small, 0.02 * usual)
