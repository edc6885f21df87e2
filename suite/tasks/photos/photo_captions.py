"""Say what is in a photo that five people described: what the tasks on such photos share.

    picture   the largest square in the middle of the photo, scaled to 64 x 64 pixels: patches of 8
              make 64 places, and all photos together fit into 100 MB
    caption   in lower case, without marks of punctuation: a word is a run of letters and digits,
              with hyphens and apostrophes inside. Of a caption of more than 24 words, as one in 300
              is, the first 25 are asked for, and no end
    symbols   2,500. 0 fills, 1 begins and 2 ends a caption, 3 is any other word; then the 2,496
              commonest words of the training captions, of equally common ones the first by the
              alphabet. The rarest of them stands there five times, in Flickr8k
    training  each epoch has each photo once, with one of its five captions, which is drawn
    held out  each photo once. What a model writes is judged by all five captions, whole and in
              their own words: a word that the model does not know is never right. Symbols from
              2,500 on are such words. For what is judged by one caption, as bits, it is the first
    score     BLEU with five references; beside it CIDEr-D and ROUGE-L

Pixels are scaled to 0..1, then shifted and scaled by mean and standard deviation of each channel
over ImageNet, as is usual for photos. They are JPEG files: a decoder of another make may give a
number that is one apart. A process decodes each split when it first needs it, some milliseconds a
photo.

Published figures are of features of networks trained on ImageNet, or of larger photos, and of
captions cut into words by another tool: these scores are lower, and compare with each other only.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from suite.errors import one_line
from suite.tasks.bases.captions import CaptionTask, Words, captioned
from suite.tasks.bases.images import scaled
from suite.tasks.bases.subwords import END, PADDING, UNKNOWN
from suite.tasks.data_files import malformed, opened_verified
from suite.tasks.data_order import RandomStream, Whole, shuffled_indices
from suite.tasks.task import UNSCORED, Batch, DataSource, Split, TaskError

SIDE = 64  # pixels
NUM_REFERENCES = 5
NUM_SYMBOLS = 2_500
LENGTH = 25  # words of a long caption, or of a shorter one and its end
_SPECIAL = ("", "", "", "\N{REPLACEMENT CHARACTER}")
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_OTHER_SEEDS = 1 << 62  # the streams of these draw captions, and no order of photos
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    KeyError,
    ValueError,
    SyntaxError,
    RuntimeError,
    Image.DecompressionBombError,
)


class Photo(NamedTuple):
    """A photo by the name of its file, and what five people said of it, in words."""

    file: str
    captions: tuple[str, ...]


Photos = Mapping[str, Sequence[Photo]]  # by split


class KnownWords(Words):
    """A vocabulary of the commonest words, beyond which are those of references.

    Args:
        learnt: Captions that a model learns from.
        others: Further captions that it is judged by.
    """

    def __init__(self, learnt: Iterable[str], others: Iterable[str]) -> None:
        counts = Counter(word for text in learnt for word in text.split())
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        known = ordered[: NUM_SYMBOLS - len(_SPECIAL)]
        rare = {word for text in others for word in text.split()}.union(ordered) - {*known}
        unused = [""] * (NUM_SYMBOLS - len(_SPECIAL) - len(known))
        self._words = (*_SPECIAL, *known, *unused, *sorted(rare))
        self._symbols = {word: symbol for symbol, word in enumerate(self._words) if word}

    def learnt(self, text: str) -> list[int]:
        """The symbols of a text as a model knows them."""
        return [symbol if symbol < NUM_SYMBOLS else UNKNOWN for symbol in self.encoded(text)]


@dataclass(frozen=True)
class Described:
    """The photos of a split.

    Attributes:
        pixels: `[photos, SIDE, SIDE, 3]`.
        targets: `[photos, NUM_REFERENCES, LENGTH]`, filled behind.
        references: `[photos, NUM_REFERENCES, longest]`, UNSCORED behind.
    """

    pixels: NDArray[np.uint8]
    targets: Whole
    references: Whole

    def batch(self, chosen: Whole, captions: Whole, task: type[PhotoCaptions]) -> Batch:
        """Some photos, each with one of its captions."""
        statistics = task.pixel_mean, task.pixel_standard_deviation
        pictures = scaled(self.pixels[chosen], *statistics)
        inputs, asked = captioned(self.targets[chosen, captions], pictures)
        references = torch.from_numpy(self.references[chosen])
        return Batch(inputs=inputs, targets=asked, references=references)


class PhotoCaptions(CaptionTask):
    """Write a caption of a photo.

    Attributes:
        folder: Of the photos, in the last file of `source`, a zip archive.
    """

    fixed_length = LENGTH
    num_references = NUM_REFERENCES
    picture = (SIDE, SIDE)
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS
    pixel_mean = (0.485, 0.456, 0.406)
    pixel_standard_deviation = (0.229, 0.224, 0.225)
    folder: ClassVar[str]

    @classmethod
    @abstractmethod
    def photos(cls) -> Photos:
        """All photos by split, read once per process; none of their pixels.

        Raises:
            TaskError: if the file of captions is missing, altered or malformed.
        """

    @classmethod
    def vocabulary(cls) -> Words:
        """See `PictureTask.vocabulary`."""
        return _vocabulary(cls)

    def num_training_examples(self) -> int:
        """The photos for training."""
        return len(self.photos()["training"])

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Without replacement within an epoch; every epoch in an order of its own."""
        count = self.num_training_examples()
        chosen = shuffled_indices(seed=seed, step=step, batch=batch, num_examples=count)
        drawn = RandomStream(_OTHER_SEEDS ^ seed, step)
        captions = drawn.integers(batch, low=0, high=NUM_REFERENCES)
        return _described(type(self), "training").batch(chosen, captions, type(self))

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """The split's photos in the order of its list, each asked for its first caption."""
        found = _described(type(self), split)
        places = np.arange(len(found.pixels))
        for first in range(0, len(places), batch):
            chosen = places[first : first + batch]
            yield found.batch(chosen, np.zeros_like(chosen), type(self))


