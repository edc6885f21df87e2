"""Language modelling of enwik8: the first 100 million bytes of the English Wikipedia of March 2006.

The split is the usual one: the first 90 million bytes for training, the next 5 million for
validation, the last 5 million for test, so bits per byte compare with published ones. To be quick,
only the first 524,288 bytes of the validation part are scored; in the test part all bytes are
scored except the first, which is context only. Windows are those of `text_windows`, so a byte has 1
to `length` bytes of context, whereas published evaluations often give each a full window.

The file does not ship: `bakeoff data fetch enwik8` downloads it.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from functools import cache
from typing import ClassVar

import numpy as np

from bakeoff.suite.tasks.bases.text_windows import Corpus, TextWindows
from bakeoff.suite.tasks.data_files import malformed, read_verified
from bakeoff.suite.tasks.public.sets import source_of
from bakeoff.suite.tasks.task import Split

SOURCE = source_of("enwik8")
NUM_BYTES = 100_000_000
NUM_HELD_OUT = 5_000_000


class Enwik8(TextWindows):
    """Prediction of the next byte, scored in bits per byte."""

    name = "enwik8"
    source = SOURCE
    num_scored: ClassVar[Mapping[Split, int]] = {"validation": 524_288, "test": NUM_HELD_OUT - 1}

    @staticmethod
    @cache
    def read() -> Corpus:
        """Return the bytes of all splits, read once per process."""
        try:
            with zipfile.ZipFile(io.BytesIO(read_verified(SOURCE))) as archive:
                content = archive.read("enwik8")
        except (zipfile.BadZipFile, KeyError) as error:
            raise malformed(SOURCE, f"no zip archive of enwik8 ({error})") from error
        if len(content) != NUM_BYTES:
            raise malformed(SOURCE, f"{len(content)} bytes where {NUM_BYTES} are expected")
        text = np.frombuffer(content, dtype=np.uint8)
        first_validation = NUM_BYTES - 2 * NUM_HELD_OUT
        training, validation, test = np.split(text, [first_validation, NUM_BYTES - NUM_HELD_OUT])
        return Corpus(training=training, held_out={"validation": (validation,), "test": (test,)})
