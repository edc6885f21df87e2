"""Put each bug of `tools/mistakes.toml` into a copy of the code, and check that its tests notice.

    python tools/mutants.py [-k WORD] [--check]

A bug that no test notices is a hole in the tests: the exit code is 1. Prints a line for each bug,
and then "n of n caught". With --check no test runs: it is checked that each bug can be made.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_OF_MIXERS = "tests/models/test_every_mixer.py"
_OURS = ("bakeoff", "suite", "models", "reports", "ablations")  # the first one links to the others


@dataclass(frozen=True)
class Mistake:
    """One bug; `tools/mistakes.toml` describes the fields."""

    mistake: str
    file: str
    old: str
    new: str
    select: str
    tests: str = _OF_MIXERS

    def mutated(self, root: Path) -> str:
        """Return the text of the file with the bug in it.

        Raises:
            ValueError: if the file does not hold the right text exactly once.
            SyntaxError: if the text with the bug is not Python.
        """
        text = (root / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} must hold {self.old!r} once ({self.mistake})")
        text = text.replace(self.old, self.new)
        compile(text, self.file, "exec")
        return text


def mistakes() -> list[Mistake]:
    """Read the list."""
    found = tomllib.loads((ROOT / "tools" / "mistakes.toml").read_text())["mistakes"]
    return [Mistake(**each) for each in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all bugs, or those with a word in their file or description."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-k", default="", metavar="WORD", help="only bugs with this word")
    parser.add_argument("--check", action="store_true", help="only check that they can be made")
    chosen = parser.parse_args(arguments)
    found = [each for each in mistakes() if chosen.k in f"{each.file} {each.mistake}"]
    if chosen.check:
        wrong = list(problems(found))
        print(*wrong, f"{len(found)} bugs, {len(wrong)} problems", sep="\n")
        return int(bool(wrong) or not found)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        caught = list(pool.map(report, found))
    print(f"{sum(caught)} of {len(found)} caught")
    return 0 if all(caught) and found else 1


def problems(found: Sequence[Mistake]) -> Iterator[str]:
    """Yield a sentence for each bug that cannot be made, that has no tests, or is listed twice."""
    seen: set[object] = set()
    for each in found:
        try:
            each.mutated(ROOT)
        except (OSError, ValueError, SyntaxError) as error:
            yield f"{each.file}: {each.mistake}: {error}"
        if not (ROOT / each.tests).is_file():
            yield f"{each.tests}: the file does not exist ({each.mistake})"
        for key in (each.mistake, (each.file, each.old, each.new)):
            if key in seen:
                yield f"{each.file}: listed twice: {key}"
            seen.add(key)


def report(mistake: Mistake) -> bool:
    """Return whether a test failed because of the bug; print which."""

    def make_mistake(copy: Path) -> None:
        (copy / mistake.file).write_text(mistake.mutated(copy))

    try:
        test = failed_test(run_on_copy(make_mistake, mistake.select, mistake.tests))
        verdict = f"caught by {test}" if test else "SURVIVED"
    except (RuntimeError, ValueError) as error:
        test, verdict = "", f"NOT TRIED: {error}"
    print(f"{mistake.file}: {mistake.mistake}: {verdict}", flush=True)
    return bool(test)


def run_on_copy(
    change: Callable[[Path], None], select: str, tests: str = _OF_MIXERS
) -> subprocess.CompletedProcess[str]:
    """Change a copy of the code, and run tests there, up to the first failure.

    Args:
        change: A function that changes the copy; its argument is the copy's folder.
        select: An expression for pytest's -k.
        tests: The file of tests.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for part in (*_OURS, "/".join(tests.split("/")[:2])):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=ignored)
        for shared in (ROOT / "tests").glob("*.py"):
            shutil.copy(shared, copy / "tests")
        change(copy)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "-p", "no:cacheprovider"]
        command += ["-m", "not slow"]  # with all values of knobs
        return subprocess.run(
            [*command, "-k", select, tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
        )


def failed_test(run: subprocess.CompletedProcess[str]) -> str:
    """Return the name of the first test that failed, or an empty text if all passed.

    Raises:
        RuntimeError: if pytest neither passed nor failed, which proves nothing.
    """
    lines = [line for line in run.stdout.splitlines() if line.startswith("FAILED ")]
    if run.returncode == 0:
        return ""
    if run.returncode != 1 or not lines:
        raise RuntimeError(f"pytest ended with {run.returncode}:\n{run.stdout[-2000:]}")
    return lines[0].partition("::")[2].partition(" - ")[0]


if __name__ == "__main__":
    sys.exit(main())
