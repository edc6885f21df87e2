"""Compare facts in a haystack with those that a plain reader of the tokens finds."""

from collections import Counter
from itertools import pairwise

import pytest
import torch

from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.long_range.needles import (
    ASK,
    FIRST_HAY,
    FIRST_NAME,
    FIRST_VALUE,
    MARK,
    Needle,
    Needles,
    VariableTracking,
    draw_places,
)
from bakeoff.suite.tasks.task import UNSCORED

TASKS = [Needle, Needles, VariableTracking]


def _facts(row: list[int]) -> dict[int, int]:
    """Return the value or name that each name is mapped to."""
    return {row[at + 1]: row[at + 2] for at, symbol in enumerate(row) if symbol == MARK}


def _chain(facts: dict[int, int], name: int) -> list[int]:
    """Return the chain of names that starts at `name`, with the value last."""
    found = [facts[name]]
    while found[-1] < FIRST_VALUE:
        found.append(facts[found[-1]])
    return found


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("length", [80, 300])
def test_each_name_is_asked_for_once_and_its_value_is_the_answer(
    kind: type[Needle | Needles | VariableTracking], length: int
) -> None:
    batch = kind(length).training_batch(1, 25, seed=2)
    for row, targets in zip(batch.inputs["inputs"].tolist(), batch.targets.tolist(), strict=True):
        facts = _facts(row)
        asked = {at + 1: row[at + 1] for at, symbol in enumerate(row) if symbol == ASK}
        assert sorted(asked.values()) == sorted(facts)
        assert min(asked) == length - 2 * len(facts) + 1
        for at, target in enumerate(targets):
            assert target == (_chain(facts, asked[at])[-1] if at in asked else UNSCORED)


@pytest.mark.parametrize("kind", TASKS)
def test_all_else_is_hay(kind: type[Needle | Needles | VariableTracking]) -> None:
    row = kind(300).training_batch(0, 1, seed=0).inputs["inputs"][0].tolist()
    num_facts = len(_facts(row))
    hay = [symbol for symbol in row if FIRST_HAY <= symbol < FIRST_NAME]
    assert len(hay) == 300 - 5 * num_facts


def test_numbers_of_keys_fill_at_most_half_of_the_length() -> None:
    kinds = {length: list(Needles(length).kinds()) for length in (40, 96, 320, 4096)}
    assert kinds == {40: [4], 96: [4, 8], 320: [4, 8, 16, 32], 4096: [4, 8, 16, 32]}


def test_a_chain_comes_in_order_and_the_chains_mix() -> None:
    batch = VariableTracking(200).training_batch(0, 30, seed=0)
    num_mixed = 0
    for row in batch.inputs["inputs"].tolist():
        facts, known = _facts(row), set[int]()
        for leads_to in facts.values():  # in the order of the haystack
            assert leads_to >= FIRST_VALUE or leads_to in known
            known = {*known, next(name for name, to in facts.items() if to == leads_to)}
        assert sorted(Counter(_chain(facts, name)[-1] for name in facts).values()) == [5, 5, 5]
        ends = [_chain(facts, name)[-1] for name in facts]
        num_mixed += sum(a != b for a, b in pairwise(ends))
    assert 8 < num_mixed / 30 < 12  # 10 of 14 neighbours belong to other chains


def test_parts_of_tracking_count_the_facts_from_a_name_to_its_value() -> None:
    task = VariableTracking(100)
    batch = task.training_batch(0, 10, seed=0)
    parts = task.in_parts(batch)
    for number, row in enumerate(batch.inputs["inputs"].tolist()):
        for at in range(70, 100):
            if row[at - 1] == ASK:
                assert parts[f"links={len(_chain(_facts(row), row[at]))}"][number, at]
    assert {name: int(part.sum()) for name, part in parts.items()} == dict.fromkeys(parts, 30)


def test_depth_is_that_of_the_only_fact() -> None:
    task = Needle(64)
    batch = task.training_batch(0, 400, seed=0)
    depth = (batch.inputs["inputs"] == MARK).long().argmax(dim=1) / (64 - 2 - 3 + 1)
    parts = task.in_parts(batch)
    for number, part in enumerate(parts.values()):
        assert torch.equal(part[:, 0], (depth >= number / 4) & (depth < (number + 1) / 4))
        assert 70 < part[:, 0].sum() < 130


def test_facts_stand_anywhere_and_none_overlaps_another() -> None:
    places = torch.from_numpy(draw_places(RandomStream(0, 0), 6_000, 2, 8))
    assert (places.diff(dim=1) >= 3).all()
    counts = Counter(map(tuple, places.tolist()))
    assert set(counts) == {(0, 3), (0, 4), (0, 5), (1, 4), (1, 5), (2, 5)}
    assert min(counts.values()) > 850


def test_without_recall_there_is_one_chance_in_as_many_as_there_are_answers() -> None:
    assert FLOORS["shown_answers"].score(VariableTracking(100)) == pytest.approx(1 / 3)
    # Half of the examples have 4 names, half 8: for each kind one answer per example is right.
    assert FLOORS["shown_answers"].score(Needles(96)) == pytest.approx(2 / 12)
