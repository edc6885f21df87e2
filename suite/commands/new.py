"""`bakeoff new`: write a file to start from, an ablation, a mixer, an architecture or a task."""

from __future__ import annotations

import keyword
import os
import re
import shlex
from pathlib import Path

from bakeoff.suite.errors import DONE, message, unknown_name
from bakeoff.suite.places import PACKAGE
from bakeoff.suite.planning.loader import ALL, refuse_taken, shipped
from bakeoff.suite.spec import SpecError
from bakeoff.suite.spec.fields import is_record_name


def new(kind: str, name: str, copied_from: str | None = None) -> int:
    """Write NAME.py into the current folder, and print the next command; return the exit code.

    Args:
        kind: ``ablation``, ``mixer``, ``architecture`` or ``task``.
        name: The name of the file without ``.py``, and of the ablation in it.
        copied_from: A shipped ablation to copy, in place of the usual file.

    Raises:
        SpecError: For a name that a file of an ablation cannot have, or that is taken; nothing is
            written then.
    """
    _refuse_bad(name)
    text = _text(kind, name) if copied_from is None else _copy(kind, name, copied_from)
    file = Path(f"{name}.py")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise SpecError(f"{file} exists already; choose another name, or remove it.") from None
    print(f"wrote {file}")
    print(f"next:  bakeoff run {shlex.quote(str(file))} --scale smoke")
    return DONE


def _refuse_bad(name: str) -> None:
    if not is_record_name(name):
        raise SpecError(
            f"NAME={message(name)!r} must have at most 64 lower-case letters, digits and "
            "underscores, a letter first, and no .py at the end."
        )
    if keyword.iskeyword(name):
        raise SpecError(f"NAME={name!r} is a keyword of Python, so its file cannot be imported.")
    if name == ALL:
        raise SpecError(f"NAME={name!r} means every shipped ablation; choose another name.")
    refuse_taken(name, f"NAME={name!r}", "choose another name")
    if os.path.isdir(name):
        raise SpecError(
            f"NAME={name!r}: a folder of this name would hide the file; choose another name."
        )


def _text(kind: str, name: str) -> str:
    """Return the file of that kind, with the name and a class of that name."""
    usual = f"my_{kind}"
    text = (PACKAGE / "templates" / f"{usual}.py").read_text("utf-8")
    own = _class_name(name)
    others = text.replace(_class_name(usual), "")
    if kind != "ablation" and re.search(rf"\b{own}\b", others):
        raise SpecError(
            f"NAME={name!r}: the class would be called {own}, which the file needs for something "
            "else; choose another name."
        )
    return text.replace(usual, name).replace(_class_name(usual), own)


def _class_name(name: str) -> str:
    """Return ``GatedAverage`` for ``gated_average``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _copy(kind: str, name: str, copied_from: str) -> str:
    if kind != "ablation":
        raise SpecError(f"--from copies a shipped ablation, so it is not for `bakeoff new {kind}`.")
    files = shipped()
    if copied_from not in files:
        raise SpecError(f"--from: {unknown_name('ablation', copied_from, files)}")
    first = f"# A copy of the shipped ablation `{copied_from}`, to be changed.\n"
    return first + files[copied_from].read_text("utf-8")
