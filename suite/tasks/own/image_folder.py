"""Images of the user's own, one folder for each class."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from bakeoff.suite.errors import one_line
from bakeoff.suite.spec.own_data import ImageFolder
from bakeoff.suite.tasks.own.data import Prepared, Reader
from bakeoff.suite.tasks.own.labelled import (
    MOST_CLASSES,
    OwnImages,
    classes_in_words,
    floors_of,
    moments,
    most_fitted,
    parts_of,
    refuse_bad_classes,
    training_parts,
    validated_in_words,
    write_splits,
)
from bakeoff.suite.tasks.own.reading import (
    TRAINING,
    VALIDATION,
    digests_of,
    splits_of,
    with_validation,
)
from bakeoff.suite.tasks.own.split_names import SPLITS, shares, split_named
from bakeoff.suite.tasks.task import TaskError

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_NOT_OF_USERS = {"thumbs.db", "desktop.ini", "__macosx"}  # besides those that begin with a dot
_MOST_PIXELS = 89_478_485  # in an image: Pillow's limit against decompression bombs
_IMAGES_AT_ONCE = 256
_WHITE = 255


class _Class(NamedTuple):
    """The images of a class in one split; the split is None if the folder does not say."""

    name: str
    split: int | None
    files: tuple[Path, ...]


@dataclass
class _Found:
    """The content of a folder."""

    classes: list[_Class] = field(default_factory=list)
    num_others: int = 0  # files that are not images, by their suffixes
    other: str = ""  # the first of them


class _Pixels(NamedTuple):
    """The pixels of an image, or why it cannot be read, and whether it has several frames."""

    pixels: NDArray[np.uint8] | None
    why_not: str = ""
    is_animated: bool = False


class ImageFolderReader(Reader):
    """The reader of a folder of images.

    Images are those files below the folder of a class, in nested and linked folders too, that have
    a suffix of `SUFFIXES`; hidden files, ``Thumbs.db``, ``desktop.ini`` and ``__MACOSX`` are
    ignored, and other files counted. An image is turned as its EXIF data say, put on white where it
    is transparent, and scaled to a square without its ratio of sides; of several frames the first
    is read. Pixels of 16 bits are scaled to 8. Memory holds 256 images as scaled, one whole image
    for each thread, and 32 bytes for each example.
    """

    data: ImageFolder

    def files(self, path: Path) -> Sequence[Path]:
        """Return the images, by split and class.

        Raises:
            TaskError: if there are none, or the folder has another structure.
        """
        return [file for each in _content(path).classes for file in each.files]

    def prepare(self, path: Path, to: Path) -> dict[str, Any]:
        """Write the pixels of each split, and return the classes, and mean and deviation."""
        found = _content(path)
        names = sorted({each.name for each in found.classes})
        numbers = {name: number for number, name in enumerate(names)}
        files = [file for each in found.classes for file in each.files]
        labels = np.concatenate(
            [np.full(len(each.files), numbers[each.name]) for each in found.classes]
        ).astype(np.int64)
        pixels, num_animated = self._pixels(files, to / "pixels.npy")
        splits = _splits(found, pixels)
        names = [one_line(name) for name in names]  # a file system allows any bytes
        refuse_bad_classes(path, labels, splits, names)
        training = training_parts(pixels, splits)
        statistics = moments((part / _WHITE for part in training), axes=(0, 1, 2))
        counts = write_splits(to, pixels, labels, splits)
        del pixels
        (to / "pixels.npy").unlink()
        notes = [
            f"{num_animated:,} have several frames, of which the first is read"
            if num_animated
            else "",
            f"{found.num_others:,} other files are ignored, as {found.other}"
            if found.num_others
            else "",
        ]
        side, kind = self.data.size, "grey" if self.data.is_grey else "colour"
        return {
            "classes": names,
            "counts": counts,
            **statistics,
            "summary": "; ".join(
                [
                    f"{len(files):,} images, scaled to {side} x {side} pixels in {kind}, "
                    f"{shares(counts)}{validated_in_words(counts)}",
                    classes_in_words(labels, names),
                    *filter(None, notes),
                ]
            ),
        }

    def task(self, prepared: Prepared) -> dict[str, Any]:
        """Return the task with its classes, and the mean and the deviation of the pixels."""
        facts, side, channels = prepared.facts, self.data.size, 1 if self.data.is_grey else 3
        numbers = side * side * channels
        return {
            "base": OwnImages,
            "input_size": channels,
            "output_size": len(facts["classes"]),
            "fixed_length": side * side,
            "grid": (side, side),
            "pixel_mean": tuple(facts["mean"]),
            "pixel_standard_deviation": tuple(facts["deviation"]),
            "floors": floors_of("image", "class", numbers),
            "most_fitted": most_fitted(facts["counts"][TRAINING], numbers),
        }

    def _pixels(self, files: Sequence[Path], to: Path) -> tuple[NDArray[np.uint8], int]:
        """Write all pixels `[images, size, size, channels]`, mapped into memory."""
        side, channels = self.data.size, 1 if self.data.is_grey else 3
        found = np.lib.format.open_memmap(
            to, mode="w+", dtype=np.uint8, shape=(len(files), side, side, channels)
        )
        num_animated, num_bad, first_bad = 0, 0, ""
        with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as threads:
            warnings.simplefilter("ignore")  # about metadata; a large image is refused before
            for first in range(0, len(files), _IMAGES_AT_ONCE):
                part = files[first : first + _IMAGES_AT_ONCE]
                for row, image in enumerate(threads.map(self._read, part), first):
                    if image.pixels is None:
                        first_bad = first_bad or f"{files[row]} {image.why_not}"
                        num_bad += 1
                    else:
                        found[row] = image.pixels
                    num_animated += image.is_animated
        if num_bad:
            more = f", and {num_bad - 1:,} more files cannot be read" if num_bad > 1 else ""
            raise TaskError(first_bad + more)
        return found, num_animated

    def _read(self, file: Path) -> _Pixels:
        side = self.data.size
        try:
            with Image.open(file) as image:
                if image.width * image.height > _MOST_PIXELS:
                    return _Pixels(None, _too_large(image.width, image.height))
                is_animated = getattr(image, "is_animated", False)
                image.draft(None, (2 * side, 2 * side))  # a JPEG is decoded at a smaller size
                image.load()
                turned: Image.Image = image
                with suppress(Exception):  # damaged metadata of an image that can be read
                    turned = ImageOps.exif_transpose(image)
                if turned.mode in ("I", "F"):
                    return _Pixels(None, "has pixels of 32 bits; save it with 8 or 16 bits")
                plain = _plain(turned, "L" if self.data.is_grey else "RGB")
                scaled = plain.resize((side, side), Image.Resampling.BILINEAR, reducing_gap=3.0)
        except Image.DecompressionBombError:
            return _Pixels(None, f"has more than {_MOST_PIXELS:,} pixels")
        except UnidentifiedImageError:
            return _Pixels(None, "is not an image that can be read")
        except MemoryError:
            raise
        except Exception as error:  # decoders raise errors of many kinds for damaged files
            return _Pixels(None, f"cannot be read as an image ({error})")
        return _Pixels(np.asarray(scaled).reshape(side, side, -1), is_animated=is_animated)


def _too_large(width: int, height: int) -> str:
    return f"has {width:,} x {height:,} pixels; at most {_MOST_PIXELS:,} are allowed"


def _plain(image: Image.Image, mode: str) -> Image.Image:
    """Return the image in grey or in colour, with 8 bits, on white where it is transparent."""
    if image.mode.startswith("I;16"):
        bits = np.asarray(image).astype(np.uint16)
        return Image.fromarray((bits >> 8).astype(np.uint8)).convert(mode)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert(mode)


def _splits(found: _Found, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the split of each image; equal images have the same one unless it is given.

    If only training and test are given, one of ten training images is for validation, by the hash.
    """
    given = [each.split for each in found.classes for _ in each.files]
    digests = np.concatenate(
        [digests_of(row.tobytes() for row in pixels[p]) for p in parts_of(len(pixels), pixels)]
    )
    if None in given:
        return splits_of(digests)
    return with_validation(np.array(given, dtype=np.uint8), digests)


