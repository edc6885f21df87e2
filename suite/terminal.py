"""Prepares standard output and error, which may be closed, lose their reader, or lack characters.

Without this a question with an accent, a minus sign, a closed pipe or a closed terminal would end a
command with a traceback.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import shutil
import stat
import sys
import textwrap
import unicodedata
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_HANDLER = "bakeoff.nearest"
# What carries meaning in our tables. Other letters lose their accents, other signs become "?".
_NEAREST = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": "x", "·": "*", "÷": "/", "±": "+/-",
    "∓": "-/+", "→": "->", "←": "<-", "↑": "^", "↓": "v", "⇒": "=>", "↔": "<->", "≥": ">=",
    "≤": "<=", "≈": "~", "∼": "~", "≠": "!=", "≫": ">>", "≪": "<<", "≡": "==", "∞": "inf",
    "√": "sqrt", "µ": "u", "μ": "u", "°": " deg", "…": "...", "’": "'", "‘": "'", "“": '"',
    "”": '"', "„": '"', "†": "+", "‡": "++", "§": "section ", "¶": "para. ", "•": "*", "€": "EUR",
    "£": "GBP", "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "ł": "l",
    "Ł": "L", "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "Δ": "Delta", "∆": "Delta",
    "ε": "epsilon", "λ": "lambda", "π": "pi", "σ": "sigma", "τ": "tau", "φ": "phi", "∑": "sum",
    "█": "#", "━": "-", "─": "-", "│": "|", "✓": "ok", "✔": "ok", "✗": "x", "✘": "x", "\xa0": " ",
}  # fmt: skip


def prepare_output() -> None:
    """Let `print` to standard output and error always succeed.

    - A character that the encoding lacks becomes the nearest that ASCII has.
    - What is written to a stream that is closed, whose reader has left, or whose terminal is gone,
      is dropped.
    """
    _open_missing()
    codecs.register_error(_HANDLER, _nearest)
    sys.stdout = _lasting(sys.stdout, 1)
    sys.stderr = _lasting(sys.stderr, 2)


def print_line(line: str, file: TextIO | None = None) -> None:
    """Print a line; on a terminal that is narrower it is broken between words and indented."""
    file = file or sys.stdout
    if file.isatty():
        own = len(line) - len(line.lstrip())
        line = textwrap.fill(
            line,
            max(20, shutil.get_terminal_size().columns),
            subsequent_indent=" " * (own + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
    print(line, file=file)


def _open_missing() -> None:
    """Open the null device in place of a closed stream, whose number another file would get."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _lasting(stream: TextIO | None, number: int) -> TextIO:
    """Return a stream to the same file that survives the end of its reader."""
    if stream is None:  # it was closed when this program started
        return io.TextIOWrapper(io.BufferedWriter(_Output(number)), "utf-8", _HANDLER)
    if type(stream) is not io.TextIOWrapper:  # somebody captures the output
        return stream
    stream.flush()
    # Python's own unbuffered streams (PYTHONUNBUFFERED) write through to a file without a buffer.
    # Ours keeps one, since only that repeats a write that was cut short, so it is flushed by lines.
    by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(number)), stream.encoding, _HANDLER, line_buffering=by_line
    )


class _Output(io.FileIO):
    """Standard output or error, which turns to the null device once nobody reads it any more."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self._is_device = stat.S_ISCHR(os.fstat(number).st_mode)  # such as a terminal

    def write(self, content: ReadableBuffer) -> int:
        """Write, or drop the content."""
        try:
            return super().write(content)
        except OSError as error:
            is_gone = error.errno == errno.EPIPE or (error.errno == errno.EIO and self._is_device)
            if not is_gone:  # such as a full disk
                raise
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)
        return memoryview(content).nbytes


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for the characters that cannot be encoded; see `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(map(in_ascii, lacking)), error.end


def in_ascii(character: str) -> str:
    """Return the nearest that ASCII has for a character; "?" where nothing is near."""
    if character.isascii():
        return character
    if character in _NEAREST:
        return _NEAREST[character]
    parts = unicodedata.normalize("NFKD", character)
    return "".join(part for part in parts if part.isascii()) or "?"
