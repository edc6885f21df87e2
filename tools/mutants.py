"""Seeds bugs into copies of models, suite and reports, and checks that the tests notice each.

    python tools/mutants.py [-k WORD]

Each mutant is one of the mistakes in `tools/mistakes/`, in one file.
The copy's battery must fail; a mutant that survives is a hole in the battery, and the exit code is
1. Prints a line for each, and in the end "n of n caught".
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mistakes import Mutant
from mistakes.architectures import MUTANTS_OF_ARCHITECTURES
from mistakes.arena import MUTANTS_OF_ARENA
from mistakes.attentions import MUTANTS_OF_ATTENTIONS
from mistakes.cait import MUTANTS_OF_CAIT_AND_VOLO
from mistakes.captions import MUTANTS_OF_CAPTIONS
from mistakes.choices import MUTANTS_OF_CHOICES
from mistakes.contrastive import MUTANTS_OF_CONTRASTIVE
from mistakes.decisions import MUTANTS_OF_DECISIONS
from mistakes.deit import MUTANTS_OF_DEIT_AND_LEVIT
from mistakes.drawings import MUTANTS_OF_DRAWINGS
from mistakes.filters import MUTANTS_OF_FILTERS
from mistakes.latents import MUTANTS_OF_LATENTS
from mistakes.mixers import MUTANTS_OF_MIXERS
from mistakes.positions import MUTANTS_OF_POSITIONS
from mistakes.pretraining import MUTANTS_OF_PRETRAINING
from mistakes.recipes import MUTANTS_OF_RECIPES
from mistakes.resnet import MUTANTS_OF_RESNET
from mistakes.scaling_laws import MUTANTS_OF_SCALING_LAWS
from mistakes.swin import MUTANTS_OF_SWIN

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = (
    MUTANTS_OF_MIXERS
    + MUTANTS_OF_ATTENTIONS
    + MUTANTS_OF_ARENA
    + MUTANTS_OF_FILTERS
    + MUTANTS_OF_ARCHITECTURES
    + MUTANTS_OF_RESNET
    + MUTANTS_OF_SWIN
    + MUTANTS_OF_CAIT_AND_VOLO
    + MUTANTS_OF_DEIT_AND_LEVIT
    + MUTANTS_OF_POSITIONS
    + MUTANTS_OF_RECIPES
    + MUTANTS_OF_LATENTS
    + MUTANTS_OF_CHOICES
    + MUTANTS_OF_CAPTIONS
    + MUTANTS_OF_CONTRASTIVE
    + MUTANTS_OF_DRAWINGS
    + MUTANTS_OF_SCALING_LAWS
    + MUTANTS_OF_DECISIONS
    + MUTANTS_OF_PRETRAINING
)
_OF_MIXERS = "test_every_mixer.py"
# What the tests of a room need.
_COPIED = {
    "models": ("models", "tests/models"),
    "suite": ("models", "suite", "reports", "tests/suite"),
    "reports": ("models", "suite", "reports", "tests/reports"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all mutants, or those whose mistake or file has the word in it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-k", default="", metavar="WORD", help="only mutants with this word")
    word = parser.parse_args(arguments).k
    chosen = [each for each in MUTANTS if word in f"{each.file} {each.mistake}"]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        caught = list(pool.map(report, chosen))
    print(f"{sum(caught)} of {len(chosen)} caught")
    return 0 if all(caught) and chosen else 1


def report(mutant: Mutant) -> bool:
    """Whether the battery caught it; prints the test that did."""

    def make_mistake(room: Path) -> None:
        path = room / mutant.file
        path.write_text(mutated(path.read_text(), mutant))

    run = battery_of_copy(make_mistake, mutant.tests, mutant.battery, mutant.room)
    test = failed_test(run)
    verdict = f"caught by {test}" if test else "SURVIVED"
    print(f"{mutant.file}: {mutant.mistake}: {verdict}", flush=True)
    return bool(test)


def battery_of_copy(
    change: Callable[[Path], None], tests: str, battery: str = _OF_MIXERS, room: str = "models"
) -> subprocess.CompletedProcess[str]:
    """Change a copy of a room, and run the battery over it, up to the first failure.

    Args:
        change: Is given the folder of the copy.
        tests: What pytest's -k selects.
        battery: The file of tests, below `tests/` and the room.
        room: Folder of the package.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for part in _COPIED[room]:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, copy / part, ignore=ignored)
        change(copy / room)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "-p", "no:cacheprovider"]
        command += ["-m", "not slow"]  # with all values of knobs
        return subprocess.run(
            [*command, "-k", tests, f"tests/{room}/{battery}"],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
        )


def mutated(text: str, mutant: Mutant) -> str:
    """The text with the mistake in it.

    Raises:
        ValueError: if the right text does not stand there exactly once.
    """
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} must hold {mutant.old!r} once ({mutant.mistake})")
    return text.replace(mutant.old, mutant.new)


def failed_test(run: subprocess.CompletedProcess[str]) -> str:
    """Name of the first test that failed; empty where all passed.

    Raises:
        RuntimeError: where pytest neither passed nor failed: that proves nothing.
    """
    lines = [line for line in run.stdout.splitlines() if line.startswith("FAILED ")]
    if run.returncode == 0:
        return ""
    if run.returncode != 1 or not lines:
        raise RuntimeError(f"pytest ended with {run.returncode}:\n{run.stdout[-2000:]}")
    return lines[0].partition("::")[2].partition(" - ")[0]


if __name__ == "__main__":
    sys.exit(main())
