"""Long text classification: the sentiment of an IMDb film review, read byte by byte.

Maas et al. 2011: 25,000 reviews for training, 25,000 for test, half of them positive. "Text" of the
Long Range Arena (Tay et al. 2020, arXiv:2011.04006) is this set at ``length=4096``: the first 4,096
bytes of a review, padded at the end. One in ten of the training reviews (by the SHA-256 of its
bytes) is for validation; the Arena validates on the test reviews.

Bytes are shifted by one, since 0 is padding. The file does not ship: `bakeoff data fetch imdb`
downloads it.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from functools import cache

import numpy as np

from bakeoff.suite.tasks.bases.labelled_data import Examples, LabelledData, examples_of
from bakeoff.suite.tasks.bases.labelled_texts import TextClassification
from bakeoff.suite.tasks.bases.text_windows import BYTES_AS_TEXT
from bakeoff.suite.tasks.data_files import malformed, read_verified
from bakeoff.suite.tasks.public.sets import source_of

SOURCE = source_of("imdb")
NUM_REVIEWS = 50_000
_VALIDATION_ONE_IN = 10
_LABELS = {"neg": 0, "pos": 1}


class Imdb(TextClassification):
    """Classification of reviews as negative (0) or positive (1)."""

    name = "imdb"
    source = SOURCE
    lengths = (1, 16_384)
    token_name = "bytes"
    input_size = 257
    output_size = 2
    characters = "\0" + BYTES_AS_TEXT

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the reviews of all splits, in the order of their names in the archive."""
        parts: dict[str, list[tuple[str, bytes]]] = {"training": [], "validation": [], "test": []}
        for name, text in _read_reviews():
            parts[_split_of(name, text)].append((name, text))
        total = sum(map(len, parts.values()))
        if total != NUM_REVIEWS:
            raise malformed(SOURCE, f"{total} reviews where {NUM_REVIEWS} are expected")
        training, validation, test = map(_encoded, parts.values())
        return LabelledData(training=training, held_out={"validation": validation, "test": test})


def _read_reviews() -> Iterator[tuple[str, bytes]]:
    """Yield name and text of each labelled review, such as ``aclImdb/train/pos/0_9.txt``."""
    wanted = tuple(f"aclImdb/{part}/{label}/" for part in ("train", "test") for label in _LABELS)
    try:
        with tarfile.open(fileobj=io.BytesIO(read_verified(SOURCE)), mode="r|*") as archive:
            for member in archive:
                if member.isfile() and member.name.startswith(wanted):
                    content = archive.extractfile(member)
                    assert content is not None, "a regular file has content"
                    yield member.name, content.read()
    except tarfile.TarError as error:
        raise malformed(SOURCE, f"no tar archive of reviews ({error})") from error


def _split_of(name: str, text: bytes) -> str:
    if name.startswith("aclImdb/test/"):
        return "test"
    drawn = int.from_bytes(hashlib.sha256(text).digest()[:8])
    return "training" if drawn % _VALIDATION_ONE_IN else "validation"


def _encoded(reviews: list[tuple[str, bytes]]) -> Examples:
    ordered = sorted(reviews)
    return examples_of(
        [np.frombuffer(text, dtype=np.uint8) + np.uint16(1) for _, text in ordered],
        [_LABELS[name.split("/")[2]] for name, _ in ordered],
    )
