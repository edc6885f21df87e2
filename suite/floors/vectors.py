"""Floors on inputs as vectors: nearest neighbours, and linear classifiers by scikit-learn.

**Nearest centroid** predicts the class with the nearest mean (Rocchio 1971; Tibshirani et al. 2002,
doi:10.1073/pnas.082099299, without their shrinkage). **k nearest neighbours** (Cover and Hart 1967,
doi:10.1109/TIT.1967.1053964) predicts the majority class of the k nearest training examples, in a
tie the one whose examples are nearer; k is the one of `NUMBERS` with the best score on the
validation split. Distances are squared Euclidean distances over all features of an input, so an
image that is shifted by one pixel is far away.

**The nearest caption** is the caption of the nearest training image: the baseline of captioning
(Devlin et al. 2015, arXiv:1505.04467), on pixels instead of the features of a network, and with one
neighbour instead of a choice among many.

**Linear classifiers** have an L2 penalty. Its strength C is the one of `strengths` with the best
score on the validation split, in a tie the first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.interface import CONTEXT, INPUTS, Outputs
from bakeoff.suite.floors.floor import (
    Floor,
    asked_sequences,
    held_out_batches,
    over_batches,
    score_of_logits,
    score_of_written,
    texts,
    training_batches,
    vectors_of,
)
from bakeoff.suite.tasks.bases.labelled_texts import words_of
from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.metrics import PictureMetric
from bakeoff.suite.tasks.sequence_metrics import SequenceMetric
from bakeoff.suite.tasks.task import Batch, Split, Task

NUMBERS = (1, 3, 5, 9, 17)  # numbers of neighbours
_ROWS_AT_ONCE = 512
_MOST_ITERATIONS = 2_000


class NearestCentroid(Floor):
    """The class with the nearest mean."""

    name = "nearest_centroid"
    label = "nearest centroid"
    asks_for = ("class",)
    input_kinds = ("vectors", "image")

    def score(self, task: Any) -> float:
        """Return the task's metric with the negative distances as logits."""
        rows, training = _joined(training_batches(task))
        sums = torch.zeros(task.output_size, rows.shape[1]).index_add_(0, training.targets, rows)
        counts = torch.bincount(training.targets, minlength=task.output_size)

        def scored(batch: Batch) -> Tensor:
            logits = -_distances(batch.inputs[INPUTS].flatten(1), sums / counts[:, None])
            logits = logits.nan_to_num(nan=-torch.inf)  # for classes without training examples
            found: Tensor = task.metric.sums(Outputs(logits), batch)
            return found

        return float(task.metric.over(map(scored, _in_groups(held_out_batches(task, "test")))))


class NearestNeighbours(NearestCentroid):
    """The majority class of the k nearest training examples."""

    name = "nearest_neighbours"
    label = "nearest neighbours"

    def score(self, task: Any) -> float:
        """Return the task's metric with the votes as logits; in a tie the smallest k is chosen."""
        rows, training = _joined(training_batches(task))

        def scores(split: Split, *numbers: int) -> dict[int, float]:
            sums: dict[int, list[Tensor]] = {k: [] for k in numbers}
            for batch in _in_groups(held_out_batches(task, split)):
                asked = batch.inputs[INPUTS].flatten(1)
                classes = training.targets[nearest(rows, asked, max(numbers))]
                for k, found in sums.items():
                    logits = votes(classes[:, :k], task.output_size)
                    found.append(task.metric.sums(Outputs(logits), batch))
            return {k: task.metric.over(found) for k, found in sums.items()}

        seen = scores("validation", *(k for k in NUMBERS if k <= len(rows)))
        best = max(seen, key=seen.__getitem__)
        return scores("test", best)[best]


def nearest(rows: Tensor, asked: Tensor, count: int) -> Tensor:
    """Return the indices of the rows nearest to each query, nearest first, `[queries, count]`.

    Args:
        rows: The examples, `[examples, features]`.
        asked: The queries, `[queries, features]`.
        count: The number of neighbours, at most the number of examples.
    """
    firsts = range(0, len(asked), _ROWS_AT_ONCE)
    parts = (_distances(asked[first : first + _ROWS_AT_ONCE], rows) for first in firsts)
    return torch.cat([part.topk(count, largest=False).indices for part in parts])


