"""Compare the Long Range Arena's distribution with its definition as a recursion."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from statistics import median

import numpy as np
import pytest

from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.listops import (
    END,
    FIRST_DIGIT,
    FIRST_OPERATOR,
    NUM_CLASSES,
    OPERATORS,
    PADDING,
    ListOps,
)
from bakeoff.suite.tasks.task import Batch

APPLY = {
    "MIN": min,
    "MAX": max,
    "MED": lambda values: int(median(values)),
    "SM": lambda values: sum(values) % 10,
}
Tree = int | tuple  # a digit, or (operator, argument, ...)


def _read(tokens: list[int]) -> Tree:
    """Return the tree that the tokens encode."""
    rest = iter(token for token in tokens if token != PADDING)
    tree = _node(next(rest), rest)
    assert next(rest, None) is None, "nothing stands behind the last bracket"
    return tree


def _node(token: int, rest: Iterator[int]) -> Tree:
    if token < FIRST_OPERATOR:
        return token - FIRST_DIGIT
    arguments = []
    while (following := next(rest)) != END:
        arguments.append(_node(following, rest))
    return (OPERATORS[token - FIRST_OPERATOR], *arguments)


def _value(tree: Tree) -> int:
    return tree if isinstance(tree, int) else APPLY[tree[0]]([_value(part) for part in tree[1:]])


def _operators(tree: Tree, depth: int = 1) -> Iterator[tuple[str, int, int]]:
    """Yield (operator, number of arguments, depth) for each node of the tree."""
    if not isinstance(tree, int):
        yield tree[0], len(tree) - 1, depth
        for part in tree[1:]:
            yield from _operators(part, depth + 1)


def _depth(tree: Tree) -> int:
    return 1 if isinstance(tree, int) else 1 + max(_depth(part) for part in tree[1:])


def _num_tokens(tree: Tree) -> int:
    return 1 if isinstance(tree, int) else 2 + sum(_num_tokens(part) for part in tree[1:])


class TooLong(Exception):
    pass


def _arena_tree(chance: random.Random, room: list[int], depth: int = 1) -> Tree:
    """Return a tree by the Arena's definition, of at most `room[0]` tokens.

    The root is always an operator, since a digit would be too short.
    """
    if depth == 10 or (depth > 1 and chance.random() > 0.25):
        room[0] -= 1
        return chance.randrange(10)
    room[0] -= 2
    if room[0] < 0:
        raise TooLong
    parts = [_arena_tree(chance, room, depth + 1) for _ in range(chance.randint(2, 10))]
    return (chance.choice(OPERATORS), *parts)


def _arena_trees(length: int, count: int) -> list[Tree]:
    chance, found = random.Random(5), []
    while len(found) < count:
        with suppress(TooLong):
            tree = _arena_tree(chance, [length])
            if length / 4 < _num_tokens(tree) < length:
                found.append(tree)
    return found


def _trees(batch: Batch) -> list[Tree]:
    return [_read(tokens) for tokens in batch.inputs["inputs"].tolist()]


@pytest.fixture(scope="module")
def arena_batch() -> Batch:
    """Draw a batch at the Arena's length."""
    return ListOps(2000).draw(RandomStream(1, 1), 250, 0)


@pytest.fixture(scope="module")
def arena_trees(arena_batch: Batch) -> list[Tree]:
    return _trees(arena_batch)


def test_a_tree_is_written_as_the_paper_writes_it() -> None:
    """Check that [MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ] is 5, as in the Arena's paper."""
    inner = ("MED", 1, 5, 8, 9, 2)
    assert _value(("MAX", 4, 3, ("MIN", 2, 3), 1, 0, inner)) == 5


def test_every_target_is_the_value_of_its_tree(arena_batch: Batch, arena_trees: list[Tree]) -> None:
    assert [_value(tree) for tree in arena_trees] == arena_batch.targets.tolist()
    for length in (16, 50, 300):
        batch = ListOps(length).training_batch(2, 200, seed=1)
        assert [_value(tree) for tree in _trees(batch)] == batch.targets.tolist()


def test_lengths_are_500_to_2000(arena_batch: Batch) -> None:
    lengths = arena_batch.inputs["mask"].sum(dim=1)
    assert 500 < lengths.min() < 520
    assert 1900 < lengths.max() < 2000


def test_operators_are_four_and_equally_frequent(arena_trees: list[Tree]) -> None:
    counts = Counter(name for tree in arena_trees for name, _, _ in _operators(tree))
    assert set(counts) == {"MIN", "MAX", "MED", "SM"}
    for count in counts.values():
        assert count / counts.total() == pytest.approx(0.25, abs=0.01)


def test_operators_have_2_to_10_arguments(arena_trees: list[Tree]) -> None:
    counts = Counter(num for tree in arena_trees for _, num, _ in _operators(tree))
    assert set(counts) == set(range(2, 11))


def test_trees_are_at_most_10_deep_and_long_ones_are_all_but_always(
    arena_trees: list[Tree],
) -> None:
    depths = Counter(_depth(tree) for tree in arena_trees)
    assert max(depths) == 10
    assert depths[10] > 0.95 * depths.total()


def test_all_ten_classes_come_and_none_is_rare_or_common(arena_batch: Batch) -> None:
    shares = arena_batch.targets.bincount(minlength=NUM_CLASSES) / len(arena_batch.targets)
    assert shares.min() > 0.04
    assert shares.max() < 0.25


@pytest.mark.parametrize("length", [40, 80])
def test_the_law_is_that_of_the_recursive_definition(length: int) -> None:
    """Compare trees drawn by level and by branch: lengths, depths, classes and operators."""
    ours = _trees(ListOps(length).draw(RandomStream(0, 0), 1000, 0))
    theirs = _arena_trees(length, 1000)
    facts = {
        "class": _value,
        "depth": _depth,
        "tokens": lambda tree: _num_tokens(tree) * 10 // length,
        "root": lambda tree: tree[0],
        "arguments of the root": lambda tree: len(tree) - 1,
        "operators": lambda tree: min(12, sum(1 for _ in _operators(tree))),
    }
    for name, fact in facts.items():
        a, b = (Counter(fact(tree) for tree in trees) for trees in (ours, theirs))
        kinds = [kind for kind in a | b if a[kind] + b[kind] >= 10]
        chi_squared = sum((a[k] - b[k]) ** 2 / (a[k] + b[k]) for k in kinds)
        freedom = len(kinds) - 1
        assert chi_squared < freedom + 4.5 * np.sqrt(2 * freedom) + 4, name


def test_below_500_tokens_only_the_bounds_differ() -> None:
    batch = ListOps(128).training_batch(0, 500, seed=0)
    lengths = batch.inputs["mask"].sum(dim=1)
    assert (lengths.min(), lengths.max()) == (33, 127)
    depths = [_depth(tree) for tree in _trees(batch)]
    assert max(depths) <= 10
    assert np.mean(np.array(depths) == 10) < 0.3


def test_a_batch_of_any_size_is_full() -> None:
    for count in (1, 3, 700):
        assert len(ListOps(16).training_batch(0, count, seed=0).targets) == count
