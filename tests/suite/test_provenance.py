"""Tests for the machine, versions and commit of a result."""

import os
import platform
import shutil
import subprocess
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from bakeoff.suite import provenance as provenance_
from bakeoff.suite.provenance import commit, conditions, cpu_model, provenance, versions
from bakeoff.suite.schema import Resources


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    for remembered in (commit, versions, cpu_model, conditions):
        remembered.cache_clear()


def _git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", "-C", str(folder), *names, *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a committed copy of the module, which finds it as its own."""
    _git(tmp_path, "init", "-q")
    file = tmp_path / "provenance.py"
    shutil.copy(provenance_.__file__, file)
    _git(tmp_path, "add", file.name)
    _git(tmp_path, "commit", "-qm", "x")
    monkeypatch.setattr(provenance_, "__file__", str(file))
    return tmp_path


def test_a_clean_checkout_is_its_commit(repository: Path) -> None:
    assert commit() == _git(repository, "rev-parse", "--short=12", "HEAD")


def test_a_changed_checkout_is_marked(repository: Path) -> None:
    (repository / "provenance.py").write_text("changed")
    assert commit() == _git(repository, "rev-parse", "--short=12", "HEAD") + "+"


def test_an_installation_inside_another_repository_is_a_release(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = repository / "site-packages" / "suite"
    installed.mkdir(parents=True)
    (installed / "provenance.py").touch()
    monkeypatch.setattr(provenance_, "__file__", str(installed / "provenance.py"))
    assert commit() == f"release {version('bakeoff')}"


def test_without_git_there_is_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit() == f"release {version('bakeoff')}"


def test_source_that_travelled_has_the_commit_that_it_was_sent_with(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAKEOFF_COMMIT", "0123456789ab+")
    assert commit() == "0123456789ab+"


def test_versions_are_those_installed() -> None:
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["torch"] == version("torch")


def test_resources_are_recorded_and_threads_are_an_environment_of_their_own() -> None:
    one = provenance(Resources(num_cpus=1, num_threads=1))
    two = provenance(Resources(num_cpus=2, num_threads=2))
    assert (two.num_cpus, two.num_threads, two.num_gpus) == (2.0, 2, 0.0)
    assert one.device == two.device == cpu_model() != ""
    assert one.environment_id != two.environment_id


def test_kernels_of_a_package_are_part_of_a_gpus_environment() -> None:
    """Check that a timing is repeated after the package was installed, on a GPU only."""
    for num_gpus, is_same in ((0.0, True), (1.0, False)):
        bare, with_kernels = (
            replace(provenance(Resources()), num_gpus=num_gpus, versions={"torch": "2", **more})
            for more in ({}, {"fla-core": "0.6.0"})
        )
        assert (bare.environment_id == with_kernels.environment_id) == is_same


def test_conditions_are_those_of_the_machine_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{0, 3}])
    monkeypatch.setattr(provenance_, "allowed_cpus", lambda: next(answers))
    first, second = provenance(Resources()), provenance(Resources(num_threads=2))
    assert first.conditions == second.conditions
    assert first.conditions["affinity"] == "0, 3"


def test_conditions_are_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(provenance_, "_CPU", tmp_path)
    assert {name: conditions()[name] for name in ("governor", "boost", "smt")} == {
        "governor": "unknown",
        "boost": "unknown",
        "smt": "unknown",
    }
    conditions.cache_clear()
    for file, text in {
        "cpu0/cpufreq/scaling_governor": "performance\n",
        "intel_pstate/no_turbo": "1\n",
        "smt/active": "0\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    found = conditions()
    assert found["governor"] == "performance"
    assert found["boost"] == "off"
    assert found["smt"] == "off"
    assert set(found) == {"governor", "boost", "smt", "aslr", "affinity"}
    assert all(type(value) is str and value for value in found.values())


def quota_of(tmp_path: Path, lines: str, files: dict[str, str]) -> float | None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "own").write_text(lines)
    return provenance_._cpu_quota(tmp_path, tmp_path / "own")


@pytest.mark.parametrize(
    ("lines", "files", "wanted"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2.0),
        ("0::/not/seen/here\n", {"cpu.max": "300000 100000\n"}, 3.0),
        (
            "5:memory:/x\n4:cpu,cpuacct:/docker/1\n",
            {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            0.5,
        ),
        (
            "4:cpu,cpuacct:/\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        ("nonsense\n", {}, None),
    ],
)
def test_the_quota_of_a_container_is_read(
    tmp_path: Path, lines: str, files: dict[str, str], wanted: float | None
) -> None:
    assert quota_of(tmp_path, lines, files) == wanted


def test_cpus_are_counted_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert provenance_.num_cpus() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    monkeypatch.setattr(provenance_, "allowed_cpus", lambda: set(range(8)))
    for quota, wanted in ((None, 8), (2.5, 2), (0.5, 1), (64.0, 8)):
        monkeypatch.setattr(provenance_, "_cpu_quota", lambda *of, found=quota: found)
        assert provenance_.num_cpus() == wanted
