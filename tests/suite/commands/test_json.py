"""Test that `--json` prints one JSON value on the standard output, and nothing else there."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import bakeoff
from bakeoff.suite import cli
from bakeoff.suite.reporting.tidy import as_records
from bakeoff.suite.schema import Status
from tests.workplace import Workplace

pytestmark = pytest.mark.whole

CLAIM = """
    claim=Claim("a larger rate is better", metric="accuracy", a="learning_rate=0.01",
        b="learning_rate=0.001", by=0.01, published="so they say"),
    scales="""
REPORT_KEYS = {"counts", "verdicts", "reports"}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, store_tables: Path) -> Workplace:
    """Return a workplace with a small ablation that makes a claim; nothing has run."""
    work = Workplace(tmp_path_factory.mktemp("work"))
    file = Path(work.ablation(mixer="attention", probes=("quality",), steps=12, seeds=3))
    text = file.read_text().replace("\n    scales=", CLAIM, 1)
    text = text.replace("fashion_mnist_patches", "parity").replace("length=49", "length=8")
    file.write_text(text.replace("import Ablation,", "import Ablation, Claim,"))
    work.out.mkdir()
    shutil.copy(store_tables, work.out / "mlflow.db")
    return work


def here(
    work: Workplace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
) -> tuple[int, str, str]:
    """Run the command line in this process; return the exit code, the output and the errors."""
    monkeypatch.chdir(work.path)
    monkeypatch.setattr(sys, "argv", ["bakeoff", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return (int(caught.value.code or 0), *capsys.readouterr())


@pytest.fixture(scope="module")
def first(work: Workplace) -> dict[str, Any]:
    """Return what the first run prints, in a process of its own."""
    run = work.bakeoff("run", "small.py", "--json", "--executor", "inline")
    assert run.returncode == 0, run.stderr
    assert "trials run" in run.stderr  # progress is on standard error
    printed: dict[str, Any] = json.loads(run.stdout)
    return printed


def test_run_prints_counts_verdicts_and_paths(first: dict[str, Any], work: Workplace) -> None:
    assert first.keys() == REPORT_KEYS | {"note", "error"}
    num = first["counts"]["ok"]
    others = {"reused": 0, "failed": 0, "skipped": 0, "missing": 0}
    assert first["counts"] == {"run": num, **others, "ok": num}
    assert first["reports"] == [str(work.out / "reports/small/index.html")]
    (verdict,) = first["verdicts"]
    assert (verdict["ablation"], verdict["published"]) == ("small", "so they say")
    assert verdict["out"] == str(work.out)
    assert as_records(bakeoff.verdicts(out=work.out)) == [verdict]


def test_every_command_gives_the_same_facts(
    first: dict[str, Any],
    work: Workplace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def printed(*arguments: str) -> Any:
        code, out, errors = here(work, capsys, monkeypatch, *arguments, "--json")
        assert code == 0, errors
        return json.loads(out)

    num = first["counts"]["ok"]
    out = ("--out", str(work.out))
    again = printed("run", "small.py", "--executor", "inline", *out)
    assert again == first | {"counts": first["counts"] | {"run": 0, "reused": num}}
    report = printed("report", "small", "--records", "records.json", *out)
    assert report == {key: first[key] for key in ("verdicts", "reports")} | {
        "counts": {"failed": 0, "skipped": 0, "ok": num}
    }
    assert printed("status", *out)["counts"]["ok"] == num
    assert {trial["ablation"] for trial in printed("plan", "small.py", *out)} == {"small"}
    assert {"ablation", "question"} <= printed("list")[0].keys()

    records = json.loads((work.path / "records.json").read_text())
    frame = bakeoff.results("small.py", out=work.out).query("at == ''")
    scores = [r for r in records if r["metric"]["name"] == "accuracy"]
    scores = [r for r in scores if r["benchmark"]["extra_info"]["at"] == ""]
    for variant in ("learning_rate=0.01", "learning_rate=0.001"):
        (values,) = (
            r["metric"]["benchmark_values"] for r in scores if r["model"]["name"] == variant
        )
        rate = float(variant.partition("=")[2])
        rows = frame[(frame["metric"] == "accuracy") & (frame["axis_learning_rate"] == rate)]
        assert rows["value"].to_list() == pytest.approx(values)
        assert len(values) == 3


def test_python_gives_the_same_facts(
    first: dict[str, Any], work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work.path)
    outcome = bakeoff.run("small.py", out=work.out, executor="inline")
    num = first["counts"]["ok"]
    assert outcome.counts == first["counts"] | {"run": 0, "reused": num}
    assert outcome.counts[Status.OK] == num  # earlier versions gave it under this key
    assert [str(outcome.report)] == first["reports"]
    assert as_records(outcome.verdicts) == first["verdicts"]
    pd.testing.assert_frame_equal(outcome.results, bakeoff.results("small", out=work.out))


MISTAKES = {
    "an unknown ablation": (["run", "smal.py"], "smal.py: no such ablation file"),
    "nothing recorded": (["report", "nothing"], "nothing is recorded for 'nothing'"),
    "records in a file": (["report", "small", "--records", "small.py/x.json"], "cannot be written"),
    "editions as JSON": (["report", "small", "--editions"], "--editions and --json cannot be"),
    "records of editions": (
        ["report", "small", "--editions", "--records", "x"],
        "--editions and --records cannot be given together",
    ),
    "records of a comparison": (
        ["report", "small", "--compare", "a", "b", "--records", "x"],
        "--records and --compare cannot be given together",
    ),
    "a price of a comparison": (
        ["report", "small", "--compare", "a", "b", "--price", "2"],
        "--price and --compare cannot be given together",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_leaves_the_standard_output_empty(
    case: str,
    first: dict[str, Any],
    work: Workplace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments, said = MISTAKES[case]
    code, out, errors = here(work, capsys, monkeypatch, *arguments, "--json")
    assert (code, out) == (2, "")
    assert said in " ".join(errors.split())
    assert not (work.path / "x").exists()


def test_a_comparison_is_an_object_too(
    first: dict[str, Any],
    work: Workplace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(work.out, work.path / "copy", dirs_exist_ok=True)
    arguments = ("report", "small", "--compare", "out", "copy", "--json")
    code, out, errors = here(work, capsys, monkeypatch, *arguments)
    assert code == 0, errors
    ((one),) = json.loads(out)["comparisons"]
    assert one["ablation"] == "small"
    assert one["headline"].startswith("No significant change")
    assert (work.path / one["report"]).is_file()
