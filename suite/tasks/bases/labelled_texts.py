"""Classification of short texts by their words: tokenisation, splits and padding.

words       lower-cased; a run of letters and digits with at most one apostrophe inside is one
            word, and so is every other character except white space
vocabulary  8,192 symbols: 0 is padding, 1 is any other word, then the most frequent words of
            the training texts, ties in alphabetical order; it is closed, so a held-out word that
            does not occur in training is unknown
splits      by the SHA-256 of the words: of ten parts one is for validation, two are for test,
            seven for training. The same words are in the same split, however often they occur
length      the first `length` words of a text, padded at the end; the batch's mask marks the
            real tokens
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch

from bakeoff.suite.tasks.bases.labelled_data import (
    Examples,
    LabelledData,
    LabelledTask,
    examples_of,
)
from bakeoff.suite.tasks.data_order import Whole
from bakeoff.suite.tasks.task import Batch

PADDING, UNKNOWN = 0, 1
NUM_SYMBOLS = 8_192
NUM_PARTS = 10
_TEST_PARTS, _VALIDATION_PARTS = (0, 1), (2,)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?|[^\w\s]|_")


class TextClassification(LabelledTask):
    """Classification of texts by their first tokens; symbol 0 is padding and occurs in no text."""

    floors: ClassVar[tuple[str, ...]] = ("uniform", "majority", "tf_idf")
    lengths = (1, 512)
    token_name = "words"
    is_padded = True
    input_size = NUM_SYMBOLS

    def batch_of(self, examples: Examples) -> Batch:
        """Return the examples as a batch, cut to `length` tokens and padded at the end."""
        tokens = np.full((len(examples.labels), self.length), PADDING, dtype=np.int64)
        for row, text in zip(tokens, examples.inputs, strict=True):
            shown = self.shown(text)
            row[: len(shown)] = shown
        inputs = {"inputs": torch.from_numpy(tokens)}
        if self.is_padded:
            inputs["mask"] = inputs["inputs"] != PADDING
        return Batch(inputs=inputs, targets=torch.from_numpy(examples.labels.copy()))

    def shown(self, text: Whole) -> Whole:
        """Return the part of a text `[tokens]` that a model is given, at most `length` tokens."""
        return text[: self.length]


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(text.lower())


def split_texts(examples: Sequence[tuple[str, int]]) -> LabelledData:
    """Divide texts with classes into splits, and encode their words; no text may be empty."""
    parts = divided(examples)
    vocabulary = _vocabulary(parts["training"])
    symbols = {word: symbol for symbol, word in enumerate(vocabulary)}
    training, validation, test = (_encoded(texts, symbols) for texts in parts.values())
    return LabelledData(
        training=training, held_out={"validation": validation, "test": test}, vocabulary=vocabulary
    )


def divided(examples: Iterable[tuple[str, int]]) -> dict[str, list[tuple[list[str], int]]]:
    """Return for each split, ``training`` first, the words of each text and its class."""
    parts: dict[str, list[tuple[list[str], int]]] = {"training": [], "validation": [], "test": []}
    for text, label in examples:
        words = words_of(text)
        parts[split_of(words)].append((words, label))
    return parts


def split_of(words: Sequence[str]) -> str:
    """Return the split of a text with these words."""
    part = int.from_bytes(hashlib.sha256(" ".join(words).encode()).digest()[:8]) % NUM_PARTS
    if part in _TEST_PARTS:
        return "test"
    return "validation" if part in _VALIDATION_PARTS else "training"


def _vocabulary(texts: Sequence[tuple[list[str], int]]) -> tuple[str, ...]:
    counts = Counter(word for words, _ in texts for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return ("<pad>", "<unknown>", *ranked[: NUM_SYMBOLS - 2])


def _encoded(texts: Sequence[tuple[list[str], int]], symbols: Mapping[str, int]) -> Examples:
    tokens = [np.array([symbols.get(word, UNKNOWN) for word in words]) for words, _ in texts]
    return examples_of(tokens, [label for _, label in texts])
