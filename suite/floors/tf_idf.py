"""Which words a text has, and how rare they are: the static weights that attention learns instead.

TF-IDF (Salton and Buckley 1988), 1 + log of a word's count in the text times the logarithm of its
rarity among the training texts, each text of length 1, and on it logistic regression with an L2
penalty; by scikit-learn. The words are those that a model is shown: of a task that reads words, its
symbols, the unknown one included; of one that reads bytes, the words of the window that it reads,
cut as `labelled_texts` cuts them. Order is lost. The strength C of the penalty is the one of
STRENGTHS with the best score on the validation split.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from suite.floors.floor import Floor
from suite.floors.logistic_regression import fitted, score_of, why_not_fitted
from suite.floors.splits import held_out_batches, training_batches
from suite.tasks.bases.labelled_texts import words_of
from suite.tasks.batch import joined
from suite.tasks.task import Batch, Split, Task

STRENGTHS = (1.0, 3.0, 10.0, 30.0)

Document = list[str]


class TfIdf(Floor):
    """Bags of weighted words, and a linear classifier."""

    name = "tf_idf"
    label = "TF-IDF"
    version = 1
    needs = "whole texts with a class each; scikit-learn"

    def why_not(self) -> str:
        """See `Floor.why_not`."""
        return why_not_fitted()

    def suits(self, task: type[Task]) -> bool:
        """See `Floor.suits`."""
        return task.asks_for == "class" and task.input_kind == "tokens"

    def score(self, task: Task) -> float:
        """Of the classifier that is best on the validation split."""
        training = list(training_batches(task))
        words = _vectorizer().fit(_documents(task, training))
        texts, labels = (
            words.transform(_documents(task, training)),
            joined(training).targets.numpy(),
        )
        validation = _Split(task, "validation", words)
        classifiers = [fitted(texts, labels, strength) for strength in STRENGTHS]
        best = max(classifiers, key=validation.score)  # the first of several
        return _Split(task, "test", words).score(best)


class _Split:
    """A held-out split as weighted words."""

    def __init__(self, task: Task, split: Split, words: Any) -> None:
        self.task = task
        self.batches = list(held_out_batches(task, split))
        self.texts = words.transform(_documents(task, self.batches))

    def score(self, classifier: Any) -> float:
        """The task's metric."""
        return score_of(classifier, self.texts, self.task, self.batches)


def _vectorizer() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer=lambda words: words, sublinear_tf=True)


def _documents(task: Task, batches: Iterable[Batch]) -> list[Document]:
    return [words for batch in batches for words in _words(task, batch)]


def _words(task: Task, batch: Batch) -> list[Document]:
    inputs = batch.inputs["inputs"]
    lengths = batch.inputs.get("mask", torch.ones_like(inputs)).sum(dim=1).tolist()
    zipped = zip(inputs.tolist(), lengths, strict=True)
    rows = [row[:length] for row, length in zipped]
    # Tokens that are no text are the words.
    return [words_of(text) if (text := task.text(row)) else list(map(str, row)) for row in rows]
