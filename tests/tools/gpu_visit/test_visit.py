"""Test that a visit ends in time with its table if a part raises, hangs or is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.gpu_visit import __main__ as program
from tools.gpu_visit.__main__ import main
from tools.gpu_visit.environment import environment
from tools.gpu_visit.results import (
    ENVIRONMENT,
    MOST_BYTES,
    RESULTS,
    STOPPED,
    TABLE,
    Finding,
    Results,
    Row,
)
from tools.gpu_visit.runner import ROOT, Part
from tools.gpu_visit.table import MOST_LINES, table

pytestmark = pytest.mark.whole

MODULE = """
import os, signal, time
from pathlib import Path
from tools.gpu_visit.results import Finding

MARKS = Path(__file__).parent

def items(visit):
    def measured(name, then=lambda: None):
        def measure():
            with (MARKS / "measured").open("a") as file:
                file.write(name + "\\n")
            then()
            return Finding(text="it runs")
        return name, measure
    {items}
"""
GOOD = 'yield from (measured("a"), measured("b"))'
BAD = """
    yield measured("before")
    yield measured("raises", lambda: 1 / 0)
    yield measured("dies", lambda: os.kill(os.getpid(), signal.SIGKILL))
    yield measured("hangs", lambda: time.sleep(60))
    yield measured("after")
