"""How a stretch of time is said, and understood."""

import pytest

from suite.spec import SpecError
from suite.text import in_words, seconds_in, some_of


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "unknown time"),
        (0.2, "0 s"),
        (59.6, "1 min 0 s"),
        (260, "4 min 20 s"),
        (3600, "1 h 0 min"),
        (48 * 3600, "2.0 days"),
    ],
)
def test_in_words(seconds: float | None, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("90", 90.0), ("0.5", 0.5), ("90s", 90.0), ("30m", 1800.0), ("1.5 h", 5400.0), (" 2h ", 7200)],
)
def test_what_a_person_says(said: str, seconds: float) -> None:
    assert seconds_in(said, "--time-limit") == seconds


@pytest.mark.parametrize(
    "said", ["", "0", "0.0h", "-5", "soon", "1e3", "nan", "inf", "5d", "1:30", "m", "9" * 10, "٣"]
)
def test_what_is_no_time_is_refused(said: str) -> None:
    with pytest.raises(SpecError) as refused:
        seconds_in(said, "--time-limit")
    assert str(refused.value) == (
        f"--time-limit {said!r}: give seconds above 0, or minutes or hours as 30m, 2h."
    )


def test_a_list_of_names_stays_short() -> None:
    assert some_of(["a", "b", "c"], 3) == "a; b; c"
    assert some_of([f"v{k}" for k in range(2_000)], 2, ", ") == "v0, v1, and 1,998 more"
