"""Language modelling of Wikipedia as bytes: raw XML of 106 articles as of May 2016, 6 megabytes.

The content resembles enwik8 (markup, links, tables, other scripts), but it is **not enwik8**: it is
another excerpt of another year, split by article. Bits per byte of this task compare only with each
other.

Whole articles are held out: of the articles of 16,384 to 65,536 bytes, in the order of the SHA-256
of their titles, the first 8 are for validation and the next 16 for test; the rest, 5.1 million
bytes, is for training. The first 8,192 bytes of each held-out article are scored, so 65,536 and
131,072 in all, the same at every length (see `text_windows`). Redirects, which consist of a title
and a target only, were left out of the file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.bases.text_windows import Corpus, TextWindows
from bakeoff.suite.tasks.data_files import malformed, read_content
from bakeoff.suite.tasks.task import DataSource, Split

SOURCE = DataSource(
    name="wikipedia",
    title="106 articles of the English Wikipedia as of May 2016, raw XML (not enwik8)",
    licence="CC BY-SA 3.0",
    origin="Python package gensim 4.4.0, its test data from the dump of 2016-05,"
    " https://en.wikipedia.org",
    sha256="76a88693be9f0666a5d0d9f9458325e9e940a893e8d17aac7822bb41f1120ed5",
    file="wikipedia.xml.xz",
)
NUM_ARTICLES = 106
NUM_HELD_OUT: Mapping[Split, int] = {"validation": 8, "test": 16}
HELD_OUT_BYTES = range(16_384, 65_537)  # long enough to score, short enough to spare in training
SCORED_BYTES_PER_ARTICLE = 8_192
_ARTICLE = re.compile(rb" *<page>.*?</page>\n", re.DOTALL)
_TITLE = re.compile(rb"<title>(.*?)</title>")


class WikipediaBytes(TextWindows):
    """Prediction of the next byte, scored in bits per byte over held-out articles."""

    name = "wikipedia_bytes"
    source = SOURCE
    num_scored: ClassVar[Mapping[Split, int]] = dict.fromkeys(
        NUM_HELD_OUT, SCORED_BYTES_PER_ARTICLE
    )

    @staticmethod
    @cache
    def read() -> Corpus:
        """Return the bytes of all splits, read once per process."""
        articles = split_articles()
        held_out: dict[Split, tuple[NDArray[np.uint8], ...]] = {
            split: tuple(map(_codes, articles[split])) for split in NUM_HELD_OUT
        }
        return Corpus(training=_codes(b"".join(articles["training"])), held_out=held_out)


def split_articles() -> dict[str, list[bytes]]:
    """Return the XML of the articles of each split, such as ``training``.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    articles = read_articles()
    eligible = [title for title, xml in articles.items() if len(xml) in HELD_OUT_BYTES]
    order = iter(sorted(eligible, key=lambda title: hashlib.sha256(title).digest()))
    found = {
        str(split): [articles.pop(next(order)) for _ in range(count)]
        for split, count in NUM_HELD_OUT.items()
    }
    return {**found, "training": list(articles.values())}


def read_articles() -> dict[bytes, bytes]:
    """Return the XML of each article by its title, in the order of the file.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    content = read_content(SOURCE)
    found: dict[bytes, bytes] = {}
    for xml in _ARTICLE.findall(content):
        match = _TITLE.search(xml)
        if match is None:
            raise malformed(SOURCE, "an article without a title")
        found[match[1]] = xml
    if len(found) != NUM_ARTICLES or sum(map(len, found.values())) != len(content):
        raise malformed(
            SOURCE,
            f"{len(found)} whole articles where {NUM_ARTICLES} and nothing else are expected",
        )
    return found


def _codes(text: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(text, dtype=np.uint8)
