"""What the command line refuses: one sentence, the right exit code, and nothing made or started."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite import cli
from suite.lock import held

BAKEOFF = Path(sys.executable).with_name("bakeoff")
WriteAblation = Callable[..., Path]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    output: str

    @property
    def sentence(self) -> str:
        return self.output.splitlines()[-1]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in; home and temporary files elsewhere, and no token anywhere."""
    for name in ("home", "temporary", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TMPDIR", "RAY_TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path / "temporary"))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def _made(workplace: Path) -> list[str]:
    """Files here; and what Ray would have left, had it been started: a session, a token at home."""
    elsewhere = [*(workplace / "temporary").glob("ray*"), *(workplace / "home").glob(".ray*")]
    return [str(path) for path in (*(workplace / "here").rglob("*"), *elsewhere)]


def _run(*arguments: str) -> Ended:
    """The installed command, in a process of its own."""
    done = subprocess.run(
        [str(BAKEOFF), *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    return Ended(done.returncode, done.stdout + done.stderr)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """The same entry point in this process, which has torch imported already."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["bakeoff", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capfd.readouterr()
        return Ended(int(caught.value.code or 0), captured.out + captured.err)

    return call


def _expect(ended: Ended, code: int, fragments: Sequence[str]) -> None:
    assert ended.code == code, ended.output
    assert "Traceback" not in ended.output
    assert [fragment for fragment in fragments if fragment not in ended.output] == []


IN_A_PROCESS = {
    "misspelt ablation": (["run", "heds"], 2, ["'heds'", "did you mean 'heads'", "complexity"]),
    "misspelt command": (["rnu", "heads"], 2, ["No such command 'rnu'"]),
    "misspelt option": (["run", "heads", "--scal", "quick"], 2, ["--scal", "--scale"]),
    "misspelt scale": (["run", "heads", "--scale", "quik"], 2, ["'quik'", "'quick', 'standard'"]),
    "misspelt executor": (["run", "heads", "--executor", "rai"], 2, ["'rai'", "'ray', 'inline'"]),
    "missing value": (["run", "heads", "--out"], 2, ["--out"]),
    "no ablation": (["run"], 2, ["NAME"]),
    "unwritable folder": (
        ["run", "heads", "--executor", "inline", "--out", "/proc/bakeoff/out"],
        4, ["--out /proc/bakeoff/out: cannot be made"],
    ),
    "far away without a token": (
        ["run", "heads", "--address", "10.1.2.3:6379"], 3, ["10.1.2.3:6379", "token"],
    ),
    "submitting far away without a token": (
        ["submit", "heads", "--address", "http://10.1.2.3:8265"], 3, ["10.1.2.3:8265", "token"],
    ),
    "submitting to nowhere": (["submit", "heads"], 2, ["--address"]),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_A_PROCESS)
def test_the_installed_command_refuses(case: str, workplace: Path) -> None:
    arguments, code, fragments = IN_A_PROCESS[case]
    _expect(_run(*arguments), code, fragments)
    assert _made(workplace) == []


HERE = {
    "path of no ablation": (["plan", "/etc/passwd"], 2, ["/etc/passwd", "ending in .py"]),
    "path of nothing": (["plan", "../../x"], 2, ["../../x: no such ablation file"]),
    "300 characters": (["run", "a" * 300 + ".py"], 2, ["no such ablation file"]),
    "line break": (["plan", "a\nb/x"], 2, [r"a\nb/x: no such ablation file"]),
    "right-to-left override": (["plan", "a\u202eyp.b"], 2, [r"a\u202eyp.b"]),
    "escape sequence": (["plan", "\x1b[2J/"], 2, [r"\x1b[2J"]),
    "shell metacharacters": (["plan", ";$(touch x)"], 2, ["';$(touch x)'"]),
    "more of them": (["run", "`touch x`", "|touch x", "&& touch x"], 2, ["'`touch x`'"]),
    "no seeds": (["plan", "heads", "--seeds", "0"], 2, ["--seeds", "1"]),
    "too many seeds": (["plan", "heads", "--seeds", str(10**26)], 2, ["--seeds", "10000"]),
    "seeds in words": (["plan", "heads", "--seeds", "three"], 2, ["--seeds", "integer"]),
    "garbage for an address": (["run", "heads", "--address", "garbage"], 2, ["HOST:PORT"]),
    "port 99999": (["run", "heads", "--address", "127.0.0.1:99999"], 2, ["HOST:PORT"]),
    "file for an address": (["run", "heads", "--address", "file:///etc"], 2, ["HOST:PORT"]),
    "an address for this process": (
        ["run", "heads", "--address", "127.0.0.1:6379", "--executor", "inline"], 2, ["--executor"],
    ),
    "nobody at the address": (
        ["run", "heads", "--address", "127.0.0.1:1"], 4, ["127.0.0.1:1", "nothing answers"],
    ),
    "the root of the file system": (
        ["run", "heads", "--executor", "inline", "--out", "/"], 2, ["--out /", "root"],
    ),
    "submitting what is not there": (
        ["submit", "heds", "--address", "127.0.0.1:1", "--dry-run"], 2, ["did you mean 'heads'"],
    ),
    "submitting to garbage": (
        ["submit", "heads", "--address", "ray://127.0.0.1:10001"], 2, ["http://HOST:PORT"],
    ),
    "a password in the dashboard's address": (
        ["status", "--address", "http://me:@127.0.0.1:8265"], 2, ["'http://***@127.0.0.1:8265'"],
    ),
    "a password in the store's address": (
        ["submit", "heads", "--address", "127.0.0.1", "--dry-run", "--tracking-uri",
         "http://me:s3cret@h"], 3, ["http://***@h", "MLFLOW_TRACKING_PASSWORD"],
    ),
    "nobody to submit to": (
        ["submit", "heads", "--address", "127.0.0.1:1"], 4, ["127.0.0.1:1", "nothing answers"],
    ),
    "nobody to ask": (
        ["status", "--address", "127.0.0.1:1"], 4, ["127.0.0.1:1", "nothing answers"],
    ),
    "far away and no token to cancel": (
        ["cancel", "--address", "https://ray.example.com"], 3, ["ray.example.com:443", "token"],
    ),
    "no results yet": (["report", "heads"], 2, ["nothing is recorded here yet"]),
    "a journal that is not there": (["record", "no.db"], 2, ["no.db: no such file"]),
    "a journal of 300 characters": (["record", "a" * 300], 2, ["no such file"]),
}  # fmt: skip


@pytest.mark.parametrize("case", HERE)
def test_the_entry_point_refuses(case: str, workplace: Path, called: Callable[..., Ended]) -> None:
    arguments, code, fragments = HERE[case]
    ended = called(*arguments)
    _expect(ended, code, fragments)
    assert ended.sentence.isprintable()
    assert _made(workplace) == []


def test_a_file_for_a_folder_is_refused_and_kept(
    workplace: Path, called: Callable[..., Ended]
) -> None:
    file = workplace / "here" / "file"
    file.write_text("kept")
    for out in ("file", "file/below"):
        ended = called("run", "heads", "--executor", "inline", "--out", out)
        _expect(ended, 2, [f"--out {out}", "give a folder"])
    assert file.read_text() == "kept"
    assert _made(workplace) == [str(file)]


def test_two_drivers_on_one_folder(workplace: Path) -> None:
    out = workplace / "elsewhere"
    with held(out):
        ended = _run("run", "heads", "--executor", "inline", "--out", str(out))
    _expect(ended, 4, [f"--out {out}: another run works here (locked by pid {os.getpid()})"])
    assert _made(workplace) == []
    assert [path.name for path in out.iterdir()] == ["driver.lock"]


@pytest.mark.parametrize(
    "source", ["raise RuntimeError('a\\nb')", "import sys; sys.exit(0)", "x ="]
)
def test_a_broken_file_is_refused_with_its_place(
    source: str, write_ablation: WriteAblation, workplace: Path, called: Callable[..., Ended]
) -> None:
    path = write_ablation(source)
    ended = called("run", str(path), "--executor", "inline")
    _expect(ended, 2, [f"bakeoff: {path}"])
    assert ended.sentence.isprintable()
    assert _made(workplace) == []


def test_a_fault_of_ours_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, workplace: Path
) -> None:
    monkeypatch.setattr(cli, "app", lambda: {}["a fault"])
    with pytest.raises(KeyError, match="a fault"):
        cli.main()
