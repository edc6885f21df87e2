"""Read how much CPU time other processes take, as Linux counts it.

The kernel counts busy time in hundredths of a second, so only intervals of a quarter of a second or
more are meaningful.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bakeoff.suite.provenance import allowed_cpus

_STAT = Path("/proc/stat")
# Columns of a line of /proc/stat, see proc(5): user, nice, system, irq, softirq and steal. The time
# of guests is already part of the user time.
_BUSY_COLUMNS = (0, 1, 2, 5, 6, 7)


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds since an arbitrary origin.

    Attributes:
        machine: The time of all processes on the CPUs that this process may use. Processes on other
            CPUs share caches with it, but take no CPU time from it.
        own: The time of this process and of its children that have ended.
    """

    machine: float
    own: float


ReadTimes = Callable[[], CpuTimes | None]


def cpu_times(stat: Path = _STAT) -> CpuTimes | None:
    """Return the CPU times now, or None if the system does not report them."""
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
    if ticks == 0:  # some sandboxes have the file, but all counters are 0
        return None
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in spent)
    return CpuTimes(machine=ticks / os.sysconf("SC_CLK_TCK"), own=own)


def seconds_of_others(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Return the CPU seconds of other processes between two readings, or None if one is missing."""
    if before is None or after is None:
        return None
    return max(0.0, (after.machine - before.machine) - (after.own - before.own))


def num_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(allowed_cpus()) or os.cpu_count() or 1
