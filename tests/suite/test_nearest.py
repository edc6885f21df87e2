"""A misspelt name is answered with the nearest names, then with all of them."""

from suite.errors import unknown_name


def test_the_nearest_names_come_first_then_all() -> None:
    assert unknown_name("ablation", "heds", ["complexity", "heads"]) == (
        "no ablation 'heds'; did you mean 'heads'? Allowed: complexity, heads."
    )


def test_nothing_near_and_nothing_allowed_are_said_plainly() -> None:
    assert unknown_name("task", "xyz", []) == "no task 'xyz'. Allowed: none."
