"""Long text classification: the sentiment of a film review of IMDb, read byte by byte.

Maas et al. 2011: 25,000 reviews for training, 25,000 for test, half of them positive. "Text" of
the Long Range Arena (Tay et al. 2020, arXiv:2011.04006) is this set at ``length=4096``: the first
4,096 bytes of a review, padded behind. Of the training reviews, one in ten (by the SHA-256 of its
bytes) is for validation; the Arena takes the test reviews for that.

Bytes are shifted by one, since 0 pads. The file does not ship: `bakeoff data fetch imdb` brings it.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.model_spec import InputKind
from suite.tasks.data_files import malformed, read_verified
from suite.tasks.data_order import shuffled_indices
from suite.tasks.download import source_of
from suite.tasks.metrics import num_right
from suite.tasks.task import Batch, Metric, Split, Task, TaskError
from suite.tasks.text_windows import bytes_as_text

SOURCE = source_of("imdb")
PADDING = 0
MAX_LENGTH = 16_384
NUM_REVIEWS = 50_000
_VALIDATION_ONE_IN = 10
_LABELS = {"neg": 0, "pos": 1}


@dataclass(frozen=True, kw_only=True)
class Reviews:
    """Some reviews and whether they are positive."""

    texts: tuple[bytes, ...]
    labels: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ReviewSplits:
    """The three splits."""

    training: Reviews
    held_out: Mapping[Split, Reviews]


class Imdb(Task):
    """Negative (0) or positive (1)."""

    name = "imdb"
    version = 1
    skeleton = "classifier"
    metric = Metric(name="accuracy", unit="1", better="higher")
    source = SOURCE
    floors = ("uniform", "majority", "tf_idf")
    input_kind: ClassVar[InputKind] = "tokens"
    input_size = 257
    output_size = 2

    def __init__(self, length: int) -> None:
        if not 1 <= length <= MAX_LENGTH:
            raise TaskError(f"{self.name}: length must be 1 to {MAX_LENGTH} bytes, not {length}")
        super().__init__(length)

    def num_training_examples(self) -> int:
        """The reviews for training."""
        return len(data_set().training.labels)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Without replacement within an epoch; every epoch in an order of its own."""
        reviews = data_set().training
        chosen = shuffled_indices(
            seed=seed, step=step, batch=batch, num_examples=len(reviews.labels)
        )
        return self._batch([reviews.texts[index] for index in chosen], reviews.labels[chosen])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """The split's reviews in the order of their names in the archive."""
        reviews = data_set().held_out[split]
        for first in range(0, len(reviews.labels), batch):
            chosen = slice(first, first + batch)
            yield self._batch(reviews.texts[chosen], reviews.labels[chosen])

    def score(self, outputs: Tensor, batch: Batch) -> tuple[float, int]:
        """Reviews whose class has the largest logit, and the number of reviews."""
        return num_right(outputs, batch.targets)

    def text(self, tokens: Sequence[int]) -> str:
        """See `Task.text`."""
        return bytes_as_text([max(0, token - 1) for token in tokens])

    def _batch(self, texts: list[bytes] | tuple[bytes, ...], labels: NDArray[np.int64]) -> Batch:
        tokens = np.full((len(texts), self.length), PADDING, dtype=np.int64)
        for row, text in zip(tokens, texts, strict=True):
            shown = np.frombuffer(text[: self.length], dtype=np.uint8)
            row[: len(shown)] = shown.astype(np.int64) + 1
        return Batch(
            inputs=torch.from_numpy(tokens), targets=torch.from_numpy(labels.copy()),
            mask=torch.from_numpy(tokens != PADDING),
        )  # fmt: skip


@cache
def data_set() -> ReviewSplits:
    """The reviews of all splits, read once per process.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    found: dict[str, list[tuple[str, bytes, int]]] = {"training": [], "validation": [], "test": []}
    for name, text in _read_reviews():
        _, part, label, _ = name.split("/")
        found[_split_of(part, text)].append((name, text, _LABELS[label]))
    if sum(map(len, found.values())) != NUM_REVIEWS:
        total = sum(map(len, found.values()))
        raise malformed(SOURCE, f"{total} reviews where {NUM_REVIEWS} are expected")
    return ReviewSplits(
        training=_reviews(found["training"]),
        held_out={"validation": _reviews(found["validation"]), "test": _reviews(found["test"])},
    )


def _read_reviews() -> Iterator[tuple[str, bytes]]:
    """Name and text of each review that has a label, as ``aclImdb/train/pos/0_9.txt``."""
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


def _split_of(part: str, text: bytes) -> str:
    if part == "test":
        return "test"
    drawn = int.from_bytes(hashlib.sha256(text).digest()[:8])
    return "training" if drawn % _VALIDATION_ONE_IN else "validation"


def _reviews(found: list[tuple[str, bytes, int]]) -> Reviews:
    ordered = sorted(found)
    return Reviews(
        texts=tuple(text for _, text, _ in ordered),
        labels=np.array([label for _, _, label in ordered], dtype=np.int64),
    )
