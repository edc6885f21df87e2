"""ListOps: nested lists of operators and digits, to be evaluated.

Nangia and Bowman 2018 (arXiv:1804.06028), drawn as in the Long Range Arena (Tay et al. 2020,
arXiv:2011.04006, section 2.2.1, and its public generator):

    tree      a node is an operator with probability 1/4, else a digit, 0 to 9; at depth 10 always
              a digit; an operator has 2 to 10 arguments, uniform
    operators MIN, MAX, MED (the median, rounded down), SM (the sum modulo 10), uniform
    tokens    [OP arg ... ] : two for an operator, one for a digit; 16 symbols including padding
    kept      trees of more than 500 and fewer than 2,000 tokens; others are drawn again
    target    the value of the whole, one of ten classes

The task at length n keeps trees of more than n / 4 and fewer than n tokens, padded to n, so
``length=2000`` is the Arena's. **Below that only the bounds differ**: the distribution of the trees
is the same, conditioned on another size. Short ones are therefore flatter and easier: at 2,000
tokens nearly all reach depth 10, at 128 tokens few do. There are two departures: training examples
are always new, whereas the Arena repeats 96,000 trees (and has 2,000 each for validation and test);
and the closing bracket is a token of its own, as in the Arena's later pipeline, whereas its first
one dropped all brackets.

All trees of a batch grow at once, level by level. A tree that is already too long stops growing,
because it will be drawn again anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream, Whole, remainders
from bakeoff.suite.tasks.task import Batch

VERSION = 1
PADDING, FIRST_DIGIT, FIRST_OPERATOR, END = 0, 1, 11, 15
OPERATORS = ("MIN", "MAX", "MED", "SM")
NUM_SYMBOLS = 16
NUM_CLASSES = 10
MAX_DEPTH = 10
MIN_ARGUMENTS, MAX_ARGUMENTS = 2, 10
OPERATOR_ONE_IN = 4
SOURCE = definition_source(
    name="listops",
    title="ListOps as in the Long Range Arena",
    origin="Nangia and Bowman 2018, arXiv:1804.06028; Tay et al. 2020, arXiv:2011.04006",
    definition={
        "operators": list(OPERATORS),
        "operator_one_in": OPERATOR_ONE_IN,
        "depth": MAX_DEPTH,
        "arguments": [MIN_ARGUMENTS, MAX_ARGUMENTS],
        "tokens": "more than n / 4, fewer than n",
    },
    version=VERSION,
)


@dataclass(frozen=True, kw_only=True)
class Level:
    """The nodes of many trees at one depth; the arguments of a node are adjacent.

    Attributes:
        tree: `[nodes]`, the tree of each node.
        parent: `[nodes]`, index in the level above.
        num_arguments: `[nodes]`, 0 for a digit.
        symbol: `[nodes]`, the digit, or the index of the operator.
    """

    tree: Whole
    parent: Whole
    num_arguments: Whole
    symbol: Whole

    @cached_property
    def is_operator(self) -> NDArray[np.bool_]:
        """`[nodes]` booleans, True for operators."""
        return self.num_arguments > 0

    def num_tokens(self, num_trees: int) -> Whole:
        """Return the number of tokens of this level in each tree, `[trees]`."""
        of_operators = np.bincount(self.tree[self.is_operator], minlength=num_trees)
        return np.bincount(self.tree, minlength=num_trees) + of_operators


class ListOps(GeneratedTask):
    """Evaluation of a nested list, whose value is one of ten."""

    name = "listops"
    version = VERSION
    architecture = "classifier"
    asks_for = "class"
    floors = ("uniform", "majority", "first_symbol")
    source = SOURCE
    lengths = (16, 8_192)
    is_padded = True
    input_size = NUM_SYMBOLS
    output_size = NUM_CLASSES

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw trees and return the first `count` of allowed length."""
        tokens: list[Whole] = []
        values: list[Whole] = []
        num_found, num_trees = 0, 64 + 6 * count  # one in three to ten is of allowed length
        while num_found < count:
            grown, num_tokens = grow(stream, num_trees, self.length)
            is_allowed = (num_tokens * 4 > self.length) & (num_tokens < self.length)
            forest = kept(grown, np.flatnonzero(is_allowed)[: count - num_found], num_trees)
            values.append(evaluate(forest))
            tokens.append(written(forest, self.length))
            num_found += len(values[-1])
        inputs = torch.from_numpy(np.concatenate(tokens))
        return Batch(
            inputs={"inputs": inputs, "mask": inputs != PADDING},
            targets=torch.from_numpy(np.concatenate(values)),
        )


