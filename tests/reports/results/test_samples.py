"""Test the numbers that describe attention maps and that invalid matrices are left out."""

from __future__ import annotations

import base64
from dataclasses import replace

import numpy as np
import pytest

from bakeoff.reports.results.samples import Matrix, at_distance, head_focus, matrices, of_heads
from bakeoff.suite.schema import Sample
from tests.reports.conftest import known

SIZE = 16


def causal(weights: np.ndarray) -> np.ndarray:
    lower = np.tril(weights)
    return lower / lower.sum(axis=1, keepdims=True)


def looking_at(offset: int) -> Matrix:
    """Return a map where each token attends only to the token `offset` positions before it."""
    rows = np.arange(SIZE)
    weights = np.zeros((SIZE, SIZE))
    weights[rows, np.maximum(rows - offset, 0)] = 1.0
    return Matrix(values=weights)


EVEN = Matrix(values=causal(np.ones((SIZE, SIZE))))


def sample(values: np.ndarray, **changes: object) -> Sample:
    high = float(values.max())
    levels = np.round(values / high * 255).astype(np.uint8).tobytes()
    made = Sample(
        kind="attention",
        title="layer 2, head 11",
        text="x" * values.shape[1],
        num_rows=values.shape[0],
        num_columns=values.shape[1],
        levels=base64.b64encode(levels).decode(),
        high=high,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("matrix", "mostly"),
    [
        (looking_at(0), "on itself (100 %)"),
        (looking_at(1), "on the previous token (100 %)"),
        (looking_at(SIZE), "on the first token (100 %)"),
        (looking_at(4), "spread out"),
        (Matrix(values=np.full((SIZE, SIZE), 1 / SIZE)), "spread out"),
        (
            Matrix(values=np.eye(SIZE, k=1) + np.eye(SIZE) * (np.arange(SIZE) == SIZE - 1)),
            "on the next token (100 %)",
        ),
    ],
)
def test_it_is_said_where_most_weight_lies(matrix: Matrix, mostly: str) -> None:
    assert known(head_focus(matrix)).mostly == mostly


def test_entropy_is_none_of_a_sharp_head_and_the_largest_of_an_even_one() -> None:
    sharp, even = known(head_focus(looking_at(1))), known(head_focus(EVEN))
    assert sharp.entropy == 0.0
    assert even.entropy == pytest.approx(even.most_entropy)
    assert even.most_entropy == pytest.approx(np.mean(np.log2(np.arange(3, SIZE + 1))))
    assert even.next is None
    both = known(head_focus(Matrix(values=np.full((SIZE, SIZE), 1 / SIZE))))
    assert both.most_entropy == pytest.approx(np.log2(SIZE))
    assert both.next == pytest.approx(1 / SIZE)


def test_how_far_a_head_looks_is_the_mean_distance() -> None:
    four, even = known(head_focus(looking_at(4))), known(head_focus(EVEN))
    assert four.distance == pytest.approx(np.mean([2, 3, *[4] * (SIZE - 4)]))
    assert even.distance == pytest.approx(np.mean(np.arange(2, SIZE) / 2))


def test_shares_are_of_all_weight_also_where_a_map_shows_a_part_of_it() -> None:
    found = known(head_focus(Matrix(values=np.full((SIZE, SIZE), 0.5 / SIZE))))
    assert found.itself == pytest.approx(0.5 / SIZE)
    assert found.entropy == pytest.approx(np.log2(SIZE))


@pytest.mark.parametrize("values", [np.eye(3), np.zeros((8, 8)), np.full((8, 4), 0.25)])
def test_nothing_is_said_of_what_shows_nothing(values: np.ndarray) -> None:
    assert head_focus(Matrix(values=values)) is None


def test_values_and_names_come_back() -> None:
    values = EVEN.values
    (found,) = matrices([sample(values)], "attention")
    np.testing.assert_allclose(found.values, values, atol=1 / 500)
    assert (found.layer, found.head, found.name) == (2, 11, "layer 2, head 11")
    assert found.letters == "x" * SIZE
    (short,) = matrices([sample(values, text="too short")], "attention")
    assert short.letters == ""
    assert matrices([sample(values)], "positions") == []
    assert of_heads([sample(values, title="cosine similarity")], "attention") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"levels": "no base64!"},
        {"levels": ""},
        {"num_rows": 15},
        {"num_rows": -16},
        {"high": float("nan")},
        {"high": float("inf")},
        {"low": 2.0},
        {"high": 7.0},
        {"low": -1.0},
        {"kind": "positions", "low": -1e308, "high": 1e308},
    ],
)
def test_what_is_no_matrix_is_left_out(changes: dict[str, object]) -> None:
    assert matrices([sample(EVEN.values, **changes)], "attention") == []
    assert matrices([sample(EVEN.values, **changes)], "positions") == []


def test_the_mean_at_a_distance_is_that_of_a_diagonal() -> None:
    places = np.arange(SIZE, dtype=float)
    assert at_distance(Matrix(values=places[:, None] - places[None, :]), 5) == 5.0
