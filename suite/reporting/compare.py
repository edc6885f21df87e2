"""Select the rows that the two arguments of `--compare` name, and compare them.

A folder with a store, or the address of a store, selects everything recorded of the ablation there.
A number of up to three digits is an edition in this store. Any other name is looked up in the rows
of this store as a commit (in full or its first hexadecimal digits), as the id of an environment, or
as part of a device's name. Folders take precedence; an ambiguous name is an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import pandas as pd

from bakeoff.reports.compare import Selection, render_comparison
from bakeoff.reports.pages.ablation import shown_sweep
from bakeoff.reports.view import Sweep
from bakeoff.suite.journal.editions import Source
from bakeoff.suite.reporting.build import refuse_missing, sweeps_in
from bakeoff.suite.reporting.stored_editions import StoredEditions, stored_editions
from bakeoff.suite.spec import SpecError
from bakeoff.suite.text import redact
from bakeoff.suite.tracking.experiments import folder_of
from bakeoff.suite.tracking.location import Store, sqlite_path, store_of
from bakeoff.suite.tracking.read import StoreReader
from bakeoff.suite.tracking.restore import exported_sweep
from bakeoff.suite.tracking.run_fields import Key

_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{4,40}")
_NUMBER = re.compile(r"[0-9]{1,3}")  # number of an edition; commits have more digits
_MOST_LISTED = 12


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A possible meaning of a name.

    Attributes:
        name: The name in commands and in file names.
        title: The title on a page.
        identity: A key that is equal if two names have the same meaning.
        sweeps: The sweeps at all scales that have rows.
        source: A function that returns the user's files of a sweep; empty if both sides have the
            same files.
    """

    name: str
    title: str
    identity: tuple[str, str]
    sweeps: tuple[Sweep, ...]
    source: Callable[[Key], Source] = lambda _: {}

    def shown(self, scale: str | None) -> Selection:
        """Return the rows at the given scale, or at the largest that has results by default."""
        sweep = shown_sweep(self.sweeps, scale)
        key = (sweep.about.ablation, sweep.about.scale)
        return Selection(
            name=self.name,
            title=self.title,
            about=sweep.about,
            results=sweep.results,
            source=self.source(key),
        )


def compare(
    names: tuple[str, str],
    ablation: str,
    store_here: Callable[[], Store],
    folder: Path,
    scale: str | None = None,
) -> tuple[str, Path]:
    """Write the page that compares two selections of rows; see `select_for_comparison`.

    `store_here` is only called if a name is neither a folder nor an address.

    Returns:
        A sentence, and the path of the page.

    Raises:
        SpecError: If nothing is recorded, or as in `select_for_comparison`.
    """
    own = cache(partial(_own, ablation, store_here))  # read once, though both names may need it
    editions = cache(lambda: stored_editions(store_here(), ablation, scale))
    return render_comparison(*select_for_comparison(names, ablation, own, scale, editions), folder)


def _own(ablation: str, store_here: Callable[[], Store]) -> Sequence[Sweep]:
    sweeps = sweeps_in(store_here(), [ablation], [ablation]).get(ablation, ())
    refuse_missing(ablation, sweeps)
    return sweeps


def select_for_comparison(
    names: tuple[str, str],
    ablation: str,
    own: Callable[[], Sequence[Sweep]],
    scale: str | None,
    editions: Callable[[], StoredEditions],
) -> tuple[Selection, Selection]:
    """Return the two selections of a comparison, at one scale.

    Args:
        names: The arguments of `--compare`.
        ablation: The ablation whose rows are compared.
        own: Returns the sweeps of this store, at least one; only called if a name is neither a
            folder nor an address.
        scale: The scale; by default the largest at which both have results.
        editions: Returns the editions in this store; only called if a name is a number.

    Raises:
        SpecError: If a name is unknown or ambiguous, both have the same meaning, or the two have no
            scale in common.
        BadUri: If an address is invalid.
        RefusedUri: If an address is refused.
        StoreUnavailable: If a store cannot be reached.
    """
    a, b = (_resolve(name, ablation, own, editions) for name in names)
    if a.identity == b.identity:
        raise SpecError(
            f"--compare {redact(names[0])!r} {redact(names[1])!r}: both are {a.title}; "
            "give two that differ."
        )
    at_a, at_b = ([sweep.about.scale for sweep in one.sweeps] for one in (a, b))
    common = [name for name in at_a if name in at_b]
    if not common or (scale is not None and scale not in common):
        wanted = f"no scale {scale!r}" if scale is not None else "no scale"
        raise SpecError(
            f"--compare: the two have {wanted} in common; {a.title} has results at "
            f"{', '.join(at_a) or 'none'}, {b.title} at {', '.join(at_b) or 'none'}."
        )
    in_common = tuple(sweep for sweep in a.sweeps if sweep.about.scale in common)
    of_a = replace(a, sweeps=in_common).shown(scale)
    return of_a, b.shown(of_a.about.scale)