def grow(stream: RandomStream, num_trees: int, length: int) -> tuple[list[Level], Whole]:
    """Grow trees level by level, each with an operator at its root, since one digit is too short.

    Trees of `length` tokens or more are left unfinished.

    Returns:
        The levels, and the number of tokens of each tree.
    """
    roots = np.arange(num_trees)
    level = _level(stream, roots, np.zeros_like(roots), depth=1)
    levels, num_tokens = [level], level.num_tokens(num_trees)
    while level.is_operator.any():
        continues = level.is_operator & (num_tokens < length)[level.tree]
        parent = np.repeat(np.flatnonzero(continues), level.num_arguments[continues])
        level = _level(stream, level.tree[parent], parent, depth=len(levels) + 1)
        levels.append(level)
        num_tokens += level.num_tokens(num_trees)
    return levels, num_tokens


def _level(stream: RandomStream, tree: Whole, parent: Whole, *, depth: int) -> Level:
    """Draw the content of each node."""
    count = len(tree)
    kind, arguments, operator, digit = stream.bits(4 * count).reshape(4, count)
    is_operator = remainders(kind, OPERATOR_ONE_IN) == 0
    is_operator = (is_operator | (depth == 1)) & (depth < MAX_DEPTH)
    num_arguments, symbol = np.zeros_like(tree), remainders(digit, 10)
    choices = MAX_ARGUMENTS + 1 - MIN_ARGUMENTS
    num_arguments[is_operator] = MIN_ARGUMENTS + remainders(arguments[is_operator], choices)
    symbol[is_operator] = remainders(operator[is_operator], len(OPERATORS))
    return Level(tree=tree, parent=parent, num_arguments=num_arguments, symbol=symbol)


def kept(levels: list[Level], trees: Whole, num_trees: int) -> list[Level]:
    """Return only the chosen of `num_trees` trees, in their order, renumbered."""
    is_kept = np.zeros(num_trees, dtype=np.bool_)
    is_kept[trees] = True
    new_tree = np.cumsum(is_kept) - 1
    found: list[Level] = []
    new_place = new_tree  # new indices of the nodes of the level above
    for level in levels:
        stays = is_kept[level.tree]
        found.append(
            Level(
                tree=new_tree[level.tree[stays]],
                parent=new_place[level.parent[stays]],
                num_arguments=level.num_arguments[stays],
                symbol=level.symbol[stays],
            )
        )
        new_place = np.cumsum(stays) - 1
    return [level for level in found if len(level.tree)]


def evaluate(levels: list[Level]) -> Whole:
    """Return the values `[trees]`, computed from the deepest level upwards."""
    below = np.zeros(0, dtype=np.int64)
    for level in reversed(levels):
        values = level.symbol.copy()
        if level.is_operator.any():
            values[level.is_operator] = _applied(level, below)
        below = values
    return below


def _applied(level: Level, below: Whole) -> Whole:
    """Apply each operator of the level to its values in the level below; `[operators]`."""
    counts = level.num_arguments[level.is_operator]
    starts = np.cumsum(counts) - counts
    # Sort by operator, then by value, which is a digit.
    keys = np.repeat(10 * np.arange(len(counts), dtype=np.int32), counts) + below.astype(np.int32)
    ordered = np.sort(keys) % 10
    middle = ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]
    outcomes = np.stack(
        [
            ordered[starts],
            ordered[starts + counts - 1],
            middle // 2,
            np.add.reduceat(below, starts) % 10,
        ]
    )
    chosen: Whole = outcomes[level.symbol[level.is_operator], np.arange(len(counts))]
    return chosen


def written(levels: list[Level], length: int) -> Whole:
    """Return the trees as tokens `[trees, length]`, padded at the end."""
    spans = _spans(levels)
    tokens = np.full((len(levels[0].tree) if levels else 0, length), PADDING, dtype=np.int64)
    first = np.zeros(len(tokens), dtype=np.int64)
    for depth, (level, span) in enumerate(zip(levels, spans, strict=True)):
        if depth:
            above = levels[depth - 1]
            counts = above.num_arguments[above.is_operator]
            before = np.cumsum(span) - span
            of_siblings = np.repeat(before[np.cumsum(counts) - counts], counts)
            first = first[level.parent] + 1 + before - of_siblings
        symbol = np.where(level.is_operator, FIRST_OPERATOR, FIRST_DIGIT) + level.symbol
        tokens[level.tree, first + span - 1] = END
        tokens[level.tree, first] = symbol  # a digit has only this position
    return tokens


def _spans(levels: list[Level]) -> list[Whole]:
    """Return for each level `[nodes]`, the number of tokens of each node with its descendants."""
    spans: list[Whole] = []
    for level in reversed(levels):
        span = np.ones(len(level.tree), dtype=np.int64)
        if level.is_operator.any():
            counts = level.num_arguments[level.is_operator]
            inside = np.add.reduceat(spans[-1], np.cumsum(counts) - counts)
            span[level.is_operator] = 2 + inside
        spans.append(span)
    return spans[::-1]