def votes(classes: Tensor, num_classes: int) -> Tensor:
    """Return the number of neighbours of each class, with a small bonus for the nearer ones.

    Args:
        classes: The classes of the neighbours, nearest first, `[queries, k]`.
        num_classes: The number of classes.

    Returns:
        The votes, `[queries, num_classes]`.
    """
    k = classes.shape[1]
    weights = 1 + 0.5 / (k * torch.arange(1, k + 1))  # all bonuses together are less than one vote
    counted = torch.zeros(len(classes), num_classes)
    return counted.scatter_add_(1, classes, weights.expand(*classes.shape))


def _distances(asked: Tensor, rows: Tensor) -> Tensor:
    """Return squared distances up to a constant per query, `[queries, rows]`."""
    return rows.square().sum(dim=1) - 2 * asked @ rows.T


def _in_groups(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches of at least `_ROWS_AT_ONCE` rows, but for the last, to save memory and time."""
    found: list[Batch] = []
    for batch in batches:
        found.append(batch)
        if sum(len(each.targets) for each in found) >= _ROWS_AT_ONCE:
            yield joined(found)
            found = []
    if found:
        yield joined(found)


def _joined(batches: Iterable[Batch]) -> tuple[Tensor, Batch]:
    """Return the inputs as vectors, `[examples, features]`, and all examples as one batch."""
    found = list(batches)
    return torch.from_numpy(vectors_of(found)), joined(found)


def _nearest_pictures(batches: Sequence[Batch]) -> Callable[[Batch], Tensor]:
    """Return a function from a batch to the training indices with the nearest pictures."""
    rows = torch.from_numpy(vectors_of(batches, CONTEXT))
    return lambda batch: nearest(rows, torch.from_numpy(vectors_of([batch], CONTEXT)), 1).flatten()


class NearestCaption(Floor):
    """The target sequence of the training example with the nearest picture."""

    name = "nearest_caption"
    label = "nearest caption"
    asks_for = ("sequence",)
    metric = SequenceMetric
    context = "image"

    def score(self, task: Any) -> float:
        """Return the metric of those sequences."""
        found = list(training_batches(task))
        closest = _nearest_pictures(found)
        captions = [each for batch in found for each in asked_sequences(batch, task.metric.end)]
        return score_of_written(
            task, lambda batch: (captions[index].tolist() for index in closest(batch))
        )


class NearestChoice(Floor):
    """The candidate with the most words in common with the caption of the nearest picture."""

    name = "nearest_choice"
    label = "words of the nearest caption"
    asks_for = ("choice",)
    context = "image"

    def score(self, task: Any) -> float:
        """Return the metric with the shares of common words (Jaccard index) as logits."""
        found = list(training_batches(task))
        closest = _nearest_pictures(found)
        known = torch.cat([_has_words(batch, task.input_size)[:, 0] for batch in found])

        def logits(batch: Batch) -> Tensor:
            near = known[closest(batch)][:, None]
            words = _has_words(batch, task.input_size)
            return (near & words).sum(dim=-1) / (near | words).sum(dim=-1)

        return score_of_logits(task, logits)


def _has_words(batch: Batch, num_symbols: int) -> Tensor:
    """Return which symbols each text contains, without padding, `[batch, candidates, symbols]`."""
    symbols, mask = batch.inputs[INPUTS], batch.inputs["mask"]
    counts = torch.zeros(*symbols.shape[:2], num_symbols).scatter_add_(2, symbols, mask.float())
    return counts > 0


class NearestDrawing(Floor):
    """The picture of the training example with the nearest caption.

    The nearest caption has the largest share of words and of pairs of adjacent words in common with
    the caption of the example (Jaccard index).
    """

    name = "nearest_drawing"
    label = "picture of the nearest caption"
    asks_for = ("drawing",)
    metric = PictureMetric

    def score(self, task: Any) -> float:
        """Return the metric of those pictures."""
        found = list(training_batches(task))
        pictures = torch.cat([batch.targets for batch in found])
        known = torch.cat([_words_and_pairs(batch, task.input_size) for batch in found])

        def sums(batch: Batch) -> Tensor:
            asked = _words_and_pairs(batch, task.input_size)
            both = asked @ known.T
            either = asked.sum(dim=1, keepdim=True) + known.sum(dim=1) - both
            drawn: Tensor = task.metric.sums_of(pictures[(both / either).argmax(dim=1)], batch)
            return drawn

        return over_batches(task, sums)


def _words_and_pairs(batch: Batch, num_symbols: int) -> Tensor:
    """Return 1 for each word and pair of a caption, without its start, `[batch, words + pairs]`."""
    found = np.zeros((len(batch.inputs[INPUTS]), num_symbols * (1 + num_symbols)), dtype=np.float32)
    for row, text in zip(found, texts(batch), strict=True):
        words = text[1:]
        row[words] = 1
        row[num_symbols + words[:-1] * num_symbols + words[1:]] = 1
    return torch.from_numpy(found)


class _LinearClassifier(Floor):
    """Logistic regression with an L2 penalty, on features of the inputs."""

    asks_for = ("class",)
    strengths: ClassVar[tuple[float, ...]]

    @abstractmethod
    def features(self, task: Task, training: list[Batch]) -> Callable[[list[Batch]], Any]:
        """Return a function from examples to rows of features, an array or a sparse matrix."""

    def score(self, task: Any) -> float:
        """Return the task's metric with the log-probabilities as logits, at the best strength."""
        training = list(training_batches(task))
        features = self.features(task, training)
        rows, labels = features(training), joined(training).targets.numpy()
        classifiers = [fitted(rows, labels, strength) for strength in self.strengths]

        def scores(split: Split, *classifiers: Any) -> list[float]:
            sums: list[list[Tensor]] = [[] for _ in classifiers]
            for batch in _in_groups(held_out_batches(task, split)):
                rows = features([batch])
                for classifier, found in zip(classifiers, sums, strict=True):
                    logits = _logits(classifier, rows, task.output_size)
                    found.append(task.metric.sums(Outputs(logits), batch))
            return [task.metric.over(found) for found in sums]

        best = int(np.argmax(scores("validation", *classifiers)))
        return scores("test", classifiers[best])[0]


def _logits(classifier: Any, rows: Any, num_classes: int) -> Tensor:
    """Return log-probabilities, `[rows, classes]`; -infinity for classes that it did not see."""
    with np.errstate(divide="ignore"):  # a probability may round to 0
        known = classifier.predict_log_proba(rows)
    logits = torch.full((len(known), num_classes), -torch.inf, dtype=torch.float64)
    logits[:, torch.as_tensor(classifier.classes_)] = torch.from_numpy(known).double()
    return logits


def fitted(rows: Any, labels: NDArray[np.int64], strength: float) -> Any:
    """Fit a classifier with the number of threads of this process, not on every core.

    Args:
        rows: The features, `[examples, features]`, an array or a sparse matrix.
        labels: The classes, `[examples]`.
        strength: The inverse of the penalty, scikit-learn's C.
    """
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=torch.get_num_threads()):
        return LogisticRegression(C=strength, max_iter=_MOST_ITERATIONS).fit(rows, labels)


