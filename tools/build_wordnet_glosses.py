"""Regenerate suite/tasks/data/wordnet-glosses.tsv.xz from Debian's wordnet-base (WordNet 3.0).

Kept are, of the 82,115 senses of nouns, the 48,000 whose definitions have the least SHA-256: a
choice by content, so that each supersense keeps its share. A definition ends where its examples
begin, which stand in quotation marks.

Layout, UTF-8: for each sense, in WordNet's order, its supersense (the lexicographer file without
"noun."), a tab, the definition, a newline.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from package_files import Recipe, build, debian_archive, member

RECIPE = Recipe(
    download=("apt-get", "download", "wordnet-base=1:3.0-37"),
    package="wordnet-base_*.deb",
    package_sha256="61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
    file="wordnet-glosses.tsv.xz",
    content_sha256="80d82b635a520c25f01dc083c424a53f684d4c1090d06d9132dde65d2f85d52c",
    file_sha256="9740a5ed72b3ba066c9e0d289c7714d565462148f2b5765f845ec0d7b8b676d6",
)
NOUNS = "usr/share/wordnet/data.noun"
NUM_GLOSSES = 48_000
# The numbers of the lexicographer files of nouns, 3 to 28, in their order (WordNet, lexnames(5)).
FIRST_FILE = 3
SUPERSENSES = (
    "Tops",
    "act",
    "animal",
    "artifact",
    "attribute",
    "body",
    "cognition",
    "communication",
    "event",
    "feeling",
    "food",
    "group",
    "location",
    "motive",
    "object",
    "person",
    "phenomenon",
    "plant",
    "possession",
    "process",
    "quantity",
    "relation",
    "shape",
    "state",
    "substance",
    "time",
)
EXAMPLES = re.compile(r'[;:,]?\s*".*$')


def glosses(data: str) -> bytes:
    """Turn the content of data.noun into lines of supersense and definition."""
    senses = [line.split(" | ", 1) for line in data.splitlines() if not line.startswith("  ")]
    lines = [
        f"{SUPERSENSES[int(facts.split()[1]) - FIRST_FILE]}\t{definition}\n"
        for facts, gloss in senses
        if (definition := EXAMPLES.sub("", gloss.strip()).strip())
    ]
    kept = set(sorted(range(len(lines)), key=lambda place: digest(lines[place]))[:NUM_GLOSSES])
    return "".join(line for place, line in enumerate(lines) if place in kept).encode()


def digest(line: str) -> bytes:
    """Hash the definition alone, so that the choice does not depend on the class."""
    return hashlib.sha256(line.partition("\t")[2].encode()).digest()


def content_of(package: Path) -> bytes:
    return glosses(member(debian_archive(package), NOUNS).decode())


if __name__ == "__main__":
    build(RECIPE, content_of)
