"""Regenerate suite/tasks/data/movie-reviews.tsv.xz from the source package vaderSentiment 3.3.2.

The package (MIT) holds an archive of the ratings of Hutto and Gilbert 2014, in it 10,605 sentences
of film reviews, each with the mean of 20 people's ratings from -4 to 4.

Layout, UTF-8: for each sentence, in the order of the original, its rating, a tab, the sentence
without spaces at its ends, a newline. pip runs the package's own set-up code for its metadata
before it hands it over; `--package` names a copy that came otherwise.
"""

from __future__ import annotations

from pathlib import Path

from package_files import Recipe, build, member, pip_download

RECIPE = Recipe(
    download=pip_download("vaderSentiment==3.3.2", "--no-binary", "vaderSentiment"),
    package="vader*-3.3.2.tar.gz",
    package_sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    file="movie-reviews.tsv.xz",
    content_sha256="bb8abef8a258d9632bed4a4675d4501f859ae6cef77c68061de045637cbb160d",
    file_sha256="03be35cbec94a30fb5c5e3acc3cf795eb44c5614380521ffb0a1e12d11b209de",
)
ARCHIVE = "*/additional_resources/hutto_ICWSM_2014.tar.gz"
RATINGS = "*/movieReviewSnippets_GroundTruth.txt"


def sentences(ratings: bytes) -> bytes:
    """Turn lines of number, rating and sentence into lines of rating and sentence."""
    fields = (line.split("\t") for line in ratings.decode().splitlines())
    return "".join(f"{rating}\t{text.strip()}\n" for _, rating, text in fields).encode()


def content_of(package: Path) -> bytes:
    return sentences(member(member(package.read_bytes(), ARCHIVE), RATINGS))


if __name__ == "__main__":
    build(RECIPE, content_of)