def _resolve(
    name: str,
    ablation: str,
    own: Callable[[], Sequence[Sweep]],
    editions: Callable[[], StoredEditions],
) -> _Candidate:
    store = _named_store(name)
    if store is not None:
        return _whole_store(redact(name), store, ablation)
    if _NUMBER.fullmatch(name):
        return _edition(int(name), editions())
    try:
        sweeps = own()
    except SpecError as error:
        raise SpecError(
            f"--compare {redact(name)!r}: there is no output folder with a store of this name, and "
            f"no results of commits and devices ({str(error).rstrip('.')})."
        ) from None
    rows = pd.concat([sweep.results for sweep in sweeps])
    candidates = [_with_value(*named, sweeps) for named in _meanings(name, rows)]
    if len(candidates) == 1:
        return candidates[0]
    problem = ": there is no output folder with a store, no commit and no device of this name"
    if candidates:
        problem = f" may mean {' or '.join(candidate.title for candidate in candidates)}"
    raise SpecError(f"--compare {redact(name)!r}{problem}; {ablation!r} has the {_contents(rows)}.")


def _named_store(name: str) -> Store | None:
    """Return the store at an address or in a folder, or None if the name is neither."""
    if "://" in name:
        return store_of(Path(), name)
    try:
        is_store = bool(name) and (Path(name) / "mlflow.db").is_file()
    except (OSError, ValueError):  # the name is too long, or contains a null character
        is_store = False
    return store_of(Path(name), None) if is_store else None


def _whole_store(name: str, store: Store, ablation: str) -> _Candidate:
    file = sqlite_path(store.uri)
    if file is not None and not file.is_file():
        raise SpecError(f"--compare {name!r}: there is no store at {file}.")
    found = sweeps_in(store, [ablation], [ablation]).get(ablation, ())
    sweeps = tuple(sweep for sweep in found if len(sweep.results))
    if not sweeps:
        raise SpecError(f"--compare {name!r}: nothing is recorded for {ablation!r} there.")
    identity = str(file.resolve()) if file is not None else redact(store.uri)
    source = partial(_source_in, store)
    return _Candidate(name, f"store {name}", ("store", identity), sweeps, source)


def _edition(number: int, held: StoredEditions) -> _Candidate:
    name = f"edition {number}"
    sweep = held.sweeps.get(number)
    if sweep is None or not len(sweep.results):
        numbers = ", ".join(str(n) for n, each in sorted(held.sweeps.items()) if len(each.results))
        raise SpecError(
            f"--compare {number}: no {name} of {held.about.ablation!r} at scale {held.about.scale} "
            f"has results; editions with results: {numbers}."
        )
    identity = ("edition", str(number))
    return _Candidate(str(number), name, identity, (sweep,), lambda _: held.sources[number])


def _source_in(store: Store, key: Key) -> Source:
    """Return the files of the edition that the store shows; empty if it is unknown."""
    held = exported_sweep(StoreReader(store.uri, folder_of(store)), key)
    if held is None:
        return {}
    shown = (each.source_sha256 for each in held.editions if each.plan is None)
    return held.sources.get(next(shown, ""), {})


def _meanings(name: str, rows: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Yield each possible meaning of the name in this store: a column, its value, and a title."""
    commits, devices = _commits(rows), _devices(rows)
    begun = [commit for commit in commits if _is_abbreviated(commit, name.lower())]
    for commit in [name] if name in commits else begun:
        yield "commit", commit, f"commit {commit}"
    part = name.strip().lower()
    fitting = [key for key, device in devices.items() if part and part in device.lower()]
    for key in [name] if name in devices else fitting:
        yield "environment_id", key, f"device {devices[key]} ({key})"


def _is_abbreviated(commit: str, digits: str) -> bool:
    """Return True if the digits begin the commit or, as a whole hash, begin with it."""
    is_long = len(commit) > 3 and digits.startswith(commit)
    return bool(_HEXADECIMAL.fullmatch(digits)) and (commit.startswith(digits) or is_long)


def _with_value(column: str, value: str, title: str, sweeps: Iterable[Sweep]) -> _Candidate:
    """Return the candidate whose rows have the given value in a column."""
    kept = (
        replace(sweep, results=sweep.results[sweep.results[column] == value].reset_index(drop=True))
        for sweep in sweeps
    )
    found = tuple(sweep for sweep in kept if len(sweep.results))
    return _Candidate(name=value, title=title, identity=(column, value), sweeps=found)


def _commits(rows: pd.DataFrame) -> dict[str, int]:
    """Return commit -> number of rows; rows that were never measured have no commit."""
    counts = Counter(rows["commit"])
    return {commit: counts[commit] for commit in sorted(counts) if commit}


def _devices(rows: pd.DataFrame) -> dict[str, str]:
    """Return environment id -> device."""
    pairs = sorted(set(zip(rows["environment_id"], rows["device"], strict=True)))
    return {environment_id: device for environment_id, device in pairs if environment_id}


def _contents(rows: pd.DataFrame) -> str:
    commits = [f"{name} ({n:,} row{'' if n == 1 else 's'})" for name, n in _commits(rows).items()]
    devices = [f"{device} ({key})" for key, device in _devices(rows).items()]
    return f"commits {_listed(commits)} and the devices {_listed(devices)}"


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_LISTED
    text = ", ".join(names[:_MOST_LISTED]) or "none"
    return f"{text} and {rest:,} more" if rest > 0 else text
