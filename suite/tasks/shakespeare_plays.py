"""Long text classification: which of 38 plays of Shakespeare a window of bytes is from.

The task follows "Text" of the Long Range Arena (Tay et al. 2020, arXiv:2011.04006), which reads
film reviews byte by byte: the evidence is spread over the window, and a model must first combine
bytes into words. Any length up to 8,192 is possible; longer windows hold more evidence.

    split        acts               windows
    training     I, III, V          at random positions within an act, each play equally often
    validation   II                 16 of each play, evenly spaced from the act's start to its end
    test         IV                 32 of each play, spaced in the same way

Whole acts are held out, so no passage occurs in two splits. The evidence is specific to the play:
above all the names of speakers, besides style and subject. The classes are equally frequent:
majority and chance are 1 in 38. If 16 or 32 windows together are longer than the act, they overlap,
and are then less informative than as many separate ones. Runs of line ends are collapsed to one,
and the long dash, which occurs in only one play, is replaced by two hyphens; otherwise layout would
distinguish plays. Titles and the headings of acts are left out; prologues and epilogues belong to
the act that contains them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from bakeoff.suite.tasks.bases.text_windows import BYTES_AS_TEXT
from bakeoff.suite.tasks.data_files import malformed
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.shakespeare_characters import NUM_PLAYS, SOURCE, read_plays
from bakeoff.suite.tasks.task import Batch, Split, Task

NUM_ACTS = 5
TRAINING_ACTS = (0, 2, 4)
HELD_OUT_ACT: Mapping[Split, int] = {"validation": 1, "test": 3}
WINDOWS_PER_PLAY: Mapping[Split, int] = {"validation": 16, "test": 32}
_HEADING = re.compile(r"^ACT [IV]+\b.*\n", re.MULTILINE)
_LINE_ENDS = re.compile(r"\n+")

Acts = tuple[NDArray[np.uint8], ...]  # the acts of one play


class ShakespearePlays(Task):
    """Classification of windows by the play that they are from."""

    name = "shakespeare_plays"
    architecture = "classifier"
    asks_for = "class"
    source = SOURCE
    floors = ("uniform", "majority", "tf_idf")
    lengths = (1, 8_192)
    token_name = "bytes"
    input_size = 128  # the text is ASCII
    output_size = NUM_PLAYS
    characters = BYTES_AS_TEXT[:128]

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        """Draw the play uniformly, then a uniform position within its training acts."""
        stream, plays = RandomStream(seed, step), acts()
        labels = stream.integers(batch, low=0, high=NUM_PLAYS)
        drawn = stream.bits(batch)
        windows = [
            self._window(plays[label], int(at)) for label, at in zip(labels, drawn, strict=True)
        ]
        return _batch(windows, labels)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        """Yield play by play the windows of its act, from the first to the last."""
        count, act = WINDOWS_PER_PLAY[split], HELD_OUT_ACT[split]
        for first in range(0, NUM_PLAYS * count, batch):
            chosen = range(first, min(first + batch, NUM_PLAYS * count))
            labels = np.array(chosen) // count
            windows = []
            for label, index in zip(labels, chosen, strict=True):
                text = acts()[label][act]
                start = (len(text) - self.length) * (index % count) // (count - 1)
                windows.append(text[start : start + self.length])
            yield _batch(windows, labels)

    def _window(self, of_play: Acts, drawn: int) -> NDArray[np.uint8]:
        """Return the window at one of all start positions of the training acts, laid end to end."""
        texts = [of_play[act] for act in TRAINING_ACTS]
        num_starts = [len(text) - self.length + 1 for text in texts]
        start = drawn % sum(max(0, num) for num in num_starts)
        for text, num in zip(texts, num_starts, strict=True):
            if start < num:
                return text[start : start + self.length]
            start -= max(0, num)
        raise AssertionError("the start lies in one of the acts")


@cache
def acts() -> tuple[Acts, ...]:
    """Return the acts of all plays, read once per process.

    Raises:
        TaskError: if the data file is missing, altered or malformed.
    """
    return tuple(_acts(name, text) for name, text in read_plays().items())


def _acts(name: str, text: str) -> Acts:
    _, *found = _HEADING.split(text)
    if len(found) != NUM_ACTS:
        raise malformed(SOURCE, f"{len(found)} acts of {name} where {NUM_ACTS} are expected")
    plain = (_LINE_ENDS.sub("\n", act.strip().replace("\u2014", "--")) for act in found)
    return tuple(np.frombuffer(act.encode("ascii"), dtype=np.uint8) for act in plain)


def _batch(windows: list[NDArray[np.uint8]], labels: NDArray[np.int64]) -> Batch:
    inputs = torch.from_numpy(np.stack(windows).astype(np.int64))
    return Batch(inputs={"inputs": inputs}, targets=torch.from_numpy(labels))
