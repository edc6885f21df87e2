"""Scenario: the disk is full at the n-th page, for every n.

The output folder is a tmpfs of n pages of 4 KiB: every number until a trial fits, and some more
until its report fits too. The store is elsewhere, since it needs many times more pages than a
trial; some sizes are tried with the store inside, too. After each failure the disk is made larger
and the command is run again.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.chaos.arena import (
    Ended,
    ablation,
    bakeoff,
    inline,
    make_empty_store,
    prove_each,
    warm_up,
)
from tools.chaos.figures import Figures, Scale
from tools.chaos.recorded import acknowledged_in, findings_in, recorded

PAGE_BYTES = 4_096
_ROOM = "size=256m"
_ALLOWED = (0, 4, 5)  # done; something outside is unavailable; finished with failed trials


@dataclass(frozen=True)
class Disk:
    """A full disk: its number of pages, and whether it holds the store."""

    num_pages: int
    has_store: bool

    def __str__(self) -> str:
        return f"{self.num_pages} pages, the store {'on it' if self.has_store else 'elsewhere'}"


def prove(scale: Scale, folder: Path) -> Figures:
    """Try every number of pages up to a trial's (in the short form every 24th), then fewer."""
    if reason := why_not_here(folder):
        return Figures(problems=(reason,))
    warm_up()
    empty = folder / "empty.db"
    make_empty_store(empty)
    file = ablation(folder, "one")
    command = _command(file, folder / "reference", _new_store(folder, folder / "reference-store"))
    undisturbed = bakeoff(command, log=folder / "reference.log")
    assert undisturbed.code == 0, f"the undisturbed run failed: {undisturbed.output}"
    reference = findings_in(folder / "reference")
    num_without = num_pages_in(folder / "reference")
    num_store = num_pages_in(folder / "reference-store") + num_without
    num_trial = num_without - num_pages_in(folder / "reference" / "reports")
    disks = [Disk(n, False) for n in range(1, num_trial + 1, scale.pick(48, 1))]
    disks += [Disk(n, False) for n in range(num_trial + 1, num_without + 2, scale.pick(150, 24, 1))]
    first = -(-empty.stat().st_size // PAGE_BYTES)
    disks += [Disk(n, True) for n in range(first, num_store + 2, scale.pick(240, 100, 4))]
    note = (
        f"One trial fills {num_trial} pages of 4 KiB, with its report {num_without}, and with its "
        f"store {num_store}."
    )
    return prove_each(disks, partial(_survived, file, reference)) + Figures(notes=(note,))


def why_not_here(folder: Path) -> str:
    """Say why no tmpfs can be mounted; empty if one can."""
    try:
        with _mounted(folder / "try", 1):
            return ""
    except subprocess.CalledProcessError as error:
        return f"no tmpfs can be mounted here, so no disk was full: {error.stderr.strip()}"


def num_pages_in(folder: Path) -> int:
    """Count the pages that its files fill."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return sum(-(-size // PAGE_BYTES) for size in sizes)


def _command(file: Path, out: Path, store: Path) -> str:
    return inline(file, out, f"--tracking-uri sqlite:///{store}")


def _new_store(folder: Path, place: Path) -> Path:
    place.mkdir(exist_ok=True)
    return Path(shutil.copy(folder / "empty.db", place / "mlflow.db"))


def _survived(file: Path, reference: Mapping[str, str], disk: Disk) -> Figures:
    folder = file.parent
    name = f"{disk.num_pages}-{'with' if disk.has_store else 'without'}"
    out, elsewhere = folder / f"disk-{name}", folder / f"store-{name}"
    with _mounted(out, disk.num_pages):
        store = _new_store(folder, out if disk.has_store else elsewhere)
        command = inline(file, out) if disk.has_store else _command(file, out, store)
        full = bakeoff(command, log=out.with_suffix(".log"))
        before = acknowledged_in(out)
        subprocess.run(["mount", "-o", f"remount,{_ROOM}", str(out)], check=True)
        again = bakeoff(command, log=out.with_suffix(".again"))
        found = recorded(out, 1, before=before, reference=reference, output=again.output)
    shutil.rmtree(elsewhere, ignore_errors=True)
    return found + Figures(
        faults=Counter({"disk full": int(full.code != 0)}),
        recovery_seconds=(again.seconds,) if full.code else (),
        problems=tuple(_problems(disk, full, again)),
    )


def _problems(disk: Disk, full: Ended, again: Ended) -> list[str]:
    found = again.failure(f"{disk}: with room again")
    if full.code not in _ALLOWED:
        found += full.failure(str(disk))
    if "Traceback" in full.output + again.output:
        found.append(f"{disk}: a traceback")
    if full.code and not is_said_plainly(full.output):
        found += full.failure(f"{disk}: it does not say why")
    return found


def is_said_plainly(output: str) -> bool:
    """Return True if some line says that the disk is full."""
    signs = ("no space left", "disk is full", "disk full", "i/o error")
    return any(sign in output.lower() for sign in signs)


@contextmanager
def _mounted(place: Path, num_pages: int) -> Iterator[None]:
    """Mount a tmpfs of that many pages in a new folder until the block ends."""
    place.mkdir(parents=True)
    size = f"size={num_pages * PAGE_BYTES}"
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)],
        check=True,
        capture_output=True,
        text=True,
    )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
        place.rmdir()
