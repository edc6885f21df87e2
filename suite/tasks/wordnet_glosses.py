"""Topic classification: which of 26 kinds of noun a dictionary's gloss explains.

The texts are definitions of noun senses of WordNet 3.0 (Fellbaum 1998) without their examples and
without the noun; the class is the sense's lexicographer file, or "supersense" (Ciaramita and
Johnson 2003): act, animal, artifact, ..., time. The shipped file holds 48,000 of the 82,115, those
with the smallest SHA-256 of their definition. Words, vocabulary and splits are those of
`labelled_texts`.

The classes are of unequal size: the largest has one text in seven. TF-IDF of the words with
logistic regression reaches 77 %.
"""

from __future__ import annotations

from functools import cache

from bakeoff.suite.tasks.bases.labelled_data import LabelledData
from bakeoff.suite.tasks.bases.labelled_texts import TextClassification, split_texts
from bakeoff.suite.tasks.data_files import malformed, read_content
from bakeoff.suite.tasks.task import DataSource

SOURCE = DataSource(
    name="wordnet_glosses",
    title="48,000 definitions of nouns from WordNet 3.0, with their supersenses",
    licence="WordNet 3.0 licence",
    origin="Debian package wordnet-base 1:3.0-37, https://wordnet.princeton.edu",
    sha256="9740a5ed72b3ba066c9e0d289c7714d565462148f2b5765f845ec0d7b8b676d6",
    file="wordnet-glosses.tsv.xz",
)
NUM_GLOSSES = 48_000
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


class WordnetGlosses(TextClassification):
    """Classification of definitions by supersense, its index in `SUPERSENSES`."""

    name = "wordnet_glosses"
    source = SOURCE
    output_size = len(SUPERSENSES)

    @staticmethod
    @cache
    def data() -> LabelledData:
        """Return the definitions of all splits, read once per process."""
        classes = {name: index for index, name in enumerate(SUPERSENSES)}
        return split_texts([(gloss, classes[name]) for name, gloss in read_glosses()])


def read_glosses() -> list[tuple[str, str]]:
    """Return the supersense and the definition of each sense, in the order of the file.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    try:
        lines = read_content(SOURCE).decode().removesuffix("\n").split("\n")
        glosses = [(name, gloss) for name, gloss in (line.split("\t") for line in lines)]
    except ValueError as error:  # not UTF-8, not two fields
        problem = f"a line that is no supersense, tab and definition ({error})"
        raise malformed(SOURCE, problem) from error
    unknown = sorted({name for name, _ in glosses} - set(SUPERSENSES))
    if len(glosses) != NUM_GLOSSES or unknown:
        raise malformed(
            SOURCE,
            f"{len(glosses)} definitions where {NUM_GLOSSES} are expected"
            + (f", and {', '.join(unknown)} among the supersenses" if unknown else ""),
        )
    return glosses
