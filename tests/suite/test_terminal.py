"""Tests for output that is closed, loses its reader or terminal, or is limited to ASCII."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

from bakeoff.suite.terminal import in_ascii, print_line

SAYS = r"""
import sys
from bakeoff.suite.terminal import prepare_output
prepare_output()
print("a difference of \u22120.05 \u00b1 0.01, \u2265 3 \u2192 gr\u00f6\u00dfer \u65e5")
sys.stdout.flush()
print("said", file=sys.stderr)
for _ in range(100):
    print("x" * 1000)
sys.exit(5)
"""
ASCII = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii:strict",
}


def said(shell: str) -> subprocess.CompletedProcess[str]:
    """Run the program above by a shell command, in which ``$P`` is Python."""
    environment = {**os.environ, **ASCII, "P": sys.executable, "SAYS": SAYS}
    return subprocess.run(
        ["bash", "-c", shell], env=environment, capture_output=True, text=True, check=False
    )


def test_a_sign_that_the_terminal_lacks_becomes_one_that_means_the_same() -> None:
    found = said('"$P" -c "$SAYS"')
    assert found.stdout.splitlines()[0] == "a difference of -0.05 +/- 0.01, >= 3 -> grosser ?"
    assert (found.returncode, found.stderr) == (5, "said\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_line_of_errors_is_written_at_once(unbuffered: str) -> None:
    program = (
        "import os, sys; from bakeoff.suite.terminal import prepare_output; prepare_output();"
        "print('said', file=sys.stderr); os._exit(5)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (5, "said\n")


@pytest.mark.parametrize(
    "shell",
    [
        '"$P" -c "$SAYS" >&-',
        '"$P" -c "$SAYS" >&- 2>&-',
        '"$P" -c "$SAYS" <&- >&- 2>&-',
        'set -o pipefail; "$P" -c "$SAYS" | head -1 >/dev/null',
        'set -o pipefail; "$P" -c "$SAYS" 2>&1 | true',
    ],
)
def test_output_that_nobody_reads_changes_neither_the_exit_code_nor_the_rest(shell: str) -> None:
    found = said(shell)
    assert found.returncode == 5
    assert found.stderr in ("", "said\n")


def test_a_terminal_that_is_gone_ends_nothing() -> None:
    waits = SAYS.replace("prepare_output()\nprint", "prepare_output()\ninput()\nprint")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.close(ours)
        process.communicate(b"\n", timeout=60)
    assert process.returncode == 5


def test_a_full_disk_is_still_an_error() -> None:
    found = said('"$P" -c "$SAYS" >/dev/full')
    assert "No space left on device" in found.stderr


@pytest.mark.parametrize(
    ("character", "wanted"), [("a", "a"), ("\u2212", "-"), ("\u00fc", "u"), ("\u65e5", "?")]
)
def test_the_nearest_character(character: str, wanted: str) -> None:
    assert in_ascii(character) == wanted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_broken_between_words_on_a_narrow_terminal_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = "  missing  quality  shakespeare_tragedies  seeds 0-9  heads=1; heads=2"
    monkeypatch.setenv("COLUMNS", "40")
    narrow, pipe = Terminal(), io.StringIO()
    print_line(line, narrow)
    print_line(line, pipe)
    assert pipe.getvalue() == f"{line}\n"
    assert narrow.getvalue().split() == line.split()
    first, *others = narrow.getvalue().splitlines()
    assert first.startswith("  missing")
    assert all(other.startswith("    ") for other in others)
    assert max(map(len, [first, *others])) <= 40


@pytest.mark.parametrize(("width", "indent"), [(44, 24), (43, 4)])
def test_further_lines_start_where_a_value_starts_if_there_is_room(
    width: int, indent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    terminal = Terminal()
    print_line("  " + "claim".ljust(22) + "eight heads beat one head of them", terminal, indent=24)
    _, *others = terminal.getvalue().splitlines()
    assert others
    assert all(len(line) - len(line.lstrip()) == indent for line in others)
