"""Regenerate suite/tasks/data/movie-reviews.tsv.xz from the source package vaderSentiment 3.3.2.

The package (MIT) holds an archive of the ratings of Hutto and Gilbert 2014, in it 10,605 sentences
of film reviews, each with the mean of 20 people's ratings from -4 to 4.

Layout, UTF-8: for each sentence, in the order of the original, its rating, a tab, the sentence
without spaces at its ends, a newline. pip runs the package's own set-up code for its metadata
before it hands it over; `--package` names a copy that came otherwise.
"""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from package_files import Recipe, fetch, parse_arguments, write

RECIPE = Recipe(
    download=(
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"),
        *("--no-binary", "vaderSentiment", "--dest", ".", "vaderSentiment==3.3.2"),
    ),
    package="vader*-3.3.2.tar.gz",
    package_sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    file="movie-reviews.tsv.xz",
    content_sha256="bb8abef8a258d9632bed4a4675d4501f859ae6cef77c68061de045637cbb160d",
    file_sha256="03be35cbec94a30fb5c5e3acc3cf795eb44c5614380521ffb0a1e12d11b209de",
)
ARCHIVE = "*/additional_resources/hutto_ICWSM_2014.tar.gz"
RATINGS = "*/movieReviewSnippets_GroundTruth.txt"


def member(archive: bytes, pattern: str) -> bytes:
    """The content of the one file of a tar archive whose path matches."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        (found,) = (m for m in opened if m.isfile() and PurePosixPath(m.name).match(pattern))
        content = opened.extractfile(found)
        assert content is not None, "a regular file has content"
        return content.read()


def sentences(ratings: bytes) -> bytes:
    """Lines of number, rating and sentence -> lines of rating and sentence."""
    fields = (line.split("\t") for line in ratings.decode().splitlines())
    return "".join(f"{rating}\t{text.strip()}\n" for _, rating, text in fields).encode()


def main() -> None:
    arguments = parse_arguments("Regenerate the data file of rated sentences.")
    with tempfile.TemporaryDirectory() as folder:
        package = fetch(RECIPE, Path(folder), arguments.package)
        content = sentences(member(member(package.read_bytes(), ARCHIVE), RATINGS))
    write(RECIPE, content, arguments.out)


if __name__ == "__main__":
    main()
