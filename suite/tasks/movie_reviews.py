"""Sentiment of single sentences of film reviews.

10,605 sentences of critics from rottentomatoes.com (Pang and Lee 2005), each rated by 20 people
from -4 to 4 for the sentiment lexicon VADER (Hutto and Gilbert 2014). A sentence counts as positive
if the mean rating is at least 0.5, and as negative if it is at most -0.5; the 533 between are left
out. Words, vocabulary and splits are those of `labelled_texts`.

Labels come from the raters, not from the stars of the review, so accuracies do not compare with
those published for "MR" or SST-2; TF-IDF of the words with logistic regression reaches 78 %.
"""

from __future__ import annotations

from functools import cache

from bakeoff.suite.tasks.bases.labelled_data import LabelledData
from bakeoff.suite.tasks.bases.labelled_texts import TextClassification, split_texts
from bakeoff.suite.tasks.data_files import malformed, read_content
from bakeoff.suite.tasks.task import DataSource

SOURCE = DataSource(
    name="movie_reviews",
    title="Sentences of film reviews with the mean of 20 ratings",
    licence="MIT (vaderSentiment); the sentences are quoted from reviews",
    origin=(
        "Python package vaderSentiment 3.3.2 (source), https://github.com/cjhutto/vaderSentiment"
    ),
    sha256="03be35cbec94a30fb5c5e3acc3cf795eb44c5614380521ffb0a1e12d11b209de",
    file="movie-reviews.tsv.xz",
)
NUM_SENTENCES = 10_605
LEAST_RATING = 0.5  # smallest absolute rating that is used


class MovieReviews(TextClassification):
    """Classification of sentences as negative (0) or positive (1)."""

    name = "movie_reviews"
    source = SOURCE
    output_size = 2

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the rated sentences of all splits, without neutral ones."""
        rated = read_sentences()
        return split_texts(
            [(text, int(rating > 0)) for rating, text in rated if abs(rating) >= LEAST_RATING]
        )


def read_sentences() -> list[tuple[float, str]]:
    """Return the mean rating and the text of each sentence, in the order of the file.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    try:
        lines = read_content(SOURCE).decode().removesuffix("\n").split("\n")
        fields = [line.split("\t") for line in lines]
        sentences = [(float(rating), text) for rating, text in fields]
    except ValueError as error:  # not UTF-8, not two fields, not a number
        raise malformed(
            SOURCE, f"a line that is not a rating, a tab and a sentence ({error})"
        ) from error
    if len(sentences) != NUM_SENTENCES:
        found = f"{len(sentences)} sentences where {NUM_SENTENCES} are expected"
        raise malformed(SOURCE, found)
    return sentences
