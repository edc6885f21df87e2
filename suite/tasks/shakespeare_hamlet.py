"""Character language modelling with one play to train on: a training set to overfit.

Text, symbols, held-out plays and scored places are those of `shakespeare_characters`; what is
trained on is Hamlet alone, 4 % of that text. A few thousand steps meet each of its windows many
times, so that a model can learn it by heart, and what regularisation does can be seen.
"""

from __future__ import annotations

from functools import cache

from suite.tasks.bases.text_windows import Corpus
from suite.tasks.shakespeare_characters import ShakespeareCharacters, encoded, read_plays

PLAY = "tragedies/hamlet"


class ShakespeareHamlet(ShakespeareCharacters):
    """Predict the next character, having read one play."""

    name = "shakespeare_hamlet"

    @staticmethod
    @cache
    def read() -> Corpus:
        """See `TextWindows.read`."""
        whole = ShakespeareCharacters.read()
        return Corpus(training=encoded(PLAY, read_plays()[PLAY]), held_out=whole.held_out)
