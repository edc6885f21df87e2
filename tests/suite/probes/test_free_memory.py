"""The least of what the machine and every limit around the process leave."""

from __future__ import annotations

import os
from pathlib import Path

from suite.probes.free_memory import free_bytes

MIB = 2**20


def machine(folder: Path, groups: str) -> Path:
    """A /proc with 100 MiB to spare."""
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text("MemTotal: 999999 kB\nMemAvailable: 102400 kB\n")
    (folder / "self" / "cgroup").write_text(groups)
    return folder


def limited(folder: Path, limit: str, used: int, droppable: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(limit + "\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 7\ninactive_file {droppable}\n")


def test_no_limit_leaves_what_the_machine_has(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    limited(groups / "a", "max", 5 * MIB)
    proc = machine(tmp_path / "proc", "0::/a\n")
    assert free_bytes("cpu", proc, groups) == 100 * MIB


def test_the_tightest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    limited(groups / "a" / "b", f"{90 * MIB}", 10 * MIB)
    limited(groups / "a", f"{60 * MIB}", 50 * MIB, droppable=20 * MIB)
    proc = machine(tmp_path / "proc", "0::/a/b\n")
    assert free_bytes("cpu", proc, groups) == 30 * MIB


def test_limits_of_the_first_version(tmp_path: Path) -> None:
    folder = tmp_path / "groups" / "memory" / "a"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{40 * MIB}")
    (folder / "memory.usage_in_bytes").write_text(f"{15 * MIB}")
    proc = machine(tmp_path / "proc", "4:cpu,cpuacct:/c\n3:memory:/a\n")
    assert free_bytes("cpu", proc, tmp_path / "groups") == 25 * MIB


def test_a_limit_that_is_passed_leaves_nothing(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    limited(groups, f"{40 * MIB}", 50 * MIB)
    assert free_bytes("cpu", machine(tmp_path / "proc", "0::/\n"), groups) == 0


def test_a_kernel_that_does_not_say_is_asked_for_its_free_pages(tmp_path: Path) -> None:
    machine(tmp_path, "0::/\n")
    (tmp_path / "meminfo").write_text("MemTotal: 999999 kB\n")
    page = os.sysconf("SC_PAGE_SIZE")
    assert 0 < free_bytes("cpu", tmp_path, tmp_path) <= os.sysconf("SC_PHYS_PAGES") * page


def test_this_machine_has_something_free_and_not_more_than_it_has() -> None:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 64 * MIB < free_bytes("cpu") < installed