class LogisticRegressionFloor(_LinearClassifier):
    """A linear classifier of the features of an input, as they are."""

    name = "logistic_regression"
    label = "logistic regression"
    input_kinds = ("vectors", "image")
    strengths = (0.001, 0.01, 0.1)

    def features(self, task: Task, training: list[Batch]) -> Callable[[list[Batch]], Any]:
        """Return the function that flattens each input to a vector."""
        return vectors_of


class TfIdf(_LinearClassifier):
    """A linear classifier of TF-IDF weights (Salton and Buckley 1988); it ignores word order.

    The weight of a word is 1 + log of its count in the text, times its inverse document frequency
    among the training texts; the weights of each text have norm 1. The words are those of a model's
    input: the symbols of a task that reads words, or the words in the window of a task that reads
    bytes.
    """

    name = "tf_idf"
    label = "TF-IDF"
    input_kinds = ("tokens",)
    strengths = (1.0, 3.0, 10.0, 30.0)

    def features(self, task: Task, training: list[Batch]) -> Callable[[list[Batch]], Any]:
        """Fit the document frequencies of words to the training texts."""
        return tf_idf(task, training)


def tf_idf(task: Task, training: list[Batch]) -> Callable[[list[Batch]], Any]:
    """Return a function from texts to the TF-IDF weights of their words, a sparse matrix.

    Args:
        task: The task of the texts.
        training: The texts to which the document frequencies are fitted.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        analyzer=lambda example: words_in(task, example), sublinear_tf=True
    )

    def rows(batches: list[Batch]) -> Any:
        return vectorizer.transform([row for batch in batches for row in _token_rows(batch)])

    vectorizer.fit([row for batch in training for row in _token_rows(batch)])
    return rows


def words_in(task: Task, tokens: list[int]) -> list[str]:
    """Return the words of a text, or the tokens themselves if they are not text."""
    text = task.text(tokens)
    return words_of(text) if text else list(map(str, tokens))


def _token_rows(batch: Batch) -> list[list[int]]:
    return [row.tolist() for row in texts(batch)]
