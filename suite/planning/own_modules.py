"""Find the user's own code, record its text at import, and compute its identity.

A module is the user's own if it is neither installed nor part of this project. Imports are read
from the source, so that the same files have the same identity in every process. A file may be
edited between its import and the time when it is hashed; so the text is recorded at the import, and
compared with the file.

The folder of a user's file is the last entry of the import path, so that it does not affect the
imports of installed packages. A module in that folder that is hidden by another one of the same
name raises an error.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path, PurePosixPath
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING

from bakeoff.former_name import FORMER_NAME
from bakeoff.models.model_spec import content_hash
from bakeoff.models.registry import architecture_class, mixer_class, mixer_pattern
from bakeoff.suite.events import PlannedCode, PlannedModule
from bakeoff.suite.places import NAME, is_ours, program_folder
from bakeoff.suite.schema import Plan
from bakeoff.suite.schema.task_names import is_own_class, is_own_data
from bakeoff.suite.spec import SpecError
from bakeoff.suite.text import redact

if TYPE_CHECKING:
    from bakeoff.models import Architecture, Mixer, ModelSpec
    from bakeoff.suite.probes.probe import Probe
    from bakeoff.suite.tasks.own.data import Located
    from bakeoff.suite.tasks.task import Task

    Part = type[Mixer] | type[Architecture] | type[Task] | type[Probe]

_CLASS = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d]\w*")  # for example ``mine:Mixer``


class RecordingLoader(SourceFileLoader):
    """A loader that keeps the source bytes of a module, and does not write bytecode.

    Attributes:
        body: The source bytes, or None before the import.
    """

    body: bytes | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the compiled code of the file."""
        self.body = self.get_data(self.path)
        found: CodeType = self.source_to_code(self.body, self.path)
        return found


class _RecordingFinder(MetaPathFinder):
    """A finder of the user's modules that gives each a `RecordingLoader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top == NAME or top in sys.stdlib_module_names:
            return None
        if fullname == FORMER_NAME:
            spec = _on_path(fullname)
        else:
            spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader or not spec.origin:
            return None
        if is_installed(spec.origin):
            return None
        spec.loader = RecordingLoader(fullname, spec.loader.path)
        return spec


def _on_path(name: str) -> ModuleSpec | None:
    """Find a module; one of the user's takes precedence over the former name of this package."""
    if name != FORMER_NAME:
        return importlib.util.find_spec(name)
    for entry in sys.path:
        spec = PathFinder.find_spec(name, [entry])
        if spec and spec.origin and not is_installed(spec.origin):
            return spec
    return None


@contextmanager
def recorded() -> Iterator[None]:
    """Record the user's modules that are imported in the block."""
    finder = _RecordingFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def forget_changed() -> None:
    """Remove the modules that plans have imported from `sys.modules`, if one was edited since.

    All of them are removed, because a module that imports an edited one holds its old content.
    """
    specs = {name: getattr(each, "__spec__", None) for name, each in list(sys.modules.items())}
    loaders = {name: getattr(spec, "loader", None) for name, spec in specs.items()}
    ours = {name: each for name, each in loaders.items() if isinstance(each, RecordingLoader)}
    if any(map(_is_edited, ours.values())):
        for name in ours:
            del sys.modules[name]


def _is_edited(loader: RecordingLoader) -> bool:
    try:
        return loader.body is not None and loader.body != Path(loader.path).read_bytes()
    except OSError:
        return True


@cache
def is_installed(place: str) -> bool:
    """Return True for a file of an installed package, this one, or the standard library."""
    path = Path(place).resolve()
    if is_ours(path):
        return True
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or any(
        path.is_relative_to(Path(library).resolve()) for library in libraries
    )


