"""Shared strings of pairs, by hand and on the Bible in two languages."""

import torch

from suite.floors.shared_substrings import SharedSubstrings, least_shared
from suite.tasks.batch import Batch
from suite.tasks.registry import build_task, task_class


def _pairs(*rows: tuple[str, str, int]) -> Batch:
    texts = [[list(each.encode()) for each in row[:2]] for row in rows]
    return Batch(
        inputs={"inputs": torch.tensor(texts)}, targets=torch.tensor([row[2] for row in rows])
    )


def test_a_string_counts_once_wherever_it_stands() -> None:
    batch = _pairs(("abcabc", "zzzabc", 1), ("abcdef", "abcdxx", 1), ("abcdef", "ghijkl", 0))
    assert least_shared([batch], width=3) == 1
    strict = _pairs(("abcdef", "abcdxx", 1), ("abcabc", "zzzabc", 0))
    assert least_shared([strict], width=3) == 2


def test_from_more_than_any_pair_shares_the_answer_may_always_be_no() -> None:
    assert least_shared([_pairs(("aaaa", "aaaa", 0), ("abcd", "abcd", 0))], width=2) == 4


def test_names_tell_passages_of_two_languages_better_than_chance_and_not_well() -> None:
    score = SharedSubstrings().score(build_task("retrieval", 128))
    assert 0.55 < score < 0.8


def test_suits_pairs_alone() -> None:
    floor = SharedSubstrings()
    assert floor.suits(task_class("retrieval"))
    assert not floor.suits(task_class("listops"))