"""


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for results; the machine is not examined."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(program, "_identify", lambda out, device: None)
    return tmp_path / "visit"


def part(out: Path, name: str, items: str, item_seconds: float = 600) -> Part:
    (out.parent / f"{name}_module.py").write_text(MODULE.replace("{items}", items.strip()))
    return Part(name, 10, f"{name}_module", item_seconds, f"the part {name}")


def visit(out: Path, *parts: Part, options: tuple[str, ...] = ()) -> int:
    return main(["--device", "cpu", "--minutes", "1", "--out", str(out), *options], parts)


def measured(out: Path) -> list[str]:
    return (out.parent / "measured").read_text().split()


def test_a_part_that_fails_leaves_rows_and_the_next_one_runs(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Part("broken", 10, "no_such_module", 600, "a part that cannot be imported")
    parts = (part(out, "bad", BAD, item_seconds=0.5), broken, part(out, "good", GOOD))
    slow_scale = [Part(p.name, p.seconds, p.module, p.item_seconds / 2, p.title) for p in parts]
    assert visit(out, *slow_scale) == 0
    rows = {row.name: row for row in Results(out).of("bad")}
    assert {name: row.status for name, row in rows.items()} == {
        "before": "ok",
        "raises": "error",
        "dies": "killed",
        "hangs": "killed",
        "after": "ok",
    }
    assert "ZeroDivisionError" in rows["raises"].text
    assert "signal 9" in rows["dies"].text
    assert "it took more than" in rows["hangs"].text
    (start,) = Results(out).of("broken")
    assert "no_such_module" in start.text
    assert [row.status for row in Results(out).of("good")] == ["ok", "ok"]
    printed = capsys.readouterr().out
    assert printed == (out / TABLE).read_text()
    assert "bad (the part bad): 1 error, 2 killed, 2 ok" in printed
    assert measured(out) == ["before", "raises", "dies", "hangs", "after", "a", "b"]


def test_resuming_measures_nothing_twice_and_goes_on(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = part(out, "first", GOOD), part(out, "second", GOOD)
    assert visit(out, first, second) == 0
    lines = (out / RESULTS).read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["part"] == "first"]
    cut = next(line for line in lines if json.loads(line)["name"] == "a" and line not in kept)
    (out / RESULTS).write_text("\n".join([*kept, cut, '{"part": "second", "na']) + "\n")
    assert visit(out, first, second) == 2
    assert "is not empty; --resume goes on with it." in capsys.readouterr().err
    assert visit(out, first, second, options=("--resume",)) == 0
    assert measured(out) == ["a", "b", "a", "b", "b"]
    assert [row.name for row in Results(out).of("second")] == ["a", "b"]


def test_a_part_ends_at_its_bound_and_is_measured_again_when_resumed(out: Path) -> None:
    slow = part(out, "slow", 'yield measured("sleeps", lambda: time.sleep(60))')
    begun = time.monotonic()
    assert main(["--device", "cpu", "--minutes", "0.05", "--out", str(out)], (slow,)) == 0
    assert time.monotonic() - begun < 30
    (row,) = Results(out).of("slow")
    assert row.status == STOPPED
    assert (Results(out).done("slow"), Results(out).num_planned("slow")) == ([], 1)
    assert "slow (the part slow): 1 stopped" in (out / TABLE).read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_visit_keeps_its_results_and_prints_its_table(
    out: Path, number: int
) -> None:
    items = 'yield from (measured("a"), measured("sleeps", lambda: time.sleep(60)))'
    slow = part(out, "slow", items)
    code = (
        "import sys; from tools.gpu_visit import __main__ as m; from tools.gpu_visit.runner import "
        "Part; m._identify = lambda out, device: None; "
        f"sys.exit(m.main(sys.argv[1:], [Part('slow', 10, {slow.module!r}, 600, 'slow')]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--device", "cpu", "--minutes", "5", "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{out.parent}"},
        text=True,
        stdout=subprocess.PIPE,
    )
    marks = out.parent / "measured"
    while not (marks.exists() and "sleeps" in marks.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "slow (slow): 1 ok; 1 of 2 not reached" in said
    assert (out / TABLE).read_text() == said


def test_a_folder_of_other_hardware_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = {"commit": "abc", "device": "H200", "torch": "2.11"}
    answer = subprocess.CompletedProcess([], 0, stdout=json.dumps(here), stderr="")
    monkeypatch.setattr(program.subprocess, "run", lambda *given, **named: answer)
    (tmp_path / ENVIRONMENT).write_text(json.dumps(here | {"device": "H100"}))
    assert main(["--resume", "--out", str(tmp_path)], ()) == 3
    assert "names device H100, and this is H200; choose another --out." in capsys.readouterr().err


def test_without_a_gpu_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit) as refused:
        environment("cuda")
    answer = subprocess.CompletedProcess([], 1, stdout="", stderr=f"{refused.value}\n")
    monkeypatch.setattr(program.subprocess, "run", lambda *given, **named: answer)
    assert main(["--out", str(tmp_path / "visit")], ()) == 4
    assert capsys.readouterr().err == (
        "torch finds no CUDA device here; --device cpu runs all parts in tiny sizes.\n"
    )


def test_a_table_has_at_most_sixty_lines_and_what_is_wrong_comes_first(tmp_path: Path) -> None:
    results = Results(tmp_path)
    parts = [Part(name, 1, "", 1, "many") for name in "abcdefg"]
    for each in parts:
        for index in range(15):
            results.add(Row(part=each.name, name=f"item {index}", status="ok", text=f"{index} ms"))
        results.add(Row(part=each.name, name="bad", status="failed", text="x" * 10_000))
    lines = table(parts, results, {"device": "H200"}, ["a note"]).splitlines()
    assert len(lines) == MOST_LINES
    assert max(map(len, lines)) <= 160
    first = lines.index("a (many): 1 failed, 15 ok")
    assert lines[first + 1].startswith("  FAILED bad: xxx")
    assert any("more lines in results.jsonl" in line for line in lines)


def test_what_is_too_large_to_be_carried_is_left_out(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out.mkdir()
    with (out / "log.txt").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert visit(out, options=("--resume",)) == 0
    assert "log.txt is removed: it has more than 16 MiB" in capsys.readouterr().out
    assert not (out / "log.txt").exists()


def test_a_finding_is_of_one_line() -> None:
    assert Row(part="a", name="b", status="ok", text="two\nlines  here").text == "two lines here"
    assert Finding(text="x").status == "ok"