def _content(path: Path) -> _Found:
    """Return the images by class, and by split if the folder has a folder for each split.

    Raises:
        TaskError: if the folder has another structure.
    """
    if not path.is_dir():
        is_file = "is a file" if path.exists() else "does not exist"
        raise TaskError(f"{path} {is_file}; give a folder with one folder of images for each class")
    found = _Found()
    folders = _folders_of_classes(path, found)
    splits: Mapping[str, int | None] = {each.name: split_named(each.name) for each in folders}
    if not folders or None in splits.values():
        _add_classes(path, folders, None, found)
        return found
    by_split = {split: name for name, split in splits.items()}
    if len(by_split) < len(folders):
        raise TaskError(f"{path} has two folders for one split: {', '.join(sorted(splits))}")
    for name, split in SPLITS.items():
        if split not in by_split and split != VALIDATION:
            raise TaskError(
                f"{path} has no folder for the {name} part, but {', '.join(sorted(splits))}; with "
                "folders of classes in place of these the split is by a hash"
            )
    for name, number in sorted(splits.items()):
        _add_classes(path / name, _folders_of_classes(path / name, found), number, found)
    return found


def _add_classes(path: Path, folders: Sequence[Path], split: int | None, found: _Found) -> None:
    if not folders:
        raise TaskError(f"{path} has no folder; it needs one folder of images for each class")
    if len(folders) > MOST_CLASSES:
        raise TaskError(
            f"{path} has {len(folders):,} folders; at most {MOST_CLASSES:,} classes are allowed"
        )
    for folder in folders:
        files = tuple(_images_below(folder, found, (os.path.realpath(path),)))
        if not files:
            raise TaskError(
                f"{folder} has no image; the suffixes of images are {', '.join(SUFFIXES)}"
            )
        found.classes.append(_Class(folder.name, split, files))


def _folders_of_classes(path: Path, found: _Found) -> list[Path]:
    """Return the folders in the order of their names; raise if an image is beside them."""
    folders = []
    for each in _entries(path):
        if each.is_dir():
            folders.append(each)
        elif each.suffix.lower() in SUFFIXES:
            raise TaskError(
                f"{each} must be in the folder of a class, as {path / 'cats' / each.name}"
            )
        else:
            _count_other(each, found)
    return folders


def _images_below(folder: Path, found: _Found, above: tuple[str, ...]) -> Iterator[Path]:
    """Yield the images in the order of their paths; links are followed."""
    real = os.path.realpath(folder)
    if real in above:
        raise TaskError(f"{folder} is a link to a folder that contains it")
    for each in _entries(folder):
        if each.is_dir():
            yield from _images_below(each, found, (*above, real))
        elif each.suffix.lower() not in SUFFIXES:
            _count_other(each, found)
        elif not each.exists():
            raise TaskError(f"{each} is a link to a file that does not exist")
        else:
            yield each


def _entries(folder: Path) -> list[Path]:
    found = [
        each
        for each in folder.iterdir()
        if not each.name.startswith(".") and each.name.lower() not in _NOT_OF_USERS
    ]
    return sorted(found, key=lambda each: each.name)


def _count_other(file: Path, found: _Found) -> None:
    found.other = found.other or file.name
    found.num_others += 1