def is_changed(module: ModuleType, body: bytes) -> bool:
    """Return True if the module was imported from other bytes than these.

    For a module that was not imported by a plan, only functions and methods are compared.
    """
    loader = getattr(module.__spec__, "loader", None)
    if isinstance(loader, RecordingLoader):
        return loader.body is not None and loader.body != body
    if type(loader) is not SourceFileLoader:  # another loader may have rewritten the text
        return False
    try:
        known = set(_codes_in(compile(body, loader.path, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return True
    found = (function.__code__ for function in _functions_of(vars(module), module.__name__))
    return any(code.co_filename == loader.path and code not in known for code in found)


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


def _functions_of(names: dict[str, object], module: str) -> Iterator[FunctionType]:
    for value in list(names.values()):
        plain = getattr(value, "__func__", getattr(value, "fget", value))  # a method, a property
        if isinstance(plain, FunctionType) and plain.__module__ == module:
            yield plain
        elif isinstance(value, type) and value.__module__ == module:
            yield from _functions_of(dict(vars(value)), module)


@dataclass(frozen=True)
class OwnModule:
    """A user's module, as its file holds it.

    Attributes:
        name: Its full name in Python.
        file: Its source file, or a compiled module.
        body: The content of the file.
        folders: The search path of a package, or None if it is not a package.
    """

    name: str
    file: Path
    body: bytes
    folders: tuple[str, ...] | None

    @property
    def is_source(self) -> bool:
        """False for a compiled module."""
        return self.file.suffix == ".py"

    @property
    def place(self) -> str:
        """The path of its file relative to the folder that it is imported from."""
        stem = self.name.replace(".", "/")
        return f"{stem}{self.file.suffix}" if self.folders is None else f"{stem}/__init__.py"

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree; empty if it has none."""
        try:
            return ast.parse(self.body) if self.is_source else ast.Module([], [])
        # The import reports the error.
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return ast.Module([], [])

    @property
    def imported(self) -> Iterator[str]:
        """Every module that it may import, and their parent packages."""
        package = self.name if self.folders is not None else self.name.rpartition(".")[0]
        for node in ast.walk(self.tree):
            for name in _imported_by(node, package):
                yield from with_parents(name)

    @property
    def computes_names(self) -> bool:
        """True if it imports a module whose name is not a literal."""
        calls = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        return any(_is_import(call) and _written(call) is None for call in calls)

    @property
    def texts(self) -> Iterator[str]:
        """Every string constant in it, for example ``mine:Mixer``."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def with_parents(name: str) -> Iterator[str]:
    """Yield the parent packages of a module, then the module."""
    parts = name.split(".")
    yield from (".".join(parts[: n + 1]) for n in range(len(parts)))


def _imported_by(node: ast.AST, package: str) -> Iterator[str]:
    """Yield full names of imports; a name imported from a module may be a module too."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            base = ".".join(filter(None, [*above, module]))
            yield from (base, *(f"{base}.{alias.name}" for alias in names))
        case ast.Call() if _is_import(node) and (written := _written(node)):
            relative = written.startswith(".") and package
            yield importlib.util.resolve_name(written, package) if relative else written


def _is_import(call: ast.Call) -> bool:
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    return name in ("import_module", "__import__") and bool(call.args)


def _written(call: ast.Call) -> str | None:
    first = call.args[0]
    is_text = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return str(first.value) if is_text else None  # type: ignore[attr-defined]


def reached(names: Iterable[str]) -> dict[str, OwnModule]:
    """Return the user's modules among these and all that they import, by name.

    If a module computes the name of an import, all modules of its package are included.

    Raises:
        SpecError: If a file was changed after it had been imported.
    """
    waiting = [each for name in names for each in with_parents(name)]
    seen: set[str] = set()
    found: dict[str, OwnModule] = {}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        module = _own_module(name) if _is_own(name.partition(".")[0]) else None
        if module is not None:
            found[name] = module
            waiting += module.imported
            waiting += _all_of_package(name) if module.computes_names else ()
    return dict(sorted(found.items()))


def _own_module(name: str) -> OwnModule | None:
    """Return the module, or None for a folder without ``__init__.py``, or if it is missing."""
    spec = _spec_of(name)
    if spec is None or not spec.has_location or not spec.origin:
        return None
    file = Path(spec.origin)
    try:
        body = file.read_bytes()
    except OSError as error:
        raise SpecError(f"{file}: the module {name} cannot be read: {error.strerror}.") from None
    module = sys.modules.get(name)
    if module is not None and is_changed(module, body):
        raise SpecError(
            f"{file} was changed after it had been imported; restart the program, so that the "
            "planned code is the code that runs."
        )
    folders = spec.submodule_search_locations
    return OwnModule(name, file, body, None if folders is None else tuple(folders))


def _spec_of(name: str) -> ModuleSpec | None:
    """Return the spec from which Python has imported the module, or would; do not import it."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__spec__", None)
    parent = name.rpartition(".")[0]
    if parent:
        above = _spec_of(parent)
        folders = above.submodule_search_locations if above else None
        return None if folders is None else PathFinder.find_spec(name, list(folders))
    try:
        return _on_path(name) if name else None
    except (ImportError, ValueError):
        return None


def _is_own(top: str) -> bool:
    """Return True if the file or folder is neither installed nor part of this project."""
    if top in (NAME, "__main__") or top in sys.stdlib_module_names:
        return False
    spec = _spec_of(top)
    if spec is None:
        return False
    folders = list(spec.submodule_search_locations or ())
    held = folders or ([spec.origin] if spec.has_location and spec.origin else [])
    return bool(held) and not any(map(is_installed, held))


def _all_of_package(name: str) -> Iterator[str]:
    top = name.partition(".")[0]
    spec = _spec_of(top)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in Path(folder).rglob("*.py"):
            parts = [top, *file.relative_to(folder).with_suffix("").parts]
            if all(part.isidentifier() for part in parts):
                yield ".".join(parts).removesuffix(".__init__")


def declared_files(kind: Part) -> dict[str, Path]:
    """Return the files that a class and its bases declare, by their places.

    Raises:
        SpecError: For a file that does not exist, or is not in the folder of its module.
    """
    found: dict[str, Path] = {}
    for base in kind.__mro__:
        names = vars(base).get("files", ())
        if not names:
            continue
        what = f"{base.__module__}:{base.__qualname__} declares files = {names!r}"
        module = _own_module(base.__module__)
        if not isinstance(names, (tuple, list)) or not all(isinstance(n, str) for n in names):
            raise SpecError(f"{what}; it must be a tuple of names, as ('words.txt',).")
        if module is None:
            raise SpecError(f"{what}, but its module has no file, so there is no folder for them.")
        for name in names:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise SpecError(f"{what}; {name!r} must be in the folder of its module or below.")
            file = module.file.parent / path
            if not file.is_file():
                why = "is a folder; name its files" if file.is_dir() else "does not exist"
                raise SpecError(f"{what}, and {file} {why}.")
            found[str(PurePosixPath(module.place).parent / path)] = file
    return found


def identity(name: str, kind: Part) -> str:
    """Return the hash of everything that a user's class consists of.

    This covers its module, the user's modules that it imports, and the files that the class
    declares.

    Raises:
        SpecError: In the same cases as `reached` and `declared_files`; or if its module has no
            file.
    """
    named = name.partition(":")[0]
    modules = reached([named, kind.__module__])
    files = declared_files(kind)
    if not modules:
        file = getattr(sys.modules[kind.__module__], "__file__", None)
        if file is None:
            raise SpecError(f"{name}: its module has no file; put the class into its own file")
        return _sha256(Path(file).read_bytes())[:16]
    if len(modules) == 1 and not files:
        return _sha256(*(module.body for module in modules.values()))[:16]
    digests = {module.place: _sha256(module.body) for module in modules.values()}
    digests |= {place: _sha256(_content(file)) for place, file in files.items()}
    return content_hash(sorted(digests.items()))[:16]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SpecError(f"{file}: it cannot be read: {error.strerror}.") from None


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def own_parts(plans: Iterable[Plan]) -> dict[str, Part]:
    """Return the user's classes that the trials of some plans name."""
    from bakeoff.suite.probes.probe import probe
    from bakeoff.suite.tasks.registry import task_class

    found: dict[str, Part] = {}
    for subject in {s.spelling: s for p in plans for t in p.trials for s in t.subjects}.values():
        for mixer in mixer_pattern(subject.mixer):
            found |= {mixer: mixer_class(mixer)} if ":" in mixer else {}
        if ":" in subject.architecture:
            found[subject.architecture] = architecture_class(subject.architecture)
    trials = [trial for plan in plans for trial in plan.trials]
    for name in dict.fromkeys(t.task for t in trials if is_own_class(t.task)):
        found[name] = task_class(name)
    for name in dict.fromkeys(t.probe for t in trials if is_own_class(t.probe)):
        found[name] = type(probe(name))
    return found


def own_data_of(plans: Iterable[Plan]) -> dict[str, Located]:
    """Return where the user's own data are that trials of some plans use, by their spelling.

    Raises:
        SpecError: If the data were changed after they had been planned.
    """
    from bakeoff.suite.tasks.own.data import located

    found: dict[str, Located] = {}
    for trial in (trial for plan in plans for trial in plan.trials if is_own_data(trial.task)):
        place = found.setdefault(trial.task, located(trial.task))
        if place.sha256 != trial.task_digest:
            raise SpecError(
                f"{trial.task}: {place.path} was changed after it had been planned, or two "
                "ablations read different files under this name; run the same command again, or "
                "one ablation at a time."
            )
    return found


def own_files(plans: Sequence[Plan]) -> dict[str, tuple[Path, bytes]]:
    """Read all user files that plans depend on: modules, classes, and the files these declare.

    Returns:
        The path and content of each file, by its place.
    """
    modules = _reached_by(plans).values()
    found = {module.place: (module.file, module.body) for module in modules}
    for kind in own_parts(plans).values():
        found |= {place: (file, _content(file)) for place, file in declared_files(kind).items()}
    return dict(sorted(found.items()))


def source_of(plan: Plan) -> dict[str, str]:
    """Return the text of the user's files that define a plan, by place.

    Passwords in addresses are removed. A declared file is represented by its digest.
    """
    return {
        place: redact(body.decode(errors="backslashreplace"))
        if place.endswith(".py")
        else f"sha256 {_sha256(body)}\n"
        for place, (_, body) in own_files([plan]).items()
    }


def own_packages(plans: Sequence[Plan]) -> dict[str, tuple[str, ...]]:
    """Return the user's packages that plans need, with their folders, by their top-level names."""
    tops = {name.partition(".")[0] for name in _reached_by(plans)}
    specs = {top: _spec_of(top) for top in sorted(tops)}
    return {
        top: tuple(spec.submodule_search_locations)
        for top, spec in specs.items()
        if spec is not None and spec.submodule_search_locations is not None
    }


def _reached_by(plans: Sequence[Plan]) -> dict[str, OwnModule]:
    """Return all modules that plans depend on; a string also names a module if it was imported."""
    waiting = _named_in(plans)
    found: dict[str, OwnModule] = {}
    while waiting:
        new = {k: v for k, v in reached(waiting).items() if k not in found}
        found |= new
        texts = {text.partition(":")[0] for module in new.values() for text in module.texts}
        waiting = [text for text in sorted(texts) if text in sys.modules and text not in found]
    return found


def _named_in(plans: Sequence[Plan]) -> list[str]:
    files = [plan.own_module for plan in plans if plan.own_module]
    return [*files, *_modules_of(own_parts(plans))]


def _modules_of(parts: dict[str, Part]) -> list[str]:
    """Return the module that each class is named in, and the one that defines it."""
    return [
        module
        for name, kind in parts.items()
        for module in (name.partition(":")[0], kind.__module__)
    ]


def planned_code(plans: Sequence[Plan]) -> PlannedCode | None:
    """Return the user's code that the trials of some plans run, or None if there is none.

    Raises:
        SpecError: If the code differs from what was planned, or if a file was changed meanwhile.
    """
    parts, data = own_parts(plans), own_data_of(plans)
    if not parts and not data:
        return None
    modules = reached(_modules_of(parts))
    planned = {name: _planned(module) for name, module in modules.items()}
    for name in {parent for each in modules for parent in with_parents(each)} - planned.keys():
        spec = _spec_of(name)
        folders = tuple(spec.submodule_search_locations or ()) if spec else ()
        planned[name] = PlannedModule(file="", source=None, folders=folders)
    files = [*(module.file for module in modules.values() if not module.is_source)]
    files += [file for kind in parts.values() for file in declared_files(kind).values()]
    code = PlannedCode(
        modules=planned,
        digests={str(file): _sha256(_content(file)) for file in files},
        folders=_users_folders(plans),
        data={name: (str(place.path), place.sha256) for name, place in data.items()},
    )
    refuse_unplanned(plans)
    return code


def _planned(module: OwnModule) -> PlannedModule:
    source = importlib.util.decode_source(module.body) if module.is_source else None
    return PlannedModule(file=str(module.file), source=source, folders=module.folders)


def _users_folders(plans: Iterable[Plan]) -> tuple[str, ...]:
    """Return the folders of ablation files; the program's and the current one if on the path."""
    found = [folder for plan in plans for folder in plan.source_paths]
    path = {str(Path(entry).resolve()) for entry in sys.path}
    found += [folder for folder in (str(Path.cwd()), program_folder()) if folder in path]
    return tuple(dict.fromkeys(folder for folder in found if not is_installed(folder)))


def refuse_unplanned(plans: Sequence[Plan]) -> None:
    """Raise if a class has other content than when it was planned.

    Raises:
        SpecError: The message names the class.
    """
    now = {name: identity(name, kind) for name, kind in own_parts(plans).items()}
    for trial in (trial for plan in plans for trial in plan.trials):
        for key, version in trial.versions.items():
            name = key.partition(" ")[2]
            if name in now and version != now[name]:
                raise SpecError(
                    f"{name}: its code, or a file that it declares, was changed after it had been "
                    "planned; run the same command again."
                )


def refuse_hidden(path: Path) -> None:
    """Raise if the file imports a module of its folder that Python finds elsewhere.

    Raises:
        SpecError: The message names both places.
    """
    waiting, seen = [(path.stem, path)], {path.stem}
    while waiting:
        name, file = waiting.pop()
        is_package = file.name == "__init__.py"
        module = OwnModule(
            name, file, file.read_bytes(), (str(file.parent),) if is_package else None
        )
        for wanted in (*module.imported, *_classes_named_in(module)):
            top = wanted.partition(".")[0]
            beside = _file_of(path.parent, wanted)
            if wanted in seen or beside is None or top == NAME:
                continue
            seen.add(wanted)
            waiting.append((wanted, beside))
            _refuse_elsewhere(path.parent, top, file)


def _classes_named_in(module: OwnModule) -> Iterator[str]:
    """Yield the modules of classes that a string names, for example ``mine:Mixer``."""
    for text in module.texts:
        if found := _CLASS.fullmatch(text):
            yield found[1]


def _file_of(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split("."))
    files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in files if name and file.is_file()), None)


