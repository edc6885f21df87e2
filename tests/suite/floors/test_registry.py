"""Every task's floors are there, suit it, and can be told apart."""

import importlib

import pytest

from suite.floors.registry import FLOORS, floor
from suite.tasks.registry import TASKS, task_class


@pytest.mark.parametrize("name", FLOORS)
def test_a_floor_says_what_it_is(name: str) -> None:
    module, _, kind = FLOORS[name].partition(":")
    assert getattr(importlib.import_module(module), kind) is type(floor(name))
    assert floor(name).name == name
    assert floor(name).version >= 1
    assert floor(name).needs
    assert floor(name).label
    assert any(name in task_class(task).floors for task in TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_task_names_floors_that_suit_it(task: str) -> None:
    kind = task_class(task)
    assert kind.floors
    assert [name for name in kind.floors if not floor(name).suits(kind)] == []
    labels = [floor(name).label_on(kind) for name in kind.floors]
    assert len(set(labels)) == len(labels)
    assert not any("=" in label or label == "baseline" for label in labels), "no variant's label"


def test_a_floor_refuses_what_it_has_no_answer_for() -> None:
    suited = {name: [t for t in TASKS if floor(name).suits(task_class(t))] for name in FLOORS}
    assert suited["nadaraya_watson"] == suited["mean"] == ["kernel_regression"]
    assert "kernel_regression" not in suited["uniform"] + suited["majority"]
    texts = [
        "shakespeare_characters",
        "shakespeare_tragedies",
        "shakespeare_act",
        "wikipedia_bytes",
        "enwik8",
    ]
    assert suited["five_gram"] == texts
    assert "fashion_mnist_pixels" not in suited["tf_idf"]
