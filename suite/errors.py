"""Error classes with their exit codes, and functions that make text safe for messages."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from bakeoff.models.errors import did_you_mean
from bakeoff.suite.schema import Status

DONE = 0
USAGE = 2  # wrong usage or specification, refused before anything ran
REFUSED = 3  # refused for safety
UNAVAILABLE = 4  # something outside is unavailable
FAILED = 5  # ended, but a trial failed, some were left, or `verify` found a difference
INTERRUPTED = 130  # resumable

MOST_CHARACTERS = 2_000  # in a message: its beginning and its end are shown
_CHARACTERS_OF_THE_END = 400
MOST_OF_A_REASON, MOST_OF_A_TEXT = 4_000, 100_000  # characters that a result keeps
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # and lone surrogates
# Torch's profiler prints a message at every use, unless this is set before torch is imported.
QUIET = {"KINETO_LOG_LEVEL": "5"}
# A full disk, a quota, a file or file system that is read-only or broken: neither a bug nor a
# mistake of the user.
_OF_THE_DISK = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM}
)
_MOST_ALLOWED = 20  # names that are listed although a similar one was found
_LISTED = {
    "ablation": "`bakeoff list` shows",
    "task": "`bakeoff list --tasks` shows",
    "public data set": "`bakeoff data list` shows",
}
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory")


class UsageError(ValueError):
    """Raised for a wrong command or specification, before anything runs."""

    exit_code: ClassVar[int] = USAGE


class RefusedError(ValueError):
    """Raised if the user asked for something unsafe."""

    exit_code: ClassVar[int] = REFUSED


class UnavailableError(RuntimeError):
    """Raised if something outside this program is missing or does not answer."""

    exit_code: ClassVar[int] = UNAVAILABLE


class NotRecorded(UnavailableError):
    """Raised if the results of a sweep could not be recorded or reported; the journal keeps them.

    Attributes:
        outcome: The `SweepOutcome`, as the sweep would have returned it.
    """

    def __init__(self, sentence: str, outcome: Any) -> None:
        super().__init__(sentence)
        self.outcome = outcome


class Diverged(ArithmeticError):
    """Raised if a number of a trial is NaN or infinite: a finding about the variant, not a bug."""


class TrialTimeout(BaseException):
    """Raised if a trial runs longer than its limit.

    This is not an `Exception`, so that an `except Exception` in user code does not catch it.
    """


class CaptureFailed(BaseException):
    """Raised if a GPU could not capture a step as a graph; the process cannot be used further.

    This is not an `Exception`, because it is not the result of the trial, which starts again in
    another process.
    """


class CheckpointError(Exception):
    """Raised if a training cannot be saved, or cannot resume from a checkpoint; one clause."""


def exit_code_of(error: Exception) -> int | None:
    """Return the `exit_code` that one of our classes declares, or None for any other error.

    An error of writing to the disk also has one, wherever it occurred. `models` and `reports` do
    not import the suite, so their errors declare the attribute themselves. Classes of libraries are
    ignored, because click's also have an `exit_code`.
    """
    for kind in type(error).__mro__:
        if kind.__module__.startswith("bakeoff.") and "exit_code" in vars(kind):
            return int(vars(kind)["exit_code"])
    return UNAVAILABLE if _is_of_the_disk(error) else None


def said_of(error: Exception) -> str:
    """Return the message of an error with an exit code on the command line: one sentence."""
    if not (isinstance(error, OSError) and _is_of_the_disk(error)):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}; once that is corrected, the same command continues."


def _is_of_the_disk(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _OF_THE_DISK


def classified(error: BaseException) -> tuple[Status, str]:
    """Return the status and the reason, one sentence, of a trial that raised this exception."""
    if isinstance(error, Diverged):
        return Status.DIVERGED, str(error)
    if isinstance(error, TrialTimeout):
        return Status.TIMEOUT, str(error)
    said = words_of(error)
    sentence = said.splitlines()[0]
    if isinstance(error, MemoryError) or any(sign in said for sign in _OUT_OF_MEMORY):
        return Status.OUT_OF_MEMORY, sentence
    return Status.ERROR, sentence


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> str:
    """Return one sentence for a name that is not allowed, with the most similar names.

    All allowed names follow, unless there are many and a similar one was found.

    Example: ``no ablation 'heds'; did you mean 'heads'? Allowed: complexity, heads.``
    """
    names = sorted(allowed)
    hint = did_you_mean(name, names)
    if hint and len(names) > _MOST_ALLOWED and kind != "probe":  # no page lists probes
        where = _LISTED.get(kind, "docs/catalogue.md lists")
        return f"no {kind} {name!r}{hint} {where} all {len(names)}."
    return f"no {kind} {name!r}{hint or '.'} Allowed: {', '.join(names) or 'none'}."


def one_line(text: str) -> str:
    r"""Return the text with unprintable characters escaped: a line break becomes ``\n``."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def message(text: str) -> str:
    """Return the text on one line, without its middle if it is very long."""
    if len(text) > MOST_CHARACTERS:
        start = MOST_CHARACTERS - _CHARACTERS_OF_THE_END
        text = f"{text[:start]} ... {text[-_CHARACTERS_OF_THE_END:]}"
    return one_line(text)


def writable(text: str, most: int = MOST_OF_A_TEXT) -> str:
    r"""Return the text in a form that every format and database can hold; idempotent.

    Control characters and lone surrogates are written as escapes, ``\x00`` and ``\udcff``, and the
    middle of a text that is too long is left out.
    """
    shown = _CONTROL.sub(lambda found: one_line(found[0]), _cut(text, most).replace("\r\n", "\n"))
    return _cut(shown, most)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    start, end = most // 2, most // 3
    left_out = len(text) - start - end
    return f"{text[:start]} ... ({left_out:,} characters are left out) ... {text[-end:]}"


def words_of(error: BaseException) -> str:
    """Return a text like ``KeyError: 'x'``, also for an error whose `str` fails."""
    try:
        said = str(error)
    except Exception:
        said = "(its message is not available)"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def ensure_home() -> None:
    """Set HOME if neither it nor passwd names a home, which MLflow, Ray and torch require.

    It is a folder in the temporary one that no other user can read.
    """
    try:
        Path.home()
    except RuntimeError:
        home = Path(tempfile.gettempdir(), f"bakeoff-home-{os.getuid()}")
        with suppress(OSError):
            home.mkdir(mode=0o700)
        found = home.lstat() if home.exists() else None
        is_own = found is not None and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        os.environ["HOME"] = str(home) if is_own else tempfile.mkdtemp(prefix="bakeoff-home-")
        os.environ.setdefault("USER", f"uid-{os.getuid()}")  # otherwise getpass asks passwd


def be_quiet() -> None:
    """Set `QUIET` for this process and its children, unless the user has set it."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
