"""Translate a caption of a photo from English into German, or back.

Multi30k (Elliott et al. 2016, arXiv:1605.00459): 29,000 pairs for training, 1,014 for validation
and the 1,000 of 2016 for test, in contemporary language, of 13 words on average. Captions are used
as published, with capitals, and with one space between words; the empty line at the end of two
files is ignored.

    symbols   4,000, see `bases.subwords`; joint, learnt from the training captions on first use,
              in some seconds
    context   the caption in the source language; inputs, target and score: see
              `bases.translation`
    parts     ``words=20`` has sources of 11 to 20 words, ``words=30`` all above 20

The files do not ship: `bakeoff data fetch multi30k` downloads three archives. They are those of
torchtext; that of the test split was packed again by hand and also contains metadata files of that
machine (``._test.en``), which are not read.
"""

from __future__ import annotations

import io
import tarfile
import unicodedata
import zlib
from collections.abc import Mapping
from functools import cache
from typing import ClassVar

from bakeoff.suite.tasks.bases.subwords import learnt
from bakeoff.suite.tasks.bases.translation import NUM_SYMBOLS, Bitext, Pair, Translation
from bakeoff.suite.tasks.data_files import malformed, read_verified
from bakeoff.suite.tasks.public.sets import source_of
from bakeoff.suite.tasks.task import DataSource

SOURCE = source_of("multi30k")
LANGUAGES = ("en", "de")
# In the order of the archives: the prefix of the file names, and the number of captions.
FILES: Mapping[str, tuple[str, int]] = {
    "training": ("train", 29_000),
    "validation": ("val", 1_014),
    "test": ("test", 1_000),
}


class Multi30k(Translation):
    """Translation of captions between English and German."""

    source = SOURCE
    most_scored: ClassVar[Mapping[str, int]] = {name: most for name, (_, most) in FILES.items()}
    most_words = (10, 20, 30)
    is_back: ClassVar[bool]

    @classmethod
    def pairs(cls) -> Bitext:
        """Return all sentences by split, in the order of the files."""
        return _pairs(cls.is_back)


class Multi30kEnDe(Multi30k):
    """Translation of captions from English into German."""

    name = "multi30k_en_de"
    is_back = False


class Multi30kDeEn(Multi30k):
    """Translation of captions from German into English."""

    name = "multi30k_de_en"
    is_back = True


@cache
def _pairs(is_back: bool) -> Bitext:
    texts = read_captions()
    # Both directions of translation have the same subwords.
    subwords = learnt((text for pair in texts["training"] for text in pair), NUM_SYMBOLS)
    splits = {
        name: tuple(
            Pair(*map(subwords.encoded, reversed(pair) if is_back else pair)) for pair in pairs
        )
        for name, pairs in texts.items()
    }
    return Bitext(subwords, splits)


def read_captions() -> dict[str, list[tuple[str, str]]]:
    """Return the English and German captions by split.

    Raises:
        TaskError: if an archive is missing, altered or malformed.
    """
    found = {}
    for source, (split, (file, count)) in zip(SOURCE.files, FILES.items(), strict=True):
        members = _members(source)
        sides = [_lines(source, members, f"{file}.{language}") for language in LANGUAGES]
        if {len(side) for side in sides} != {count} or not all(map(all, sides)):
            raise malformed(source, f"it has not {count} captions in each language")
        found[split] = list(zip(*sides, strict=True))
    return found


def _members(source: DataSource) -> dict[str, bytes]:
    """Return the content of the archive's files by their names without folders."""
    try:
        with tarfile.open(fileobj=io.BytesIO(read_verified(source)), mode="r:gz") as archive:
            opened = {each.name: archive.extractfile(each) for each in archive}
            return {
                name.rpartition("/")[2]: content.read()
                for name, content in opened.items()
                if content
            }
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise malformed(source, f"no tar archive of captions ({error})") from error


def _lines(source: DataSource, members: Mapping[str, bytes], name: str) -> list[str]:
    """Return the captions of a file, without an empty line at its end."""
    if name not in members:
        raise malformed(source, f"no {name} in it")
    try:
        text = unicodedata.normalize("NFC", members[name].decode())
    except ValueError as error:
        raise malformed(source, f"{name} is not UTF-8 ({error})") from error
    return [" ".join(line.split()) for line in text.rstrip("\n").split("\n")]
