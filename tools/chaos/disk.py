"""Scenario: the disk is full at the n-th page, for every n.

The output folder is a tmpfs of so many pages of 4 KiB: every number from one until a trial fits,
and some more until its report fits too. The store stands elsewhere, since it takes many times more
pages than a trial; some sizes are tried with the store inside, too. After each failure room is made
and the command given again.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.chaos.books import (
    Key,
    findings_in,
    kept_in,
    num_amiss,
    num_contradictions,
    num_differing,
    num_lost,
    without_failures,
)
from tools.chaos.command import Ended, bakeoff, inline, warm_up
from tools.chaos.figures import Figures
from tools.chaos.lanes import in_lanes
from tools.chaos.points import make_empty_store
from tools.chaos.remarks import num_resumed
from tools.chaos.scale import Scale

SWEEP = Path(__file__).parent / "sweeps" / "one.py"
PAGE_BYTES = 4_096
_ROOM = "size=256m"
_ALLOWED = (0, 4, 5)  # done; something outside is unavailable; finished with failed trials


@dataclass(frozen=True)
class Disk:
    """A full disk: its number of pages, and whether the store stands on it."""

    num_pages: int
    has_store: bool

    def __str__(self) -> str:
        return f"{self.num_pages} pages, the store {'on it' if self.has_store else 'elsewhere'}"


@dataclass(frozen=True)
class Bench:
    """What all sizes have in common."""

    folder: Path
    empty_store: Path
    reference: Mapping[Key, str]


def prove(scale: Scale, folder: Path) -> Figures:
    """Every number of pages up to a trial's; in the short form every sixteenth. Then fewer."""
    if reason := why_not_here(folder):
        return Figures(troubles=(reason,))
    warm_up()
    empty = folder / "empty.db"
    make_empty_store(empty)
    bench = Bench(folder, empty, _reference(folder, empty))
    num_without = num_pages_in(folder / "reference")
    num_store = num_pages_in(folder / "reference-store") + num_without
    num_trial = num_without - num_pages_in(folder / "reference" / "reports")
    disks = [Disk(n, False) for n in range(1, num_trial + 1, scale.pick(16, 1))]
    disks += [Disk(n, False) for n in range(num_trial + 1, num_without + 2, scale.pick(50, 24, 1))]
    first = -(-empty.stat().st_size // PAGE_BYTES)
    disks += [Disk(n, True) for n in range(first, num_store + 2, scale.pick(160, 100, 4))]
    figures = in_lanes(disks, partial(_survived, bench))
    note = (
        f"One trial fills {num_trial} pages of 4 KiB, with its report {num_without}, and with its "
        f"store {num_store}."
    )
    return figures + Figures(notes=(note,))


def why_not_here(folder: Path) -> str:
    """Why no tmpfs can be mounted; empty where one can."""
    place = folder / "try"
    place.mkdir(parents=True)
    try:
        _mount(place, 1)
    except subprocess.CalledProcessError as error:
        return f"no tmpfs can be mounted here, so no disk was full: {error.stderr.strip()}"
    _unmount(place)
    return ""


def num_pages_in(folder: Path) -> int:
    """How many pages its files fill."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(-(-size // PAGE_BYTES) for size in sizes)


def arguments(out: Path, store: Path | None) -> list[str]:
    """The command; its store is a file elsewhere, or, with None, in the output folder."""
    elsewhere = ["--tracking-uri", f"sqlite:///{store}"] if store is not None else []
    return inline(SWEEP, out, *elsewhere)


def _reference(folder: Path, empty: Path) -> Mapping[Key, str]:
    store = folder / "reference-store" / "mlflow.db"
    store.parent.mkdir()
    shutil.copy(empty, store)
    run = bakeoff(*arguments(folder / "reference", store), log=folder / "reference.log")
    assert run.code == 0, f"the undisturbed run failed: {run.said}"
    return findings_in(folder / "reference")


def _survived(bench: Bench, disk: Disk) -> Figures:
    name = f"{disk.num_pages}-{'with' if disk.has_store else 'without'}"
    out, store = bench.folder / f"disk-{name}", bench.folder / f"store-{name}" / "mlflow.db"
    out.mkdir()
    store.parent.mkdir()
    _mount(out, disk.num_pages)
    try:
        shutil.copy(bench.empty_store, out / "mlflow.db" if disk.has_store else store)
        command = arguments(out, None if disk.has_store else store)
        return _filled_and_freed(bench, disk, out, command)
    finally:
        _unmount(out)
        shutil.rmtree(store.parent)


def _filled_and_freed(bench: Bench, disk: Disk, out: Path, command: list[str]) -> Figures:
    log = bench.folder / f"{out.name}.log"
    full = bakeoff(*command, log=log)
    before = without_failures(kept_in(out))
    subprocess.run(["mount", "-o", f"remount,{_ROOM}", str(out)], check=True)
    again = bakeoff(*command, log=log.with_suffix(".again"))
    now = {key: kept.sha256 for key, kept in kept_in(out).items()}
    findings = findings_in(out)
    num_wrong, resumed = num_differing(bench.reference, findings), num_resumed(again.said)
    return Figures(
        faults=Counter({"disk full": int(full.code != 0)}),
        num_submitted=1,
        num_acknowledged=len(now),
        num_lost=num_lost(before, now) + num_amiss(1, now),
        num_resumed=resumed,
        num_resumed_equal=0 if num_wrong else resumed,
        num_repeated=len(findings),
        num_alarms=num_wrong + num_contradictions(out),
        recovery_seconds=(again.seconds,) if full.code else (),
        troubles=tuple(_troubles(disk, full, again)),
    )


def _troubles(disk: Disk, full: Ended, again: Ended) -> list[str]:
    found = []
    if full.code not in _ALLOWED:
        found.append(f"{disk}: exit code {full.code}: {full.last_line}")
    if "Traceback" in full.said or "Traceback" in again.said:
        found.append(f"{disk}: a traceback")
    if full.code and not is_said_plainly(full.said):
        found.append(f"{disk}: exit code {full.code}, and it does not say why: {full.last_line}")
    if again.code:
        found.append(f"{disk}: with room again exit code {again.code}: {again.last_line}")
    return found


def is_said_plainly(said: str) -> bool:
    """Whether some line says that the disk is full."""
    return any(
        sign in said.lower() for sign in ("no space left", "disk is full", "disk full", "i/o error")
    )


def _mount(place: Path, num_pages: int) -> None:
    size = f"size={num_pages * PAGE_BYTES}"
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip


def _unmount(place: Path) -> None:
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()
