"""Record the environment of a number: commit, versions, device, threads, conditions."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bakeoff.suite.schema import Provenance, Resources

COMMIT = "BAKEOFF_COMMIT"  # set if the source was copied without its repository
UNKNOWN = "unknown"
_CGROUPS, _OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_CPU = Path("/sys/devices/system/cpu")
_TRUE = {"0": "off", "1": "on"}
_PACKAGES = ("torch", "numpy", "ray", "mlflow", "deepspeed", "fla-core")


def provenance(resources: Resources) -> Provenance:
    """Return the provenance of a trial that runs in this process with these resources."""
    return Provenance(
        commit=commit(),
        device=device_model(resources),
        num_threads=resources.num_threads,
        num_cpus=float(resources.num_cpus),
        num_gpus=resources.num_gpus,
        versions=versions(),
        conditions=conditions(),
    )


def device_model(resources: Resources) -> str:
    """Return the model of the GPU if the trial has one, else of the CPU."""
    if resources.num_gpus:
        import torch

        return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU here"
    return cpu_model()


@cache
def cpu_model() -> str:
    """Return the CPU model, as the kernel names it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of installed packages that a number may depend on."""
    found = {package: installed_version(package) for package in _PACKAGES}
    return {"python": platform.python_version(), **{n: v for n, v in found.items() if v}}


def installed_version(package: str) -> str:
    """Return the version of a package; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def conditions() -> Mapping[str, str]:
    """Return the settings of the CPUs that affect timings; `UNKNOWN` if they cannot be read."""
    no_turbo = {"0": "on", "1": "off"}
    boost = _read(_CPU / "cpufreq/boost", _TRUE)
    if boost == UNKNOWN:
        boost = _read(_CPU / "intel_pstate/no_turbo", no_turbo)
    return {
        "governor": _read(_CPU / "cpu0/cpufreq/scaling_governor"),
        "boost": boost,
        "smt": _read(_CPU / "smt/active", _TRUE),
        "aslr": _read(Path("/proc/sys/kernel/randomize_va_space"), {**_TRUE, "2": "on"}),
        "affinity": ", ".join(map(str, sorted(allowed_cpus()))) or UNKNOWN,
    }


def _read(file: Path, words: Mapping[str, str] | None = None) -> str:
    try:
        text = file.read_text().strip()
    except OSError:
        return UNKNOWN
    return (words or {}).get(text, text)


def num_cpus() -> int:
    """Return how many CPUs this process may use, by its affinity and its container's quota."""
    allowed = len(allowed_cpus()) or os.cpu_count() or 1
    quota = _cpu_quota(_CGROUPS, _OWN_CGROUP)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def _cpu_quota(root: Path, own: Path) -> float | None:
    """Return the number of CPUs that this process's control groups allow, or None if unlimited."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    found: list[float] = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        group = base / path.lstrip("/")  # may be invisible in a container: then its root counts
        for folder in (group, *group.parents):
            found += _quota_in(folder)
            if folder == base:
                break
    return min(found, default=None)


def _quota_in(folder: Path) -> list[float]:
    """Return the limit of one control group, of version 2 or 1; empty if it has none."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (folder / "cpu.max").read_text().split()
        return [] if quota == "max" else [int(quota) / int(period)]
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota = (folder / "cpu.cfs_quota_us").read_text()
        share = int(quota) / int((folder / "cpu.cfs_period_us").read_text())
        return [share] if share > 0 else []
    return []


def allowed_cpus() -> set[int]:
    """Return the numbers of the CPUs that the calling thread may use; empty if unknown."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


@cache
def commit() -> str:
    """Return the commit of the source, with ``+`` if files differ from it; else the release."""
    if given := os.environ.get(COMMIT):
        return given
    folder = Path(__file__).parent
    try:
        # An installed package may be inside a repository that is not its own.
        _git(folder, "ls-files", "--error-unmatch", Path(__file__).name)
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        release = installed_version("bakeoff")
        return f"release {release}" if release else UNKNOWN


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    return done.stdout.strip()
