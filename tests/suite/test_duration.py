"""How a stretch of time is said."""

import pytest

from suite.duration import in_words


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
