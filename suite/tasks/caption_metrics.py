"""Metrics of captions: CIDEr-D and ROUGE-L, as the code that published papers use computes them.

    CIDEr-D   Vedantam et al. 2015, arXiv:1411.5726, section 3 and its variant D: how alike the
              n-grams of two sentences are, the rare ones counting more. 0 to 10
    ROUGE-L   Lin 2004 (https://aclanthology.org/W04-1013), section 3: the F-measure of the longest
              common subsequence of words. 0 to 1

Both are means over sentences, so their sums add up over batches. The code is coco-caption (Chen et
al. 2015, arXiv:1504.00325) in the version of pycocoevalcap 1.2, whose class `Cider` is CIDEr-D; a
test holds ours against it. Words stand between spaces: captions have no marks of punctuation that
a tokeniser would have to split off, and their case counts. Of several references of a picture
CIDEr-D takes the mean of the scores, and ROUGE-L the best precision and the best recall.

Departures of that code from the paper, which are ours too: counts of n-grams are not divided by
how many there are, which counts where they are clipped; an n-gram that no reference has weighs as
one that one reference has.
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

from suite.tasks.sequence_metrics import (
    SacrebleuMetric,
    SequenceMetric,
    Symbols,
    symbols_as_words,
)
from suite.tasks.task import Split, Task

MAX_ORDER = 4  # of the n-grams of CIDEr-D
LENGTH_DEVIATION = 6.0  # words; sigma of CIDEr-D's penalty
BETA = 1.2  # how much more recall weighs in ROUGE-L than precision

Words = Sequence[str]
WordNGram = tuple[str, ...]
Document = tuple[str, ...]  # the references of one picture


@dataclass(frozen=True, kw_only=True)
class CaptionMetric(SequenceMetric):
    """The mean over sentences of a score of their words.

    Attributes:
        text: Makes a sentence of symbols.
    """

    better: Literal["higher", "lower", "none"] = "higher"
    text: Callable[[Symbols], str] = symbols_as_words

    def counts(self, written: Symbols, *asked: Symbols) -> Sequence[float]:
        """The score of one sentence, and one."""
        references = (self.text(each).split() for each in asked)
        return self.score(self.text(written).split(), *references), 1

    @abstractmethod
    def score(self, written: Words, *asked: Words) -> float:
        """Of one sentence against its references, one or more."""


@dataclass(frozen=True, kw_only=True)
class RougeL(CaptionMetric):
    """(1 + b^2) P R / (R + b^2 P), of the words in common in their order, with b = 1.2."""

    name: str = "rouge_l"
    unit: str = "1"

    def score(self, written: Words, *asked: Words) -> float:
        """See `CaptionMetric.score`; of two empty sentences 1."""
        num_common = [longest_common_subsequence(written, each) for each in asked]
        if not any(num_common):
            return float(not written and any(not each for each in asked))
        precision = max(num_common) / len(written)
        recall = max(n / len(each) for n, each in zip(num_common, asked, strict=True) if each)
        return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def longest_common_subsequence(one: Words, other: Words) -> int:
    """How many words both have in the same order, others between them or not."""
    lengths = [0] * (len(other) + 1)  # of what was read of `one`, and each beginning of `other`
    for word in one:
        before = lengths
        lengths = [0]
        for place, its_word in enumerate(other):
            both = before[place] + 1 if word == its_word else 0
            lengths.append(max(both, before[place + 1], lengths[place]))
    return lengths[-1]


@dataclass(frozen=True, kw_only=True)
class CiderD(CaptionMetric):
    """Ten times the mean over n = 1 to 4 of a clipped cosine of n-grams, less for other lengths.

    A sentence of fewer than n words has no n-grams, which counts as 0: of two words the most is 5.
    Where there is one reference in all, every n-gram weighs nothing, and all scores are 0.

    Attributes:
        references: The sentences that say how rare an n-gram is, those of one picture a document:
            of the whole test split, whatever part of it a batch holds. On that split alone a task
            is `also_scored`. They are read once, so the function must be the same whenever it is
            given, as a module's or a class's.
    """

    name: str = "cider_d"
    unit: str = "CIDEr-D"
    references: Callable[[], Iterable[Document]]

    def score(self, written: Words, *asked: Words) -> float:
        """See `CaptionMetric.score`.

        Raises:
            ValueError: if there are no references.
        """
        rarity = rarity_among(self.references)
        return fmean(self._score(rarity, written, each) for each in asked)

    def _score(self, rarity: Rarity, written: Words, asked: Words) -> float:
        """Against one reference."""
        cosines = [
            _clipped_cosine(rarity.weights(written, order), rarity.weights(asked, order))
            for order in range(1, MAX_ORDER + 1)
        ]
        deviation = (len(written) - len(asked)) / LENGTH_DEVIATION
        return 10 * math.exp(-(deviation**2) / 2) * fmean(cosines)


@dataclass(frozen=True)
class Rarity:
    """How many documents there are, and how many have each n-gram."""

    num_documents: int
    num_with: Mapping[WordNGram, int]

    def weights(self, words: Words, order: int) -> dict[WordNGram, float]:
        """The count of each n-gram times the logarithm of its inverse document frequency."""
        return {
            ngram: count * math.log(self.num_documents / max(1, self.num_with.get(ngram, 0)))
            for ngram, count in Counter(_ngrams(words, order)).items()
        }


@cache
def rarity_among(references: Callable[[], Iterable[Document]]) -> Rarity:
    """Counted once for each such function.

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
    """All of them, in their order."""
    return zip(*(words[first:] for first in range(order)), strict=False)


def _clipped_cosine(written: Mapping[WordNGram, float], asked: Mapping[WordNGram, float]) -> float:
    """Of two sparse vectors; no number of what is written counts for more than what is asked."""
    norms = math.hypot(*written.values()) * math.hypot(*asked.values())
    if norms == 0:
        return 0.0
    shared = written.keys() & asked.keys()
    return math.fsum(min(written[ngram], asked[ngram]) * asked[ngram] for ngram in shared) / norms


def captions(task: Task, split: Split = "test") -> list[Document]:
    """The sentences that a split asks for, those of each picture, as `references` of `CiderD`.

    Args:
        task: Whose metric makes text of symbols.
        split: All of it, in its order.
    """
    metric = task.metric
    assert isinstance(metric, SacrebleuMetric | CaptionMetric), "it must make text of symbols"
    rows = (row for batch in task.held_out(split, 256) for row in metric.right(batch))
    return [tuple(map(metric.text, row)) for row in rows if row]
