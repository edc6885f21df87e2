"""Read how much CPU time other processes take, as Linux counts it.

The kernel counts busy time in hundredths of a second, so that only blocks of a quarter of a
second and more say something.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from suite.provenance import allowed_cpus

_STAT = Path("/proc/stat")
# Of the first line of /proc/stat, see proc(5): user, nice, system, irq, softirq and steal; a
# guest's time is in the user's already.
_BUSY_COLUMNS = (0, 1, 2, 5, 6, 7)


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds from some beginning.

    Attributes:
        machine: Of the CPUs that this process may use, whoever took them. Others who are busy
            beside them share caches with it, and take no time from it.
        own: Of this process and of its children that have ended.
    """

    machine: float
    own: float


ReadTimes = Callable[[], CpuTimes | None]


def cpu_times(stat: Path = _STAT) -> CpuTimes | None:
    """Now; None where the system does not say."""
    try:
        lines = [line.split() for line in stat.read_text().splitlines()]
        ours = {f"cpu{number}" for number in allowed_cpus()} or {"cpu"}
        busy = [
            [int(line[1 + column]) for column in _BUSY_COLUMNS]
            for line in lines
            if line and line[0] in ours
        ]
        ticks = sum(map(sum, busy))
    except (OSError, ValueError, IndexError):
        return None
    if ticks == 0:  # some sandboxes answer, and say nothing
        return None
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in spent)
    return CpuTimes(machine=ticks / os.sysconf("SC_CLK_TCK"), own=own)


def seconds_of_others(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """CPU seconds that others took between two looks; None where the system does not say."""
    if before is None or after is None:
        return None
    return max(0.0, (after.machine - before.machine) - (after.own - before.own))


def num_cpus() -> int:
    """That this process may use."""
    return len(allowed_cpus()) or os.cpu_count() or 1