def words_of(caption: str) -> str:
    """The words of a caption, in lower case, with one space between."""
    return " ".join(_WORD.findall(caption.lower()))


@contextmanager
def opened_zip(source: DataSource, what: str) -> Iterator[zipfile.ZipFile]:
    """A file of a data set as a zip archive.

    Args:
        source: Of one file.
        what: The archive ought to hold, as a message says it.

    Raises:
        TaskError: if it is missing or altered; if it is no such archive, or what is read inside of
            the context cannot be read.
    """
    with opened_verified(source) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except TaskError:
            raise
        except _DAMAGES as error:
            raise malformed(source, f"no zip archive of {what} ({_said(error)})") from error


@cache
def _vocabulary(task: type[PhotoCaptions]) -> KnownWords:
    said = {
        split: [caption for photo in photos for caption in photo.captions]
        for split, photos in task.photos().items()
    }
    return KnownWords(said["training"], [*said["validation"], *said["test"]])


@cache
def _described(task: type[PhotoCaptions], split: str) -> Described:
    photos, words = task.photos()[split], _vocabulary(task)
    pixels = _decoded(task, [photo.file for photo in photos])
    said = [caption for photo in photos for caption in photo.captions]
    asked = [[*words.learnt(text), END][:LENGTH] for text in said]
    whole = [words.encoded(text) for text in said]
    shape = (len(photos), NUM_REFERENCES, -1)
    return Described(
        pixels,
        _filled(asked, LENGTH, PADDING).reshape(shape),
        _filled(whole, max(map(len, whole)), UNSCORED).reshape(shape),
    )


def _filled(rows: Sequence[Sequence[int]], width: int, filler: int) -> Whole:
    """`[rows, width]`, with fillers behind."""
    found = np.full((len(rows), width), filler, dtype=np.int64)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def _decoded(task: type[PhotoCaptions], files: Sequence[str]) -> NDArray[np.uint8]:
    """`[photos, SIDE, SIDE, 3]`."""
    pixels = np.empty((len(files), SIDE, SIDE, 3), dtype=np.uint8)
    source = task.source.files[-1]
    with opened_zip(source, "photos") as archive:
        for place, file in enumerate(files):
            name = f"{task.folder}/{file}"
            try:
                pixels[place] = _square(archive.read(name))
            except _DAMAGES as error:
                raise malformed(source, f"{name} is no photo ({_said(error)})") from error
    return pixels


def _square(packed: bytes) -> NDArray[np.uint8]:
    """`[SIDE, SIDE, 3]`, of the content of a JPEG file."""
    with Image.open(io.BytesIO(packed), formats=["JPEG"]) as image:
        image.draft("RGB", (2 * SIDE, 2 * SIDE))  # decoded no larger than needed, in half the time
        fitted = ImageOps.fit(image.convert("RGB"), (SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(fitted)


def _said(error: BaseException) -> str:
    return one_line(str(error)) or type(error).__name__
