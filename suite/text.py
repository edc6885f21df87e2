"""Format durations, numbers of things and lists of names; parse durations and prices."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from bakeoff.suite.schema import Price
from bakeoff.suite.spec import SpecError

IN_FILE = "::"  # between a file and the name of one of its ablations

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([smh]?)")
_PRICE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([^\W\d_]{1,12}|[$€£¥]|)")
_SECONDS_PER_UNIT = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
_USER_INFO = re.compile(r"(?<=://)[^/\s?#'\"]+@")
_SECRET_FIELD = re.compile(r"(?i)\b((?:password|passwd|token|secret|api_?key)=)[^&\s'\"]+")


def in_words(seconds: float | None) -> str:
    """Format a duration, for example ``4 min 20 s``; "unknown time" for None."""
    if seconds is None:
        return "unknown time"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def command(*words: str, out: Path | None = None, tracking_uri: str | None = None) -> str:
    """Return a command to be typed here, for example ``bakeoff verify --repair --out elsewhere``.

    Args:
        words: The verb and its arguments. An ablation is named as the user typed it.
        out: The output folder; by default the one that the user typed.
        tracking_uri: The store; by default the one that the user typed.
    """
    typed = sys.argv[1:] if _program_is_ours() else []
    where = _typed_value("--out", typed) if out is None else str(out)
    uri = _typed_value("--tracking-uri", typed) if tracking_uri is None else tracking_uri
    files = {Path(word).stem: word for word in typed if word.endswith(".py")}
    verb, *others = words
    options = [*(["--out", where] if where not in ("", "out") else [])]
    options += ["--tracking-uri", redact(uri)] if uri else []
    return shlex.join([_program(), verb, *(files.get(word, word) for word in others), *options])


def _typed_value(option: str, typed: Sequence[str]) -> str:
    """Return the last value of an option among the words of a command line; "" if it has none."""
    found = [after for word, after in pairwise(typed) if word == option]
    found += [word.partition("=")[2] for word in typed if word.startswith(f"{option}=")]
    return found[-1] if found else ""


def _program_is_ours() -> bool:
    return Path(sys.argv[0]).name == "bakeoff"  # and not `python -m bakeoff.suite.cli`, in a job


def _program() -> str:
    """Return how this program was called, unless its plain name finds the same program."""
    called, found = sys.argv[0], shutil.which("bakeoff")
    if not _program_is_ours() or (found and Path(found).resolve() == Path(called).resolve()):
        return "bakeoff"
    return min(called, os.path.relpath(called), key=len)


def number_of(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, for example ``1 difference`` or ``4 trials``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def some_of(names: Sequence[str], most: int, separator: str = "; ") -> str:
    """Join names, for example ``a; b; and 25 more``."""
    more = len(names) - most
    return separator.join((*names[:most], *[f"and {more:,} more"] * (more > 0)))


def seconds_in(text: str, option: str) -> float:
    """Parse a duration, for example ``90``, ``90s``, ``1.5m`` or ``2h``.

    Args:
        text: The text as typed.
        option: The option that it was given for; the error message names it.

    Raises:
        SpecError: For any other text, and for a duration of 0.
    """
    found = _DURATION.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS_PER_UNIT[found[2]] if found else 0.0
    if not seconds:
        raise SpecError(f"{option} {text!r}: give seconds above 0, or minutes or hours as 30m, 2h.")
    return seconds


def price_in(text: str | None) -> Price | None:
    """Parse ``--price``, ``2.50`` or ``2.50 USD`` per hour; return None if it is not given.

    Raises:
        SpecError: For any other text, and for a price of 0.
    """
    if text is None:
        return None
    found = _PRICE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise SpecError(
            f"--price {text!r}: give the price of an hour above 0, and a currency if you like, "
            "as '2.50 USD'."
        )
    return Price(amount=float(found[1]), currency=found[2])


def energy_in_words(joules: float) -> str:
    """Format an energy, for example ``3.21 kWh``, ``45.2 kJ`` or ``7.5 J``."""
    # Entries are (from this many joules on, joules per unit, unit).
    units = ((3.6e5, 3.6e6, "kWh"), (1e3, 1e3, "kJ"), (0.0, 1.0, "J"))
    worth, unit = next((worth, unit) for least, worth, unit in units if joules >= least)
    return f"{joules / worth:.3g} {unit}"


def flops_in_words(flops: float) -> str:
    """Format a number of floating-point operations, for example ``2.209 TFLOP``."""
    power = min(len(_PREFIXES) - 1, int(math.log10(max(1.0, flops)) // 3))
    return f"{flops / 1000**power:.4g} {_PREFIXES[power]}FLOP"


def in_money(amount: float, currency: str) -> str:
    """Format a sum of money, for example ``30.75 USD``; never 0 for a positive one."""
    text = "less than 0.01" if 0 < amount < 0.01 else f"{amount:,.2f}"
    return f"{text} {currency}".rstrip()


def redact(text: str) -> str:
    """Replace what is before the @ of a URI, and fields such as password=, by ``***``."""
    return _SECRET_FIELD.sub(r"\1***", _USER_INFO.sub("***@", text))


def short(trial_id: str) -> str:
    """Return the beginning of an id, by which `bakeoff logs` finds the trial."""
    return trial_id[:8]


def recorded_name(name: str) -> str:
    """Return the name under which an ablation is recorded: its own, or that of its file.

    `name` is a name, a file, or an ablation in a file: ``heads``, ``mine.py``, ``mine.py::wider``.
    """
    file, _, one = name.partition(IN_FILE)
    return one or (Path(file).stem if is_path(file) else file)


def is_path(name: str) -> bool:
    """Return True if a command means a file by that name, not a shipped ablation."""
    return name.endswith(".py") or "/" in name
