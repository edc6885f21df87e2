"""Texts with labels, in the vocabulary of `bakeoff.suite.tasks.pretraining.corpora`.

A model that was trained on those corpora can therefore be fine-tuned on these tasks.

    inputs    3, the first `length` - 2 words, 4; 0 is padding
    splits    those of the tasks with these texts and labels: `movie_reviews`,
              `wordnet_glosses`, `shakespeare_plays`

A passage of a play has 510 words at most, and begins anywhere in an act: 64 passages of each play
are for training, 16 for validation, 32 for test, evenly spaced over its acts. If an act is shorter
than all its passages together, they overlap. No passage is padded.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData, examples_of
from bakeoff.suite.tasks.bases.labelled_texts import TextClassification, divided
from bakeoff.suite.tasks.data_order import Whole
from bakeoff.suite.tasks.movie_reviews import LEAST_RATING, read_sentences
from bakeoff.suite.tasks.pretraining.corpora import (
    BEGIN,
    END,
    NUM_SYMBOLS,
    PARTS,
    SOURCE,
    Part,
    corpora,
    encoded,
)
from bakeoff.suite.tasks.shakespeare_characters import NUM_PLAYS
from bakeoff.suite.tasks.wordnet_glosses import SUPERSENSES, read_glosses

MOST_WORDS = 510
PASSAGES_PER_PLAY: dict[Part, int] = {"training": 64, "validation": 16, "test": 32}
_SPECIAL = 2  # number of symbols that begin and end a text


class InWords(TextClassification):
    """Classification of texts in the symbols of `corpora`."""

    source = SOURCE
    input_size = NUM_SYMBOLS
    lengths = (1 + _SPECIAL, MOST_WORDS + _SPECIAL)
    architecture = "bert_classifier"

    def shown(self, text: Whole) -> Whole:
        """Return the start of a text between the symbols that begin and end a text."""
        return np.array([BEGIN, *text[: self.length - _SPECIAL], END])


class ReviewsInWords(InWords):
    """Classification of sentences of film reviews as negative (0) or positive (1)."""

    name = "reviews_in_words"
    output_size = 2

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the rated sentences of all splits, without neutral ones."""
        rated = read_sentences()
        return _labelled((text, int(r > 0)) for r, text in rated if abs(r) >= LEAST_RATING)


class GlossesInWords(InWords):
    """Classification of definitions of nouns by supersense, its index in `SUPERSENSES`."""

    name = "glosses_in_words"
    output_size = len(SUPERSENSES)

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the definitions of all splits."""
        classes = {name: index for index, name in enumerate(SUPERSENSES)}
        return _labelled((gloss, classes[name]) for name, gloss in read_glosses())


class PlaysInWords(InWords):
    """Classification of passages by play, one of 38."""

    name = "plays_in_words"
    is_padded = False
    output_size = NUM_PLAYS

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the passages of all splits."""
        training, validation, test = map(_passages_of_plays, PARTS)
        return LabelledData(training=training, held_out={"validation": validation, "test": test})


def _labelled(texts: Iterable[tuple[str, int]]) -> LabelledData:
    """Return texts and their classes, divided into splits by `split_of`."""
    parts = divided(texts)
    training, validation, test = (
        examples_of(*zip(*((encoded(words), label) for words, label in parts[part]), strict=True))
        for part in PARTS
    )
    return LabelledData(training=training, held_out={"validation": validation, "test": test})


def _passages_of_plays(part: Part) -> Examples:
    """Return passages play by play, evenly spaced over each act of that part."""
    acts = corpora()["plays"][part]
    num_acts = len(acts) // NUM_PLAYS
    inputs, labels = [], []
    for play in range(NUM_PLAYS):
        counts = np.diff(np.arange(num_acts + 1) * PASSAGES_PER_PLAY[part] // num_acts)
        for act, count in zip(acts[play * num_acts : (play + 1) * num_acts], counts, strict=True):
            text = encoded(act)
            starts = np.linspace(0, max(0, len(text) - MOST_WORDS), int(count)).astype(int)
            inputs += [text[start : start + MOST_WORDS] for start in starts]
            labels += [play] * len(starts)
    return examples_of(inputs, labels)
