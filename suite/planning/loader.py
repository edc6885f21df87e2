"""Load ablations: the shipped ones by name, a user's own by path.

A user's file, and the module of a mixer, are programs: they are executed in this process, for at
most ten seconds. This protects against mistakes, not against malicious code: a program can do
everything that its user can.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    chdir,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass
from importlib.machinery import PathFinder
from itertools import chain
from pathlib import Path
from types import CodeType, ModuleType

from pydantic import ValidationError

from bakeoff.former_name import FORMER_NAME
from bakeoff.suite.errors import unknown_name, words_of, writable
from bakeoff.suite.places import NAME, PACKAGE
from bakeoff.suite.planning.own_modules import (
    RecordingLoader,
    forget_changed,
    recorded,
    refuse_hidden,
)
from bakeoff.suite.spec import Ablation, SpecError
from bakeoff.suite.spec.fields import is_record_name
from bakeoff.suite.text import IN_FILE, is_path, recorded_name
from bakeoff.suite.timeouts import import_time_limit

ALL = "all"
VALUE = Path("ABLATION")  # takes the place of the file for an ablation that has none
_MOST_BYTES = 1 << 20  # compiling takes a hundred times as much memory
_MOST_PRINTED = 2_000  # characters of the output of an import


@dataclass(frozen=True, kw_only=True)
class LoadedAblation:
    """An ablation and its origin.

    Attributes:
        name: The name under which it is recorded.
        ablation: The ablation.
        note: The docstring of its file, without line breaks within paragraphs.
        file: The file that defines it, or `VALUE`.
        source_paths: The folder of a user's own file, from which its modules are imported.
        shared_module: The module of the file, if its ablations have names of their own.
        options: The `--set` options that changed it, as written in a command; usually empty.
    """

    name: str
    ablation: Ablation
    note: str
    file: Path
    source_paths: tuple[str, ...] = ()
    shared_module: str = ""
    options: str = ""


def shipped() -> dict[str, Path]:
    """Return name -> file of every shipped ablation, without importing any."""
    files = sorted((PACKAGE / "ablations").resolve().glob("*.py"))
    return {p.stem: p for p in files if not p.name.startswith("_")}


def themes() -> dict[str, str]:
    """Return name -> theme of every shipped ablation, in the order in which they are listed."""
    table = importlib.import_module(f"{NAME}.ablations").THEMES
    return {name: theme for theme, names in table.items() for name in names}


def find(name: str) -> LoadedAblation:
    """Return the ablation of that name, or in that file.

    Raises:
        SpecError: If it does not exist, or if its file holds none or several.
    """
    first, *others = find_every(name)
    if others:
        raise SpecError(
            f"{name}: this file contains {first.name}, {', '.join(each.name for each in others)}; "
            f"choose one, as {name}{IN_FILE}{first.name}."
        )
    return first


def find_every(name: str) -> list[LoadedAblation]:
    """Return the ablation of that name, or each one in that file; ``FILE.py::NAME`` is one of them.

    Raises:
        SpecError: If there is none, or if the file is broken.
    """
    files = shipped()
    if name in files:
        return _entries(files[name], f"{NAME}.ablations.{name}", ())
    file, is_one, wanted = name.partition(IN_FILE)
    if is_path(file):
        entries = _own_file(Path(file), files)
        found = [each for each in entries if not is_one or each.name == wanted]
        if not found:
            known = unknown_name("ablation", wanted, (each.name for each in entries))
            raise SpecError(f"{file}: {known}")
        return found
    raise SpecError(
        unknown_name("ablation", name, files) + " Or give the path of your own file, ending in .py."
    )


def of_value(ablation: Ablation) -> LoadedAblation:
    """Return the ablation that a Python program defines, under its own name.

    Raises:
        SpecError: If its name is that of a shipped ablation, which is already used for records.
    """
    name = ablation.own_name
    _refuse_shipped(name, "Ablation")
    return LoadedAblation(name=name, ablation=ablation, note="", file=VALUE)


def _refuse_shipped(name: str, said: str) -> None:
    if name == ALL or name in shipped():
        what = "means every shipped ablation" if name == ALL else "is a shipped ablation"
        raise SpecError(f"{said}: name={name!r} {what}; rename your ablation.")


def find_all(names: Sequence[str]) -> list[LoadedAblation]:
    """Return the ablations of those names, each file once; `ALL` names every shipped one.

    Raises:
        SpecError: In the same cases as `find_every`; or if ablations of two files have one name,
            under which both would be recorded.
    """
    found: dict[str, LoadedAblation] = {}
    each = chain.from_iterable(shipped() if name == ALL else [name] for name in names)
    for entry in chain.from_iterable(map(find_every, each)):
        other = found.setdefault(entry.name, entry)
        if other.file != entry.file:
            raise SpecError(
                f"{entry.file} and {other.file} both have an ablation {entry.name!r}; rename one."
            )
    return list(found.values())


def recorded_as(names: Sequence[str]) -> dict[str, Path | None]:
    """Return the names under which ablations are recorded, each with its file if that exists.

    A file is imported to find its ablations. If it is gone or broken, it counts as a file with one
    ablation.
    """
    found: dict[str, Path | None] = {}
    for name in names:
        file = Path(name.partition(IN_FILE)[0])
        own = file if is_path(str(file)) and file.is_file() else None
        every = [recorded_name(name)]
        if own and IN_FILE not in name:
            try:
                every = [entry.name for entry in find_every(name)]
            except LeftThread:
                raise
            except SpecError:
                pass
        found |= dict.fromkeys(every, own)
    return found


def _own_file(path: Path, files: dict[str, Path]) -> list[LoadedAblation]:
    if not os.path.isfile(path):  # unlike Path.is_file, returns False for a name that is too long
        raise SpecError(f"{path}: no such ablation file.")
    path = path.resolve()
    if path in files.values():
        return _entries(path, f"{NAME}.ablations.{path.stem}", ())
    if path.suffix != ".py" or not is_record_name(path.stem):
        raise SpecError(
            f"{path}: the name of an ablation file must be that of its ablation: at most 64 "
            "lower-case letters, digits and underscores, ending in .py."
        )
    refuse_taken(path.stem, str(path), "rename the file")
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that it does not hide packages that other code imports
    _refuse_large(path)
    forget_changed()
    refuse_hidden(path)
    return _entries(path, path.stem, (folder,))


def refuse_taken(name: str, said: str, advice: str) -> None:
    """Raise if a user's file cannot have that name.

    Args:
        name: The name of the file, without ``.py``.
        said: The beginning of the error message.
        advice: Its end.

    Raises:
        SpecError: If a shipped ablation or another module has that name.
    """
    if name in shipped():
        raise SpecError(f"{said}: {name!r} is the name of a shipped ablation; {advice}.")
    if _shadows(name):
        raise SpecError(f"{said}: a Python module {name!r} exists already; {advice}.")


def _shadows(name: str) -> bool:
    """Return True if other code may import a module of that name, and would get this file."""
    if name in sys.stdlib_module_names or name in (NAME, FORMER_NAME):
        return True
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return PathFinder.find_spec(name, installed) is not None


def _entries(path: Path, module_name: str, source_paths: tuple[str, ...]) -> list[LoadedAblation]:
    module = _executed(path, module_name)
    paragraphs = writable(str(module.__doc__ or "").strip()).split("\n\n")
    note = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    found = _ablations_in(module, path)
    if set(found) == {"ABLATION"}:
        only = found["ABLATION"]
        if only.name not in (None, path.stem):
            raise SpecError(
                f"{path}: name={only.name!r}: the name of an ablation must be that of its file; "
                "omit name, or rename the file."
            )
        named, shared_module = {path.stem: only}, ""
    else:
        named, shared_module = _by_name(found, path), path.stem
    return [
        LoadedAblation(
            name=name,
            ablation=ablation,
            file=path,
            source_paths=source_paths,
            shared_module=shared_module,
            note=note,
        )
        for name, ablation in named.items()
    ]


def _executed(path: Path, module_name: str) -> ModuleType:
    """Run the file as a module and return it; explain each failure in one sentence."""
    loader = RecordingLoader(module_name, str(path))
    spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
    assert spec is not None, "it has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with guarded("the file"):
            # The loader would write bytecode beside the user's file.
            exec(_compiled(path, loader), vars(module))  # nosec  # B102: the file that the person asked us to run
    except (KeyboardInterrupt, LeftThread):
        raise
    except SyntaxError as error:
        place = f"{error.filename or path}:{error.lineno or 1}"
        raise SpecError(f"{place}: {error.msg}.") from None
    except SystemExit as error:
        raise SpecError(f"{path}: the file ends the program ({error!r}).") from error
    except BaseException as error:  # a program may raise anything
        raise SpecError(f"{_place(error, path)}: {_in_words(error)}") from error
    return module


def _refuse_large(path: Path) -> None:
    """Raise before anything parses the file, which takes seconds for a megabyte."""
    num_bytes = path.stat().st_size
    if num_bytes > _MOST_BYTES:
        raise SpecError(
            f"{path}: an ablation file may have at most {_MOST_BYTES} bytes; this one has "
            f"{num_bytes}."
        )


def _compiled(path: Path, loader: RecordingLoader) -> CodeType:
    try:
        loader.body = path.read_bytes()
        return compile(loader.body, str(path), "exec", dont_inherit=True)
    except (MemoryError, RecursionError):
        raise SpecError("an expression in the file is too deeply nested for Python.") from None


def _place(error: BaseException, path: Path) -> str:
    """Return the last line of the user's own file that the error passed through."""
    passed = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in passed if frame.f_code.co_filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _in_words(error: BaseException) -> str:
    # This is one of our objects that was modified after its creation.
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{error.title}: {'.'.join(map(str, first['loc']))}: {first['msg']}."
    said = str(error) if isinstance(error, SpecError) else words_of(error)
    missing = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and missing in ("models", "reports", "ablations"):
        return f"{said}. Bakeoff's own package of this name is now `{NAME}.{missing}`."
    return said


