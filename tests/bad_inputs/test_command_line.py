"""Test that bad command lines give one sentence and an exit code, and make or start nothing."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bakeoff.suite import cli
from bakeoff.suite.sweep.folder_lock import lock_folder
from tests.bad_inputs.command import Called, Place, expect, expect_refused

INLINE = ("--executor", "inline")


@pytest.mark.whole
@pytest.mark.bad_input(25)
def test_the_installed_command_refuses(place: Place) -> None:
    """Check a code that is not 2 in a separate process; other tests call it in this one."""
    out = ["--out", "/proc/bakeoff/out"]
    ended = place.installed("run", "heads", *INLINE, *out)
    expect(ended, 4, ["--out /proc/bakeoff/out: cannot be made"], place)


USAGE = {
    "line-23 a misspelt command": (["rnu", "heads"], ["No such command 'rnu'"]),
    "line-23 a misspelt option": (["run", "heads", "--scal", "quick"], ["--scal", "--scale"]),
    "line-23 a missing value": (["run", "heads", "--out"], ["--out"]),
    "line-23 no ablation": (["run"], ["NAME"]),
    "line-23 a flag twice, with a value": (["run", "heads", "--fail-fast=yes"], ["--fail-fast"]),
    "line-23 a misspelt scale": (["run", "heads", "--scale", "quik"], ["'quik'", "'standard'"]),
    "a scale in capitals": (["run", "heads", "--scale", "Quick"], ["'Quick'", "'quick'"]),
    "a misspelt executor": (["run", "heads", "--executor", "rai"], ["'rai'", "'inline'"]),
    "no seeds": (["plan", "heads", "--seeds", "0"], ["--seeds", "1"]),
    "line-08 10^26 seeds": (["plan", "heads", "--seeds", str(10**26)], ["--seeds", "10000"]),
    "seeds in words": (["plan", "heads", "--seeds", "three"], ["--seeds", "integer"]),
    "seeds by a fraction": (["plan", "heads", "--seeds", "1.5"], ["--seeds", "integer"]),
    "submitting to nowhere": (["submit", "heads"], ["--address"]),
    "comparing with nothing": (["report", "heads", "--compare", "a"], ["--compare", "2 arguments"]),
    **{
        f"300 characters for the folder of {command}": (
            [*command.split(), "--out", "a" * 300],
            ["--out", "the name is too long"],
        )
        for command in ("run heads", "report heads", "record x.db", "verify", "doctor", "ui")
    },
    "5,000 characters for a folder": (
        ["plan", "heads", "--out", "a/" * 2_500],
        ["the name is too long"],
    ),
    "a port that is none": (["ui", "heads", "--port", "99999"], ["--port", "65535"]),
}


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage_is_told_with_the_option(case: str, place: Place, called: Called) -> None:
    arguments, fragments = USAGE[case]
    expect(called(*arguments), 2, fragments, place)


NAMES = {
    "a path of no ablation": (["plan", "/etc/passwd"], ["/etc/passwd", "ending in .py"]),
    "line-16 a path of nothing": (["run", "../../x"], ["../../x: no such ablation file"]),
    "line-16 a path below": (["run", "a/b"], ["a/b: no such ablation file"]),
    "line-16 300 characters": (["run", "a" * 300 + ".py"], ["no such ablation file"]),
    "line-16 a line break": (["plan", "a\nb/x"], [r"a\nb/x: no such ablation file"]),
    "line-16 a right-to-left override": (["plan", "a\u202eyp.b"], [r"a\u202eyp.b"]),
    "a null character": (["plan", "a\0b.py"], [r"a\x00b.py: no such ablation file"]),
    "a byte that is no letter": (["plan", "a\udcffb.py"], [r"a\udcffb.py: no such"]),
    "an escape sequence": (["plan", "\x1b[2J/"], [r"\x1b[2J"]),
    "a name of 100,000 characters": (["plan", "a" * 100_000], ["no ablation 'aaa", "heads"]),
    "a misspelt ablation": (["run", "heds"], ["'heds'", "did you mean 'heads'"]),
    "an empty name": (["plan", ""], ["no ablation ''"]),
    "line-29 shell metacharacters": (["plan", ";$(touch x)"], ["';$(touch x)'"]),
    "line-29 more of them": (["run", "`touch x`", "|touch x", "&& touch x"], ["'`touch x`'"]),
    "submitting what is not there": (
        ["submit", "heds", "--address", "127.0.0.1:1", "--dry-run"],
        ["did you mean 'heads'"],
    ),
    "no results yet": (["report", "heads"], ["nothing is recorded here yet"]),
    "a journal that is not there": (["record", "no.db"], ["no.db: no such file"]),
    "a journal of 300 characters": (["record", "a" * 300], ["no such file"]),
    "a journal that is a folder": (["record", "."], ["no such file"]),
    "a set that nobody has": (["data", "fetch", "../../x"], ["'../../x'", "enwik8"]),
    "a time of minus five": (["run", "heads", "--time-limit", "-5"], ["--time-limit '-5'"]),
    "a time that is none": (["run", "heads", "--time-limit", "nan"], ["--time-limit 'nan'"]),
    "a time of 1e400": (["run", "heads", "--time-limit", "1e400"], ["--time-limit '1e400'"]),
}


@pytest.mark.parametrize("case", NAMES)
def test_one_sentence_says_it(case: str, place: Place, called: Called) -> None:
    arguments, fragments = NAMES[case]
    expect_refused(called(*arguments), 2, fragments, place)


@pytest.mark.bad_input(25)
@pytest.mark.parametrize("out", ["file", "file/below", "nowhere", "/", "root"])
@pytest.mark.parametrize("command", ["run", "record"])
def test_what_cannot_be_an_output_folder(
    command: str, out: str, place: Place, called: Called
) -> None:
    (place.here / "file").write_text("kept")
    (place.here / "nowhere").symlink_to("gone/away")
    (place.here / "root").symlink_to("/")
    before = place.made()
    subject = ["heads", *INLINE] if command == "run" else [str(_a_journal(place))]
    expect_refused(called(command, *subject, "--out", out), 2, ["--out "])
    assert (place.here / "file").read_text() == "kept"
    assert place.made() == before


def _a_journal(place: Place) -> Path:
    from bakeoff.suite.journal.journal import Journal

    file = place.path / "journal.db"
    with Journal(file):
        pass
    return file


@pytest.mark.parametrize("command", ["run", "plan", "status", "verify"])
def test_a_database_of_somebody_else_is_no_journal_and_stays_as_it_is(
    command: str, place: Place, called: Called
) -> None:
    (place.here / "out").mkdir()
    file = place.here / "out" / "journal.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE accounts (name)")
    before = file.read_bytes()
    names = ["heads"] if command in ("plan", "run") else []
    more = ["--executor", "inline"] if command == "run" else []
    expect_refused(called(command, *names, *more), 4, [f"{file}: this is not a bakeoff journal."])
    assert file.read_bytes() == before


@pytest.mark.parametrize("command", ["plan", "status", "verify", "report", "doctor"])
@pytest.mark.parametrize("out", ["file", "file/below", "nowhere", "a\udcff"])
def test_who_only_reads_makes_nothing(command: str, out: str, place: Place, called: Called) -> None:
    (place.here / "file").write_text("kept")
    (place.here / "nowhere").symlink_to("gone/away")
    before = place.made()
    names = ["heads"] if command in ("plan", "report") else []
    ended = called(command, *names, "--out", out)
    assert ended.code in (0, 2, 4), ended
    assert "Traceback" not in ended.output
    assert place.made() == before


@pytest.mark.bad_input(26)
def test_two_drivers_on_one_folder(place: Place, called: Called) -> None:
    out = place.path / "elsewhere"
    with lock_folder(out):
        ended = called("run", "heads", *INLINE, "--out", str(out))
    expect(
        ended,
        4,
        [f"--out {out}: another run uses this folder (locked by pid {os.getpid()})"],
        place,
    )
    assert [path.name for path in out.iterdir()] == ["driver.lock"]


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    monkeypatch.setattr(cli, "app", lambda: {}["a fault"])
    with pytest.raises(KeyError, match="a fault"):
        cli.main()