def _refuse_elsewhere(folder: Path, top: str, importer: Path) -> None:
    beside = _file_of(folder, top) or folder / top
    other = _origin(top)
    if other and os.path.realpath(other) != os.path.realpath(beside):
        raise SpecError(
            f"{importer} imports {top}, but Python finds {other} under this name instead of "
            f"{beside}; rename the latter."
        )


def _origin(top: str) -> str:
    """Return where Python finds the module; empty for a folder without ``__init__.py``."""
    module = sys.modules.get(top)
    spec = _on_path(top) if module is None else getattr(module, "__spec__", None)
    if spec is None or spec.origin is None:
        return ""
    return str(spec.origin) if spec.has_location else "Python's own module"


@cache
def mixer_version(name: str) -> int | str:
    """Return the version of a shipped mixer, or the hash of all the code of a user's mixer."""
    return _version(name, mixer_class(name))


@cache
def architecture_version(name: str) -> int | str:
    """Return the version of a shipped architecture, or the hash of all the code of a user's."""
    return _version(name, architecture_class(name))


@cache
def task_version(name: str) -> int | str:
    """Return the version of a shipped task or of own data, or the hash of a user's class."""
    from bakeoff.suite.tasks.registry import task_class

    return identity(name, task_class(name)) if is_own_class(name) else task_class(name).version


@cache
def probe_version(name: str) -> int | str:
    """Return the version of a shipped probe, or the hash of all the code of a user's probe."""
    from bakeoff.suite.probes.probe import probe

    return identity(name, type(probe(name))) if is_own_class(name) else probe(name).version


def own_versions(spec: ModelSpec) -> tuple[int | str, ...]:
    """Return the versions of the user's classes in a model."""
    mixers = [mixer_version(name) for name in mixer_pattern(spec.mixer) if ":" in name]
    is_own = ":" in spec.architecture
    return (*mixers, *([architecture_version(spec.architecture)] if is_own else []))


def forget_versions() -> None:
    """Clear the cached versions, because files may be edited while a long-lived process runs."""
    mixer_version.cache_clear()
    architecture_version.cache_clear()
    task_version.cache_clear()
    probe_version.cache_clear()


def _version(name: str, kind: type[Mixer] | type[Architecture]) -> int | str:
    return identity(name, kind) if ":" in name else kind.version
