"""Make standard output and error robust to closed streams, lost readers and missing characters.

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
_NARROWEST = 20  # columns
# Characters that carry meaning in our tables. Other letters lose their accents, other characters
# become "?".
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

    - A character that the encoding lacks becomes the most similar ASCII text.
    - Output to a stream that is closed, whose reader has ended, or whose terminal is gone, is
      dropped.
    """
    _open_missing()
    codecs.register_error(_HANDLER, _nearest)
    sys.stdout = _lasting(sys.stdout, 1)
    sys.stderr = _lasting(sys.stderr, 2)


def terminal_width(file: TextIO | None = None) -> int | None:
    """Return the columns of the terminal, at least 20, or None if the output is not one."""
    is_terminal = (file or sys.stdout).isatty()
    return max(_NARROWEST, shutil.get_terminal_size().columns) if is_terminal else None


def print_line(line: str, file: TextIO | None = None, *, indent: int | None = None) -> None:
    """Print a line; on a narrower terminal it is wrapped between words and indented.

    Args:
        line: The line.
        file: A stream; by default standard output.
        indent: The indentation of further lines, if it leaves them 20 columns; by default two more
            than that of the line.
    """
    file = file or sys.stdout
    width = terminal_width(file)
    if width:
        own = len(line) - len(line.lstrip()) + 2
        line = textwrap.fill(
            line,
            width,
            subsequent_indent=" " * (indent if indent and indent + _NARROWEST <= width else own),
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
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def _lasting(stream: TextIO | None, number: int) -> TextIO:
    """Return a stream to the same file that survives the end of its reader."""
    if stream is None:  # it was closed when this program started
        return io.TextIOWrapper(io.BufferedWriter(_Output(number)), "utf-8", _HANDLER)
    if type(stream) is not io.TextIOWrapper:  # the output is captured, for example by a test
        return stream
    stream.flush()
    # Python's own unbuffered streams (PYTHONUNBUFFERED) write through to a file without a buffer.
    # Ours keeps one, because only a buffered writer repeats a write that was cut short, so it is
    # flushed by lines.
    by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(number)), stream.encoding, _HANDLER, line_buffering=by_line
    )


class _Output(io.FileIO):
    """Standard output or error, which switches to the null device once its reader is gone."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "wb", closefd=False)
        self._is_device = stat.S_ISCHR(os.fstat(number).st_mode)  # for example a terminal

    def write(self, content: ReadableBuffer) -> int:
        """Write the content, or drop it if the reader is gone."""
        try:
            return super().write(content)
        except OSError as error:
            is_gone = error.errno == errno.EPIPE or (error.errno == errno.EIO and self._is_device)
            if not is_gone:  # for example a full disk
                raise
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)
        return memoryview(content).nbytes


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of characters that cannot be encoded; see `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(map(in_ascii, lacking)), error.end


def in_ascii(character: str) -> str:
    """Return the most similar ASCII text for a character; "?" if there is none."""
    if character.isascii():
        return character
    if character in _NEAREST:
        return _NEAREST[character]
    parts = unicodedata.normalize("NFKD", character)
    return "".join(part for part in parts if part.isascii()) or "?"
