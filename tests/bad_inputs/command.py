"""The end of a command and the files that it made: the criteria for every bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

BAKEOFF = Path(sys.executable).with_name("bakeoff")
WriteAblation = Callable[..., Path]
PASSWORD = "s3cret"


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr

    @property
    def sentence(self) -> str:
        """The last line."""
        return self.output.splitlines()[-1]


Called = Callable[..., Ended]


@dataclass(frozen=True)
class Place:
    """An empty working folder, with home and temporary files elsewhere."""

    path: Path

    @property
    def here(self) -> Path:
        return self.path / "here"

    def made(self) -> list[str]:
        """Return the files in the working folder, and those that a started Ray leaves elsewhere."""
        left = [*(self.path / "temporary").glob("ray*"), *(self.path / "home").glob(".ray*")]
        return [str(path) for path in (*self.here.rglob("*"), *left)]

    def installed(self, *arguments: str, **environment: str) -> Ended:
        """Run the installed command in a separate process."""
        done = subprocess.run(
            [str(BAKEOFF), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **environment},
        )
        return Ended(done.returncode, done.stdout, done.stderr)


def expect(ended: Ended, code: int, fragments: Sequence[str], unused: Place | None = None) -> None:
    """Check the code and the fragments, and that no traceback, password or file appears."""
    assert ended.code == code, ended.output
    assert "Traceback" not in ended.output
    assert PASSWORD not in ended.output
    assert unused is None or unused.made() == []
    assert [fragment for fragment in fragments if fragment not in ended.output] == []
    assert ended.sentence.isprintable()


def expect_refused(
    ended: Ended, code: int, fragments: Sequence[str], unused: Place | None = None
) -> None:
    """Check as `expect` does, and that the only output is one sentence from bakeoff."""
    expect(ended, code, fragments, unused)
    assert ended.stdout == ""
    (sentence,) = ended.stderr.splitlines()
    assert sentence.startswith("bakeoff: ")
    assert len(sentence) < 2_100
