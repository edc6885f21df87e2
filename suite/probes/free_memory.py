"""How much memory can a run still take, without bringing the machine down?

On a CPU the least of what the kernel thinks it could give (`MemAvailable`) and of what is left of
the limit of each control group that the process is in, as containers have them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import torch

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def free_bytes(device: str, proc: Path = _PROC, groups: Path = _GROUPS) -> int:
    """Bytes that can still be had on `device`, what the allocator keeps unused included."""
    if device != "cpu":
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])
    return max(0, min([_of_the_machine(proc), *_of_groups(proc, groups)]))


def _of_the_machine(proc: Path) -> int:
    found = _fields(proc / "meminfo").get("MemAvailable:")
    if found is not None:
        return found * 1024  # the file says kB, and means KiB
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups(proc: Path, groups: Path) -> Iterator[int]:
    """What is left of each limit; file pages that can be dropped count as left."""
    for folder in _folders(proc, groups):
        for limit, usage, droppable in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            allowed, used = _number(folder / limit), _number(folder / usage)
            if allowed is not None and used is not None:
                yield allowed - used + _fields(folder / "memory.stat").get(droppable, 0)


def _folders(proc: Path, groups: Path) -> Iterator[Path]:
    """Of the groups that the process is in, from its own upwards, of both versions."""
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", maxsplit=2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = groups / "memory" if controllers else groups
        inside = PurePosixPath(path).relative_to("/")
        yield from (root / part for part in (inside, *inside.parents))


def _number(file: Path) -> int | None:
    """None where there is no such file, or it says ``max``."""
    lines = _lines(file)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _fields(file: Path) -> dict[str, int]:
    """The first two words of each line."""
    pairs = [line.split() for line in _lines(file)]
    return {words[0]: int(words[1]) for words in pairs if len(words) > 1 and words[1].isdigit()}


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
