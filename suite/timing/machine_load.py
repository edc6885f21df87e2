"""Reads from Linux how much CPU time other processes take, and how the machine is set up.

The kernel counts busy time in hundredths of a second, so that only stretches of a quarter of a
second and more say something.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

UNKNOWN = "unknown"
_STAT = Path("/proc/stat")
_CPU = Path("/sys/devices/system/cpu")
# Of the first line of /proc/stat, see proc(5): user, nice, system, irq, softirq and steal; a
# guest's time is in the user's already.
_BUSY_COLUMNS = (0, 1, 2, 5, 6, 7)
_TRUE = {"0": "off", "1": "on"}


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
        ours = {f"cpu{number}" for number in _allowed()} or {"cpu"}
        busy = [[int(line[1 + column]) for column in _BUSY_COLUMNS]
                for line in lines if line and line[0] in ours]  # fmt: skip
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
    return len(_allowed()) or os.cpu_count() or 1


def _allowed() -> set[int]:
    """Empty where the system fixes none."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def conditions() -> Mapping[str, str]:
    """What a reader of timings wants to know of the CPUs; `UNKNOWN` where it is not said."""
    no_turbo = {"0": "on", "1": "off"}
    return {
        "governor": _said(_CPU / "cpu0/cpufreq/scaling_governor"),
        "boost": _one_of(
            _said(_CPU / "cpufreq/boost", _TRUE),
            _said(_CPU / "intel_pstate/no_turbo", no_turbo),
        ),
        "smt": _said(_CPU / "smt/active", _TRUE),
        "aslr": _said(Path("/proc/sys/kernel/randomize_va_space"), {**_TRUE, "2": "on"}),
        "affinity": _affinity(),
    }


def _said(file: Path, words: Mapping[str, str] | None = None) -> str:
    try:
        text = file.read_text().strip()
    except OSError:
        return UNKNOWN
    return (words or {}).get(text, text)


def _one_of(*answers: str) -> str:
    return next((answer for answer in answers if answer != UNKNOWN), UNKNOWN)


def _affinity() -> str:
    """CPUs that the calling thread may use, as ``0, 1``."""
    return ", ".join(map(str, sorted(_allowed()))) or UNKNOWN
