"""Split texts into subwords, and join them again, by merges that are learnt from texts.

Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909, algorithm 1): a word starts as its
characters, and of all possible merges of neighbours the one that was learnt first is applied, until
none applies. A word includes the space before it, so a text is the concatenation of its subwords,
without the first space.

    symbols   0 is padding, 1 begins and 2 ends a sequence, 3 is any unknown character, then the
              characters, then the result of each merge, in the order of the merges
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate, chain, pairwise

PADDING, START, END, UNKNOWN = 0, 1, 2, 3
_NUM_SPECIAL = 4
_MOST_KNOWN = 500_000  # words, or runs of them, which take about 200 bytes each
WORD = r" ?\w+| ?[^\w\s]"  # merges do not cross the border of a word
_WORDS = re.compile(WORD)
_SHOWN_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class _Remembered(dict[str, tuple[int, ...]]):
    """The symbols of the texts that were encoded last, up to `_MOST_KNOWN` of them."""

    def __init__(self, encoded: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._encoded = encoded

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= _MOST_KNOWN:
            self.clear()
        found = self[word] = self._encoded(word)
        return found


class Subwords:
    """A vocabulary of subwords.

    Args:
        characters: The characters, each once.
        merges: The two halves of each merge, in the order in which they were learnt.
    """

    def __init__(self, characters: str, merges: Sequence[tuple[str, str]]) -> None:
        self.characters, self.merges = characters, tuple(merges)
        texts = (*characters, *("".join(merge) for merge in merges))
        self._texts = ("", "", "", _SHOWN_UNKNOWN, *texts)
        self._symbols = {text: symbol for symbol, text in enumerate(texts, _NUM_SPECIAL)}
        self._ranks = {merge: rank for rank, merge in enumerate(merges)}
        self._known_words = _Remembered(self._of_word)
        self._known_runs = _Remembered(self._of_run)

    @property
    def begin_words(self) -> list[bool]:
        """For each symbol, True if it begins a word."""
        return [text.startswith(" ") for text in self._texts]

    def __len__(self) -> int:
        return len(self._texts)

    def encoded(self, text: str) -> list[int]:
        """Return the symbols of a text whose words are separated by single spaces."""
        return list(chain.from_iterable(map(self._known_runs.__getitem__, text.split(" "))))

    def decoded(self, symbols: Sequence[int]) -> str:
        """Return the text of the symbols, ignoring padding, start and end."""
        return "".join(self._texts[symbol] for symbol in symbols).removeprefix(" ")

    def words(self, symbols: Sequence[int]) -> list[tuple[str, range]]:
        """Return the words of a text, each with the positions of its symbols, as whole words."""
        ends = list(accumulate(len(self._texts[symbol]) for symbol in symbols))
        text = "".join(self._texts[symbol] for symbol in symbols)
        found, first = [], 0
        for word in _WORDS.finditer(text):
            end = bisect_left(ends, word.end()) + 1
            found.append((word.group().strip(), range(first, end)))
            first = end
        return found

    def _of_run(self, run: str) -> tuple[int, ...]:
        """Return the symbols of the words between two spaces, as of a word and a comma."""
        words = _WORDS.findall(f" {run}")
        return tuple(chain.from_iterable(map(self._known_words.__getitem__, words)))

    def _of_word(self, word: str) -> tuple[int, ...]:
        return tuple(self._symbols.get(piece, UNKNOWN) for piece in self._merged(list(word)))

    def _merged(self, pieces: list[str]) -> list[str]:
        """Return the pieces after all merges, applied in the order in which they were learnt."""
        ranks = self._ranks
        while ranked := [(ranks[pair], pair) for pair in pairwise(pieces) if pair in ranks]:
            pieces = _joined(pieces, min(ranked)[1])
        return pieces


def learnt(texts: Iterable[str], num_symbols: int) -> Subwords:
    """Learn subwords of at most `num_symbols` symbols, by algorithm 1 of the paper.

    The most frequent pair of neighbours is merged repeatedly, of equally frequent ones the first in
    the order of characters, until no pair occurs twice. After each merge only the words that
    contain the pair are counted again.

    Args:
        texts: Texts whose words are separated by single spaces.
        num_symbols: The size of the vocabulary, with the characters and the special symbols.
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
        if -negative != counts[best] or negative > -2:  # an outdated count, or a rare pair
            continue
        merges.append(best)
        changed: Counter[tuple[str, str]] = Counter()
        for number in holders.pop(best):
            before, after = words[number], _joined(words[number], best)
            if len(before) == len(after):  # the word no longer contains the pair
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
    """Return the pieces with each occurrence of the pair joined, from the left."""
    first, second = pair
    found: list[str] = []
    for piece in pieces:
        if piece == second and found and found[-1] == first:
            found[-1] = first + second
        else:
            found.append(piece)
    return found
