"""Align the words of translated sentences by their translations, ignoring the order.

IBM model 1 (Brown et al. 1993, "The Mathematics of Statistical Machine Translation", section 4.1):
each word f of the target translates one word e of the source, or the null word that every source
has; all are equally likely a priori. The probabilities t(f | e) start equal and are fitted by
expectation maximisation:

    count(f, e) = sum over sentences of  n(f) n(e) t(f | e) / sum over e' of n(e') t(f | e')
    t(f | e)    = count(f, e) / sum over f' of count(f', e)

where n counts a word in its sentence. The model is fitted in both directions. A direction links
each word of its target to the most likely word of its source; an unseen word, or one for which the
null word is at least as likely, is not linked. In a tie, for example between all positions of one
word, the link goes to the position nearest to the same share of the sentence. Links of both
directions are sure, links of either direction are possible. These alignments are silver, not gold:
they were not made by people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NUM_ROUNDS = 5  # usual before models with word order (Och and Ney 2003, section 4.1)
NULL = 0  # the first word of each vocabulary, which no target contains

Words = Sequence[str]
Numbers = NDArray[np.int64]
Matrix = NDArray[np.bool_]


class Links(NamedTuple):
    """Links `[target words, source words]`; sure links are also possible."""

    sure: Matrix
    possible: Matrix


class WordAligner:
    """A word aligner by IBM model 1, fitted to pairs of sentences in both directions.

    Args:
        pairs: The words of each source and its target.
    """

    def __init__(self, pairs: Iterable[tuple[Words, Words]]) -> None:
        sources, targets = zip(*pairs, strict=True)
        self._vocabularies = _vocabulary(sources), _vocabulary(targets)
        known, asked = (
            [_numbers(words, vocabulary) for words in sentences]
            for sentences, vocabulary in zip((sources, targets), self._vocabularies, strict=True)
        )
        self.forward, self.backward = fitted(known, asked), fitted(asked, known)

    def links(self, source: Words, target: Words) -> Links:
        """Return the silver alignment of one pair of sentences."""
        both = (source, target), self._vocabularies
        known, asked = (_numbers(*each) for each in zip(*both, strict=True))
        ahead = best_links(self.forward, known, asked)
        back = best_links(self.backward, asked, known).T
        return Links(ahead & back, ahead | back)


@dataclass(frozen=True)
class Lexicon:
    """Probabilities t(target | source) of the pairs of words that occurred in one sentence pair.

    Attributes:
        keys: `[pairs]`, in increasing order: source times `stride`, plus target.
        chances: The probabilities, `[pairs]`.
        stride: A number larger than those of all target words.
    """

    keys: Numbers
    chances: NDArray[np.float64]
    stride: int

    def between(self, source: Numbers, target: Numbers) -> NDArray[np.float64]:
        """Return the probabilities `[target words, source words]`; 0 for unseen pairs."""
        wanted = source[None, :] * self.stride + target[:, None]
        at = np.searchsorted(self.keys, wanted).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, self.chances[at], 0.0)


def fitted(sources: Sequence[Numbers], targets: Sequence[Numbers]) -> Lexicon:
    """Fit model 1 in one direction, by `NUM_ROUNDS` rounds of expectation maximisation.

    Args:
        sources: The numbers of the words of each sentence, from 1 on.
        targets: The same for the other side.
    """
    stride = 2 + max(int(each.max(initial=0)) for each in targets)  # one is for unseen words
    known = _counted([np.append(each, NULL) for each in sources])
    asked = _counted(targets)
    # Each target word is paired with all words of its source: one group of neighbours.
    group_sizes = np.bincount(known.sentence, minlength=len(sources))[asked.sentence]
    ends = group_sizes.cumsum()
    group_starts = ends - group_sizes
    first = np.searchsorted(known.sentence, asked.sentence) - group_starts
    of_source = np.arange(ends[-1]) + np.repeat(first, group_sizes)
    most = (1 + int(known.word.max())) * stride
    key = known.word[of_source] * stride + np.repeat(asked.word, group_sizes)
    # This sort takes most of the time, and half of it with half as many bytes.
    small = key.astype(np.int32) if most <= np.iinfo(np.int32).max else key
    keys, pair = np.unique(small, return_inverse=True)
    keys, weight = keys.astype(np.int64), known.times[of_source]
    chances = np.ones(len(keys))
    for _ in range(NUM_ROUNDS):
        share = chances[pair] * weight
        per_group = asked.times / np.add.reduceat(share, group_starts)
        share *= np.repeat(per_group, group_sizes)
        counts = np.bincount(pair, share, minlength=len(keys))
        chances = counts / np.bincount(keys // stride, counts)[keys // stride]
    return Lexicon(keys, chances, stride)


def best_links(lexicon: Lexicon, source: Numbers, target: Numbers) -> Matrix:
    """Return links `[target words, source words]`, at most one per row."""
    chances = lexicon.between(source, target)
    of_null = lexicon.between(np.array([NULL]), target)
    most = chances.max(axis=1, keepdims=True, initial=0.0)
    shares = [(np.arange(len(each)) + 0.5) / max(1, len(each)) for each in (target, source)]
    distance = np.abs(shares[0][:, None] - shares[1])
    is_chosen = np.zeros(chances.shape, dtype=np.bool_)
    if len(source):
        nearest = np.where(chances == most, distance, np.inf).argmin(axis=1)
        is_chosen[np.arange(len(target)), nearest] = (most > of_null)[:, 0]
    return is_chosen


class _Counted(NamedTuple):
    """The distinct words of each sentence, with their counts."""

    sentence: Numbers
    word: Numbers
    times: Numbers


def _counted(sentences: Sequence[Numbers]) -> _Counted:
    number = np.repeat(np.arange(len(sentences)), [len(each) for each in sentences])
    words = np.concatenate(sentences)
    stride = 1 + int(words.max())
    keys, counts = np.unique(number * stride + words, return_counts=True)
    return _Counted(keys // stride, keys % stride, counts)


def _vocabulary(sentences: Sequence[Words]) -> dict[str, int]:
    words = dict.fromkeys(word for sentence in sentences for word in sentence)
    return {word: number for number, word in enumerate(words, NULL + 1)}


def _numbers(words: Words, vocabulary: dict[str, int]) -> Numbers:
    """Return the number of each word; an unseen word has the number after the last one."""
    unknown = len(vocabulary) + 1
    return np.array([vocabulary.get(word, unknown) for word in words], dtype=np.int64)
