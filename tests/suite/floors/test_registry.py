"""Check that every task has suitable floors with different labels."""

import pytest

from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.tasks.registry import TASKS, task_class

SUITED_ALONE = {  # tasks by floor; no other floor below suits them
    "word_by_word": {"reversal", "sorting", "bible_en_de"},
    "nearest_caption": {"emoji_scenes"},
    "nearest_choice": {"emoji_pairs"},
    "question_alone": {"emoji_questions"},
    "mean_picture": {"emoji_pictures"},
    "nearest_drawing": {"emoji_tokens"},
    "shared_substrings": {"retrieval"},
    "nadaraya_watson": {"kernel_regression"},
    "mean": {"kernel_regression"},
    "random_player": {"cart_pole_mixed"},
    "mean_of_data": {"cart_pole_mixed"},
    "five_gram": {"shakespeare_characters", "wikipedia_bytes", "enwik8"},
    "logistic_regression": {"fashion_mnist_images", "fashion_mnist_patches"},
    "first_symbol": {"listops", "emoji_questions"},
}
OF_OWN_DATA = {"mean_answer", "ridge_regression"}  # tests/suite/tasks/own has tasks with these


@pytest.mark.parametrize("name", FLOORS)
def test_a_floor_is_used(name: str) -> None:
    assert FLOORS[name].name == name
    assert FLOORS[name].version >= 1
    assert FLOORS[name].label
    assert name in OF_OWN_DATA or any(name in task_class(task).floors for task in TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_names_floors_that_suit_it(task: str) -> None:
    kind = task_class(task)
    assert kind.floors
    assert [name for name in kind.floors if not FLOORS[name].suits(kind)] == []
    labels = [FLOORS[name].label_on(kind) for name in kind.floors]
    assert len(set(labels)) == len(labels)
    assert not any("=" in label or label == "baseline" for label in labels), "no variant's label"


@pytest.mark.parametrize("name", SUITED_ALONE)
def test_a_floor_suits_no_task_that_it_cannot_score(name: str) -> None:
    tasks = set().union(*SUITED_ALONE.values())
    assert {task for task in tasks if FLOORS[name].suits(task_class(task))} == SUITED_ALONE[name]
