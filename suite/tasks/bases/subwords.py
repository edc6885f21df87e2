"""Cut texts into subwords, and put them together again, by merges that are learnt from texts.

Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909, algorithm 1): a word is its characters,
and of all merges of neighbours the one that was learnt first is applied, until none applies. A word
begins with the space before it, so that a text is its subwords in a row, without the first space.

    symbols   0 fills, 1 begins and 2 ends a sequence, 3 is any character that was never seen, then
              the characters, then what each merge makes, in the order of the merges
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise

PADDING, START, END, UNKNOWN = 0, 1, 2, 3
_NUM_SPECIAL = 4
WORD = r" ?\w+| ?[^\w\s]"  # what no merge crosses the border of
_WORDS = re.compile(WORD)
_SHOWN_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class Subwords:
    """A vocabulary of subwords.

    Args:
        characters: Each once.
        merges: The two halves of each, first learnt first.
    """

    def __init__(self, characters: str, merges: Sequence[tuple[str, str]]) -> None:
        texts = (*characters, *("".join(merge) for merge in merges))
        self._texts = ("", "", "", _SHOWN_UNKNOWN, *texts)
        self._symbols = {text: symbol for symbol, text in enumerate(texts, _NUM_SPECIAL)}
        self._ranks = {merge: rank for rank, merge in enumerate(merges)}
        self._known: dict[str, tuple[int, ...]] = {}

    @property
    def begin_words(self) -> list[bool]:
        """Of each symbol whether a word begins with it."""
        return [text.startswith(" ") for text in self._texts]

    def __len__(self) -> int:
        return len(self._texts)

    def encoded(self, text: str) -> list[int]:
        """The symbols of a text, whose words have one space between them."""
        return [symbol for word in _WORDS.findall(f" {text}") for symbol in self._of_word(word)]

    def decoded(self, symbols: Sequence[int]) -> str:
        """The text of symbols; those that fill, begin or end are none."""
        return "".join(self._texts[symbol] for symbol in symbols).removeprefix(" ")

    def words(self, symbols: Sequence[int]) -> list[tuple[str, range]]:
        """The words of a text, each with the places of its symbols, which make whole words."""
        ends = list(accumulate(len(self._texts[symbol]) for symbol in symbols))
        text = "".join(self._texts[symbol] for symbol in symbols)
        found, first = [], 0
        for word in _WORDS.finditer(text):
            end = bisect_left(ends, word.end()) + 1
            found.append((word.group().strip(), range(first, end)))
            first = end
        return found

    def _of_word(self, word: str) -> tuple[int, ...]:
        if word not in self._known:
            pieces = self._merged(list(word))
            self._known[word] = tuple(self._symbols.get(piece, UNKNOWN) for piece in pieces)
        return self._known[word]

    def _merged(self, pieces: list[str]) -> list[str]:
        """The pieces after all merges, the earliest learnt first."""
        while pairs := set(pairwise(pieces)) & self._ranks.keys():
            pieces = _joined(pieces, min(pairs, key=self._ranks.__getitem__))
        return pieces


def learnt(texts: Iterable[str], num_symbols: int) -> Subwords:
    """Subwords of at most so many symbols, by algorithm 1 of the paper.

    Again and again the pair of neighbours that is commonest is merged, of equally common ones the
    first by its characters, until no pair stands twice. Of each merge only the words that hold the
    pair are counted anew.

    Args:
        texts: Words with one space between them.
        num_symbols: With characters and the special ones.
    """
    times = Counter(word for text in texts for word in _WORDS.findall(f" {text}"))
    words = [list(word) for word in times]
    characters = "".join(sorted({piece for word in words for piece in word}))
    counts: Counter[tuple[str, str]] = Counter()
    holders: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for number, (word, count) in enumerate(zip(words, times.values(), strict=True)):
        for pair in pairwise(word):
            counts[pair] += count
            holders[pair].add(number)
    repeats, merges = list(times.values()), list[tuple[str, str]]()
    queue = [(-count, pair) for pair, count in counts.items()]
    heapify(queue)
    while queue and len(merges) < num_symbols - _NUM_SPECIAL - len(characters):
        negative, best = heappop(queue)
        if -negative != counts[best] or negative > -2:  # counted anew since, or rare
            continue
        merges.append(best)
        changed: Counter[tuple[str, str]] = Counter()
        for number in holders.pop(best):
            before, after = words[number], _joined(words[number], best)
            if len(before) == len(after):  # it held the pair before other merges
                continue
            words[number] = after
            for pair in pairwise(before):
                changed[pair] -= repeats[number]
            for pair in pairwise(after):
                changed[pair] += repeats[number]
                holders[pair].add(number)
        for pair, change in changed.items():
            if change:
                counts[pair] += change
                heappush(queue, (-counts[pair], pair))
    return Subwords(characters, merges)


def _joined(pieces: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """The pieces with each occurrence of the pair made one, from the left."""
    found: list[str] = []
    at = 0
    while at < len(pieces):
        width = 2 if tuple(pieces[at : at + 2]) == pair else 1
        found.append("".join(pieces[at : at + width]))
        at += width
    return found