def _ablations_in(module: ModuleType, path: Path) -> dict[str, Ablation]:
    """Return variable -> ablation, each ablation once; variables with an underscore are private."""
    names = vars(module)
    found: dict[str, Ablation] = {}
    for name, value in names.items():
        # isinstance would call code of the value
        is_one = issubclass(type(value), Ablation) and not name.startswith("_")
        if is_one and all(value is not other for other in found.values()):
            found[name] = value
    if "ABLATION" in names and not issubclass(type(names["ABLATION"]), Ablation):
        value = names["ABLATION"]
        is_class = issubclass(type(value), type)
        kind = f"the class {value.__name__}" if is_class else f"of type {type(value).__name__}"
        raise SpecError(f"{path}: ABLATION is {kind}; it must be a bakeoff.Ablation.")
    if not found:
        raise SpecError(
            f"{path}: an ablation file must contain an Ablation, named ABLATION; this file "
            "contains no Ablation."
        )
    return found


def _by_name(found: dict[str, Ablation], path: Path) -> dict[str, Ablation]:
    """Return name -> ablation, for a file whose ablations have names of their own.

    Raises:
        SpecError: If one has no name, or a name that another or a shipped one has.
    """
    named: dict[str, Ablation] = {}
    for variable, ablation in found.items():
        name = ablation.name
        if name is None:
            holds = f"this file contains {', '.join(sorted(found))}"
            raise SpecError(
                f"{path}: {variable} has no name; give it Ablation(name=...), or call the only "
                f"one of a file ABLATION; {holds}."
            )
        if name in named:
            raise SpecError(
                f"{path}: name={name!r} is given to two ablations; give one of them another name."
            )
        _refuse_shipped(name, str(path))
        named[name] = ablation
    return named


