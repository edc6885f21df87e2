"""Regenerate suite/tasks/data/wikipedia.xml.xz from the wheel gensim 4.4.0 (its test data).

The wheel holds an excerpt of the English Wikipedia's dump of May 2016: raw XML of 206 pages, of
which 100 are redirects. Kept are the other 106, byte for byte and in their order.

Layout: the pages one after the other, each from the spaces before `<page>` to the line end after
`</page>`; what stands before, between and after them in the dump is left out.
"""

from __future__ import annotations

import bz2
import re
import zipfile
from pathlib import Path, PurePosixPath

from package_files import Recipe, build, pip_download

RECIPE = Recipe(
    download=pip_download(
        "gensim==4.4.0",
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11"),
        *("--platform", "manylinux_2_28_x86_64"),
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


def content_of(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (m for m in archive.namelist() if PurePosixPath(m).match(EXCERPT))
        return articles(bz2.decompress(archive.read(member)))


if __name__ == "__main__":
    build(RECIPE, content_of)
