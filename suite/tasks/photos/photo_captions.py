"""Describe a photo that has five captions: the base class of the tasks on such photos.

    picture   the largest square in the middle of the photo, scaled to 64 x 64 pixels: patches of 8
              make 64 positions, and all photos together fit into 100 MB
    caption   in lower case, without punctuation: a word is a run of letters and digits,
              with hyphens and apostrophes inside. For a caption of more than 24 words (one in 300),
              the target is the first 25, without an end symbol
    symbols   2,500. 0 is padding, 1 begins and 2 ends a caption, 3 is any other word; then the
              2,496 most frequent words of the training captions, ties in alphabetical order. The
              rarest of them occurs five times, in Flickr8k
    training  each epoch has each photo once, with one of its five captions, drawn at random
    held out  each photo once. Generated captions are compared with all five captions, whole and in
              their own words: a word outside the vocabulary is never right. Symbols from 2,500 on
              are such words. Metrics of one caption, such as bits, use the first one
    score     BLEU with five references; CIDEr-D and ROUGE-L are also scored

Pixels are scaled to 0..1, then standardised by the mean and standard deviation of each channel over
ImageNet, as is usual for photos. The photos are JPEG files: another decoder may give values that
differ by one. A process decodes each split on first use, in some milliseconds per photo.

Published results use features of networks trained on ImageNet, or larger photos, and captions that
another tool split into words: these scores are lower, and compare only with each other.
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

from bakeoff.suite.errors import one_line
from bakeoff.suite.tasks.bases.captions import CaptionTask, Words, captioned
from bakeoff.suite.tasks.bases.images import scaled
from bakeoff.suite.tasks.bases.subwords import END, PADDING, UNKNOWN
from bakeoff.suite.tasks.data_files import malformed, opened_verified
from bakeoff.suite.tasks.data_order import RandomStream, Whole, shuffled_indices
from bakeoff.suite.tasks.task import UNSCORED, Batch, DataSource, Split, TaskError

SIDE = 64  # pixels
NUM_REFERENCES = 5
NUM_SYMBOLS = 2_500
LENGTH = 25  # words of a long caption, or of a shorter one with its end symbol
_SPECIAL = ("", "", "", "\N{REPLACEMENT CHARACTER}")
_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_OTHER_SEEDS = 1 << 62  # seeds of the streams that draw captions, not the order of photos
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
    """A photo by its file name, and its five captions as words."""

    file: str
    captions: tuple[str, ...]


Photos = Mapping[str, Sequence[Photo]]  # by split


class KnownWords(Words):
    """A vocabulary of the most frequent words, followed by the rare words of references.

    Args:
        learnt: The captions that a model is trained on.
        others: Further captions that it is scored against.
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
        """Return the symbols of a text within the vocabulary of a model."""
        return [symbol if symbol < NUM_SYMBOLS else UNKNOWN for symbol in self.encoded(text)]


@dataclass(frozen=True)
class Described:
    """The photos of a split.

    Attributes:
        pixels: `[photos, SIDE, SIDE, 3]`.
        targets: `[photos, NUM_REFERENCES, LENGTH]`, padded at the end.
        references: `[photos, NUM_REFERENCES, longest]`, padded with UNSCORED.
    """

    pixels: NDArray[np.uint8]
    targets: Whole
    references: Whole

    def batch(self, chosen: Whole, captions: Whole, task: type[PhotoCaptions]) -> Batch:
        """Return the chosen photos, each with one of its captions."""
        statistics = task.pixel_mean, task.pixel_standard_deviation
        pictures = scaled(self.pixels[chosen], *statistics)
        inputs, asked = captioned(self.targets[chosen, captions], pictures)
        references = torch.from_numpy(self.references[chosen])
        return Batch(inputs=inputs, targets=asked, references=references)


class PhotoCaptions(CaptionTask):
    """Captioning of photos.

    Attributes:
        folder: The folder of the photos in the last file of `source`, a zip archive.
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
        """Return all photos by split, without their pixels, read once per process.

        Raises:
            TaskError: if the file of captions is missing, altered or malformed.
        """

    @classmethod
    def vocabulary(cls) -> Words:
        """Return the words of the captions."""
        return _vocabulary(cls)

    def num_training_examples(self) -> int:
        """Return the number of training photos."""
        return len(self.photos()["training"])

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Return a batch, drawn without replacement in each epoch, in an order of its own."""
        count = self.num_training_examples()
        chosen = shuffled_indices(seed=seed, step=step, batch=batch, num_examples=count)
        drawn = RandomStream(_OTHER_SEEDS ^ seed, step)
        captions = drawn.integers(batch, low=0, high=NUM_REFERENCES)
        return _described(type(self), "training").batch(chosen, captions, type(self))

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield the split's photos in list order, each with its first caption as target."""
        found = _described(type(self), split)
        places = np.arange(len(found.pixels))
        for first in range(0, len(places), batch):
            chosen = places[first : first + batch]
            yield found.batch(chosen, np.zeros_like(chosen), type(self))


def words_of(caption: str) -> str:
    """Return the words of a caption, in lower case, separated by single spaces."""
    return " ".join(_WORD.findall(caption.lower()))


@contextmanager
def opened_zip(source: DataSource, what: str) -> Iterator[zipfile.ZipFile]:
    """Open a file of a data set as a zip archive.

    Args:
        source: The data source, of one file.
        what: The expected content of the archive, for messages.

    Raises:
        TaskError: if the file is missing, altered or not such an archive, or if a read inside of
            the context fails.
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
    """Return the rows as `[rows, width]`, padded at the end."""
    found = np.full((len(rows), width), filler, dtype=np.int64)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def _decoded(task: type[PhotoCaptions], files: Sequence[str]) -> NDArray[np.uint8]:
    """Return the pixels of the files, `[photos, SIDE, SIDE, 3]`."""
    pixels = np.empty((len(files), SIDE, SIDE, 3), dtype=np.uint8)
    source = task.source.files[-1]
    with opened_zip(source, "photos") as archive:
        for place, file in enumerate(files):
            name = f"{task.folder}/{file}"
            try:
                pixels[place] = _square(archive.read(name))
            except _DAMAGES as error:
                raise malformed(source, f"{name} is not a photo ({_said(error)})") from error
    return pixels


def _square(packed: bytes) -> NDArray[np.uint8]:
    """Return the pixels of a JPEG file's content, `[SIDE, SIDE, 3]`."""
    with Image.open(io.BytesIO(packed), formats=["JPEG"]) as image:
        image.draft("RGB", (2 * SIDE, 2 * SIDE))  # decode no larger than needed, in half the time
        fitted = ImageOps.fit(image.convert("RGB"), (SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(fitted)


def _said(error: BaseException) -> str:
    return one_line(str(error)) or type(error).__name__
