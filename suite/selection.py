"""What do the two names of `--compare` stand for? Stores, commits or devices, and so for rows.

A folder that holds a store, or a store's address, is all that is recorded of the ablation there.
Anything else is looked up among the rows of this store: a commit, as it stands in the rows or its
first hexadecimal digits; an environment's id; or a part of a device's name. A folder goes first;
a name that could mean two things is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from reports.frame import Sweep
from reports.page import shown_sweep
from reports.sides import Side
from suite.answers import sweeps_in
from suite.spec import SpecError
from suite.text import redact
from suite.tracking.location import Store, sqlite_path, store_of

_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{4,40}")
_MOST_LISTED = 12


@dataclass(frozen=True, eq=False)
class Selection:
    """One name, understood.

    Attributes:
        name: As in a command and in file names.
        title: As a reader is told.
        identity: Two names with the same one are the same selection.
        sweeps: Its rows at each scale that it has any at; columns and all as recorded.
    """

    name: str
    title: str
    identity: tuple[str, str]
    sweeps: tuple[Sweep, ...]

    @property
    def scales(self) -> tuple[str, ...]:
        """At which there are rows."""
        return tuple(sweep.about.scale for sweep in self.sweeps)


def selected(
    names: tuple[str, str], ablation: str, own: Callable[[], Sequence[Sweep]], scale: str | None
) -> tuple[Side, Side]:
    """The two sides of a comparison, at one scale.

    Args:
        names: As given to `--compare`.
        ablation: Whose rows.
        own: Gives the sweeps of this store; called only where a name is neither folder nor address.
        scale: By default the largest at which both have results.

    Raises:
        SpecError: if a name is unknown or ambiguous, both mean the same, or the two have no scale
            in common.
        BadUri, RefusedUri: for an address that is none, or is refused.
        StoreUnavailable: if a store cannot be reached.
    """
    a, b = (_selection(name, ablation, own) for name in names)
    if a.identity == b.identity:
        raise SpecError(
            f"--compare {_shown(names[0])} {_shown(names[1])}: both are {a.title}; "
            "give two that differ."
        )
    return _at_one_scale(a, b, scale)


def _at_one_scale(a: Selection, b: Selection, scale: str | None) -> tuple[Side, Side]:
    common = [name for name in a.scales if name in b.scales]
    if not common or (scale is not None and scale not in common):
        wanted = f"no scale {scale!r}" if scale is not None else "no scale"
        raise SpecError(
            f"--compare: the two have {wanted} in common; {a.title} has results at "
            f"{', '.join(a.scales) or 'none'}, {b.title} at {', '.join(b.scales) or 'none'}."
        )
    of_a = shown_sweep([sweep for sweep in a.sweeps if sweep.about.scale in common], scale)
    of_b = shown_sweep(b.sweeps, of_a.about.scale)
    return _side(a, of_a), _side(b, of_b)


def _side(chosen: Selection, sweep: Sweep) -> Side:
    return Side(name=chosen.name, title=chosen.title, about=sweep.about, results=sweep.results)


def _selection(name: str, ablation: str, own: Callable[[], Sequence[Sweep]]) -> Selection:
    store = _named_store(name)
    if store is not None:
        return _of_store(name, store, ablation)
    sweeps = own()
    candidates = {chosen.identity: chosen for chosen in _candidates(name, sweeps)}
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    there_is = f"{ablation!r} has the {_listing(sweeps)}"
    if candidates:
        raise SpecError(
            f"--compare {_shown(name)} may mean {' or '.join(c.title for c in candidates.values())}"
            f"; {there_is}."
        )
    raise SpecError(
        f"--compare {_shown(name)}: no output folder with a store, no commit and no device is "
        f"named so; {there_is}."
    )


def _named_store(name: str) -> Store | None:
    """The store at an address or in a folder; None where the name is neither."""
    if ":" in name and "://" in name:
        return store_of(Path(), name)
    folder = Path(name)
    try:
        is_store = bool(name) and (folder / "mlflow.db").is_file()
    except (OSError, ValueError):  # too long a name, or one with a null character
        is_store = False
    return store_of(folder, None) if is_store else None


def _of_store(name: str, store: Store, ablation: str) -> Selection:
    file = sqlite_path(store.uri)
    if file is not None and not file.is_file():
        raise SpecError(f"--compare {_shown(name)}: there is no store at {file}.")
    sweeps = [sweep for sweep in sweeps_in(store, ablation) if len(sweep.results)]
    if not sweeps:
        raise SpecError(f"--compare {_shown(name)}: nothing is recorded of {ablation!r} there.")
    shown = redact(name)
    identity = str(file.resolve()) if file is not None else redact(store.uri)
    return Selection(
        name=shown, title=f"store {shown}", identity=("store", identity), sweeps=tuple(sweeps)
    )


def _candidates(name: str, sweeps: Sequence[Sweep]) -> Iterator[Selection]:
    """All that the name may mean in this store."""
    for commit in _commits_named(name, _counts(sweeps, "commit")):
        yield _of_rows(sweeps, "commit", commit, f"commit {commit}")
    devices = _devices(sweeps)
    for environment_id in _environments_named(name, devices):
        title = f"device {devices[environment_id]} ({environment_id})"
        yield _of_rows(sweeps, "environment_id", environment_id, title)


def _commits_named(name: str, commits: Mapping[str, int]) -> list[str]:
    if name in commits:
        return [name]
    wanted = name.lower()
    if not _HEXADECIMAL.fullmatch(wanted):
        return []
    # Rows hold the first twelve digits; a whole hash means the same.
    return [c for c in commits if c.startswith(wanted) or (len(c) > 3 and wanted.startswith(c))]


def _environments_named(name: str, devices: Mapping[str, str]) -> list[str]:
    if name in devices:
        return [name]
    part = name.strip().lower()
    return [key for key, device in devices.items() if part and part in device.lower()]


def _of_rows(sweeps: Sequence[Sweep], column: str, value: str, title: str) -> Selection:
    kept = (_rows_of(sweep, column, value) for sweep in sweeps)
    found = tuple(sweep for sweep in kept if len(sweep.results))
    return Selection(name=value, title=title, identity=(column, value), sweeps=found)


def _rows_of(sweep: Sweep, column: str, value: str) -> Sweep:
    rows = sweep.results[sweep.results[column] == value]
    return replace(sweep, results=rows.reset_index(drop=True))


def _counts(sweeps: Sequence[Sweep], column: str) -> dict[str, int]:
    """Value -> number of rows, over all scales; rows that were never measured have none."""
    if not sweeps:
        return {}
    counts = pd.concat([sweep.results[column] for sweep in sweeps]).value_counts()
    return {name: int(counts[name]) for name in sorted(counts.index) if name}


def _devices(sweeps: Sequence[Sweep]) -> dict[str, str]:
    """environment_id -> device."""
    found: dict[str, str] = {}
    for sweep in sweeps:
        pairs = sweep.results[["environment_id", "device"]].drop_duplicates()
        found |= dict(zip(pairs["environment_id"], pairs["device"], strict=True))
    return {name: found[name] for name in sorted(found) if name}


def _listing(sweeps: Sequence[Sweep]) -> str:
    """Commits with their counts, devices with their ids."""
    devices = _devices(sweeps)
    counts = _counts(sweeps, "commit")
    commits = [f"{name} ({n:,} row{'' if n == 1 else 's'})" for name, n in counts.items()]
    places = [f"{device} ({name})" for name, device in devices.items()]
    return f"commits {_listed(commits)} and the devices {_listed(places)}"


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_LISTED
    text = ", ".join(names[:_MOST_LISTED]) or "none"
    return f"{text} and {rest:,} more" if rest > 0 else text


def _shown(name: str) -> str:
    return repr(redact(name))