class LeftThread(SpecError):
    """Raised if the user's code leaves a thread running that this process would wait for."""


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Import user code in the block, for a few seconds at most.

    Its output goes to stderr, because programs read our stdout, and is truncated if it is long. At
    the end, the working directory is restored, because `--out` is relative to it, and so are the
    settings of torch and of the process, because trials may run in this process.

    Args:
        what: The name of the code in a sentence, for example ``the file``.

    Raises:
        SpecError: If it does not finish in time.
        LeftThread: If it leaves a non-daemon thread running.
    """
    before = threading.enumerate()
    with (
        chdir("."),
        redirect_stdout(_Few()),
        recorded(),
        import_time_limit(what),
        _state_kept(),
    ):
        yield
    left = [each.name for each in threading.enumerate() if each not in before and not each.daemon]
    if left:
        raise LeftThread(
            f"{what} leaves the thread {left[0]!r} running, so commands could not end; do not "
            "start the thread, or make it a daemon."
        )


@contextmanager
def tried() -> Iterator[None]:
    """Call user code in the block; discard its output and restore the state that it changes."""
    with (
        open(os.devnull, "w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        recorded(),
        _state_kept(),
    ):
        yield


def _state_kept() -> AbstractContextManager[None]:
    """Restore global state after the block; do nothing if torch is not imported."""
    if "torch" not in sys.modules:
        return nullcontext()
    from bakeoff.suite.timing.global_state import state_restored

    return state_restored()


class _Few(io.TextIOBase):
    """A stream that passes the first characters on to stderr, then one line about the omission."""

    def __init__(self) -> None:
        self._left = _MOST_PRINTED

    def write(self, text: str) -> int:
        if self._left >= 0:
            sys.stderr.write(text[: self._left])
            self._left -= len(text)
            if self._left < 0:
                sys.stderr.write("\n(the rest of its output is omitted)\n")
        return len(text)

    def fileno(self) -> int:
        return sys.stderr.fileno()
