"""Tests for `bakeoff report --compare` on output folders of small sweeps."""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

import pytest
import torch

from bakeoff.suite import cli, provenance
from bakeoff.suite.sweep.driver import Options, run
from tests.workplace import Workplace

pytestmark = pytest.mark.whole

COMMITS = ("aaaa00000000", "bbbb00000000")


@pytest.fixture(scope="module")
def work(
    tmp_path_factory: pytest.TempPathFactory, store_tables: Path, plain_figures: None
) -> Workplace:
    """Return a workplace with `out`, its `copy`, and `other` with more steps at a new commit."""
    torch.set_num_threads(1)
    work = Workplace(tmp_path_factory.mktemp("compared"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "commit", lambda: COMMITS[0])
        _sweep(work, "out", store_tables, steps=6)
        patch.setattr(provenance, "commit", lambda: COMMITS[1])
        _sweep(work, "other", store_tables, steps=30)
    shutil.copytree(work.out, work.path / "copy")
    return work


def _sweep(work: Workplace, out: str, tables: Path, *, steps: int) -> None:
    folder = work.path / out
    folder.mkdir()
    shutil.copy(tables, folder / "mlflow.db")
    run(work.ablation(steps=steps, seeds=3), options=Options(out=folder, executor="inline"))


def _here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str]:
    """Run the command line in this process; return the exit code and all output."""
    monkeypatch.setattr(sys, "argv", ["bakeoff", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    said = capsys.readouterr()
    return int(caught.value.code or 0), said.out + said.err


def test_two_output_folders_side_by_side_through_the_installed_command(work: Workplace) -> None:
    done = work.bakeoff("report", "small", "--compare", "out", "other")
    assert done.returncode == 0, done.stderr
    headline, page = done.stdout.splitlines()
    assert page == str(work.out / "reports/small/compare-out-other/index.html")
    assert "counts: 2 identical" in headline
    with Path(page).with_name("moved.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [row for row in rows if row["kind"] == "score"]
    assert {row["variant"] for row in scores} == {"learning_rate=0.001", "learning_rate=0.01"}
    # With five times the steps, all trials and all numbers differ.
    assert {row["differs"] for row in scores} == {"trial, commit"}
    assert all(row["outcome"] != "identical" and row["n"] == "3" for row in scores)
    text = Path(page).read_text()
    assert "setting: steps" in text
    assert "steps=30" in text[text.index("small.py, from A to B") :]  # the diff of the user's file
    assert all(commit in text for commit in COMMITS)


def test_a_copy_is_identical_and_the_bytes_are_too(
    work: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work.path)
    address = f"sqlite:///{work.path / 'copy' / 'mlflow.db'}"
    arguments = ("report", "small", "--out", "out", "--compare", "out", address)
    code, said = _here(capsys, monkeypatch, *arguments)
    assert code == 0, said
    headline, page = said.splitlines()
    assert headline.startswith("No significant change: 2 scores: 2 identical")
    folder = Path(page).parent
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    assert _here(capsys, monkeypatch, *arguments) == (0, said)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_commit_and_a_device_of_one_store(
    work: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work.path)
    device = provenance.cpu_model()
    code, said = _here(capsys, monkeypatch, "report", "small", "--compare", "aaaa", device)
    assert code == 0, said
    headline, page = said.splitlines()
    assert headline.startswith("No significant change")  # both sides have the same rows
    assert Path(page).parent.name.startswith(f"compare-{COMMITS[0]}-")


REFUSED = {
    "a store with itself": (("out", "./out"), 2, ["both are store out"]),
    "nothing recorded": (("out", "nobody"), 2, ["'nobody'", "commits aaaa00000000 (", "("]),
    "a folder that is not there": (("out", "no/such"), 2, ["'no/such': there is no output folder"]),
    "one name": (("out",), 2, ["--compare"]),
    "a bare folder": (("out", "file:///etc"), 3, ["plain files are refused"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_command_refuses(
    case: str, work: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work.path)
    names, wanted, fragments = REFUSED[case]
    code, said = _here(capsys, monkeypatch, "report", "small", "--compare", *names)
    assert (code, [part for part in fragments if part not in said]) == (wanted, []), said
    assert "Traceback" not in said


def test_another_ablation_is_not_there(
    work: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work.path)
    code, said = _here(capsys, monkeypatch, "report", "heads", "--compare", "out", "other")
    assert code == 2
    assert "nothing is recorded for 'heads' there" in said
    code, said = _here(capsys, monkeypatch, "report", "smal")
    assert code == 2
    assert "'smal' yet; did you mean 'small'? Recorded are: small." in said
    monkeypatch.chdir(work.path / "other")
    code, said = _here(capsys, monkeypatch, "report", "small", "--compare", "../out", "nosuch")
    assert code == 2
    assert "--compare 'nosuch': there is no output folder with a store of this name" in said
    monkeypatch.chdir(work.path)
    code, said = _here(capsys, monkeypatch, "report", "heads", "--compare", "aaaa", "bbbb")
    assert "nothing is recorded for 'heads' yet" in said


def test_a_price_is_for_the_page_of_a_sweep_on_gpus(
    work: Workplace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work.path)
    code, said = _here(capsys, monkeypatch, "report", "small", "--price", "2.50 USD")
    assert code == 0
    assert "small: no trial used a GPU, so its page has no table of costs; `bakeoff status" in said
    for arguments in (["status"], ["report", "small"], ["plan", "heads"]):
        code, said = _here(capsys, monkeypatch, *arguments, "--price", "free")
        assert (code, said.count("\n")) == (2, 1)
        assert said.startswith("bakeoff: --price 'free': give the price of an hour above 0")
    refused = ("report", "small", "--price", "2", "--compare", "out", "other")
    assert _here(capsys, monkeypatch, *refused)[0] == 2
