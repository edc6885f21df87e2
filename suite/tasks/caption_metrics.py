"""Metrics of captions, CIDEr-D and ROUGE-L, computed like the code behind published results.

    CIDEr-D   Vedantam et al. 2015, arXiv:1411.5726, section 3 and its variant D: the similarity of
              the n-grams of two sentences, in which rare ones weigh more. 0 to 10
    ROUGE-L   Lin 2004 (https://aclanthology.org/W04-1013), section 3: the F-measure of the longest
              common subsequence of words. 0 to 1

Both are means over sentences, so their sums add up over batches. The reference code is coco-caption
(Chen et al. 2015, arXiv:1504.00325) in the version of pycocoevalcap 1.2, whose class `Cider` is
CIDEr-D; a test compares this module with it. Words are separated by spaces: captions contain no
punctuation for a tokeniser to split off, and case is significant. With several references of a
picture, CIDEr-D takes the mean of the scores, and ROUGE-L the best precision and the best recall.

The reference code departs from the paper in two ways, and so does this module: counts of n-grams
are not divided by their total number, which matters where they are clipped; an n-gram that occurs
in no reference weighs as much as one that occurs in one reference.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Literal

from bakeoff.suite.tasks.sequence_metrics import (
    SacrebleuMetric,
    SequenceMetric,
    Symbols,
    symbols_as_words,
)
from bakeoff.suite.tasks.task import Split, Task

MAX_ORDER = 4  # the longest n-grams of CIDEr-D
LENGTH_DEVIATION = 6.0  # words; sigma of CIDEr-D's penalty
BETA = 1.2  # weight of recall relative to precision in ROUGE-L

Words = Sequence[str]
WordNGram = tuple[str, ...]
Document = tuple[str, ...]  # the references of one picture


@dataclass(frozen=True, kw_only=True)
class CaptionMetric(SequenceMetric):
    """The mean over sentences of a score of their words.

    Attributes:
        text: The function that converts symbols to a sentence.
    """

    better: Literal["higher", "lower", "none"] = "higher"
    text: Callable[[Symbols], str] = symbols_as_words

    def counts(self, written: Symbols, *asked: Symbols) -> Sequence[float]:
        """Return the score of one sentence, and 1."""
        references = (self.text(each).split() for each in asked)
        return self.score(self.text(written).split(), *references), 1

    @abstractmethod
    def score(self, written: Words, *asked: Words) -> float:
        """Return the score of one sentence against its references, one or more."""


@dataclass(frozen=True, kw_only=True)
class RougeL(CaptionMetric):
    """The F-measure (1 + b^2) P R / (R + b^2 P) of the longest common subsequence, with b = 1.2."""

    name: str = "rouge_l"
    unit: str = "1"

    def score(self, written: Words, *asked: Words) -> float:
        """Return the score of one sentence against its references; 1 if both are empty."""
        num_common = [longest_common_subsequence(written, each) for each in asked]
        if not any(num_common):
            return float(not written and any(not each for each in asked))
        precision = max(num_common) / len(written)
        recall = max(n / len(each) for n, each in zip(num_common, asked, strict=True) if each)
        return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def longest_common_subsequence(one: Words, other: Words) -> int:
    """Return the length of the longest common subsequence of words."""
    lengths = [0] * (len(other) + 1)  # for the words of `one` so far and each prefix of `other`
    for word in one:
        before = lengths
        lengths = [0]
        for place, its_word in enumerate(other):
            both = before[place] + 1 if word == its_word else 0
            lengths.append(max(both, before[place + 1], lengths[place]))
    return lengths[-1]


@dataclass(frozen=True, kw_only=True)
class CiderD(CaptionMetric):
    """Ten times the mean over n = 1 to 4 of a clipped cosine of n-grams, with a length penalty.

    A sentence of fewer than n words has no n-grams, which counts as 0: two words score at most 5.
    If there is only one reference in all, every n-gram has weight 0, and so have all scores.

    Attributes:
        references: A function that returns the sentences that determine the rarity of n-grams, with
            the references of one picture as one document. They are those of the whole test split,
            whatever part of it a batch holds, so a task lists this metric only in `also_scored`,
            for that split. They are read once per function object, so pass a function of a module
            or a class rather than a new one each time.
    """

    name: str = "cider_d"
    unit: str = "CIDEr-D"
    references: Callable[[], Iterable[Document]]

    def score(self, written: Words, *asked: Words) -> float:
        """Return the score of one sentence against its references.

        Raises:
            ValueError: if there are no documents to compute the rarity from.
        """
        rarity = rarity_among(self.references)
        return fmean(self._score(rarity, written, each) for each in asked)

    def _score(self, rarity: Rarity, written: Words, asked: Words) -> float:
        """Return the score against one reference."""
        cosines = [
            _clipped_cosine(rarity.weights(written, order), rarity.weights(asked, order))
            for order in range(1, MAX_ORDER + 1)
        ]
        deviation = (len(written) - len(asked)) / LENGTH_DEVIATION
        return 10 * math.exp(-(deviation**2) / 2) * fmean(cosines)


@dataclass(frozen=True)
class Rarity:
    """The number of documents, and the number of documents that contain each n-gram."""

    num_documents: int
    num_with: Mapping[WordNGram, int]

    def weights(self, words: Words, order: int) -> dict[WordNGram, float]:
        """Return each n-gram's count times the logarithm of its inverse document frequency."""
        return {
            ngram: count * math.log(self.num_documents / max(1, self.num_with.get(ngram, 0)))
            for ngram, count in Counter(_ngrams(words, order)).items()
        }


@cache
def rarity_among(references: Callable[[], Iterable[Document]]) -> Rarity:
    """Return the document frequencies of n-grams, counted once for each function.

    Raises:
        ValueError: if there are no references.
    """
    documents = [[sentence.split() for sentence in document] for document in references()]
    if not documents:
        raise ValueError("cider_d: references is empty; it must give one picture's or more")
    orders = range(1, MAX_ORDER + 1)
    num_with = Counter(
        ngram
        for document in documents
        for ngram in {
            ngram for words in document for order in orders for ngram in _ngrams(words, order)
        }
    )
    return Rarity(len(documents), num_with)


def _ngrams(words: Words, order: int) -> Iterator[WordNGram]:
    """Yield all n-grams in their order."""
    return zip(*(words[first:] for first in range(order)), strict=False)


def _clipped_cosine(written: Mapping[WordNGram, float], asked: Mapping[WordNGram, float]) -> float:
    """Return the cosine of two sparse vectors, the written weights clipped to the reference's."""
    norms = math.hypot(*written.values()) * math.hypot(*asked.values())
    if norms == 0:
        return 0.0
    shared = written.keys() & asked.keys()
    return math.fsum(min(written[ngram], asked[ngram]) * asked[ngram] for ngram in shared) / norms


def captions(task: Task, split: Split = "test") -> list[Document]:
    """Return the target sentences of each picture of a split, for `references` of `CiderD`.

    Args:
        task: The task, whose metric converts symbols to text.
        split: The split to read, whole and in order.
    """
    metric = task.metric
    assert isinstance(metric, SacrebleuMetric | CaptionMetric), "it must make text of symbols"
    rows = (row for batch in task.held_out(split, 256) for row in metric.right(batch))
    return [tuple(map(metric.text, row)) for row in rows if row]
