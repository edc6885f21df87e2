"""Tests for `bakeoff logs`, and for failures that quote the line of the user's code."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bakeoff.suite.cli import app
from bakeoff.suite.errors import FAILED, UsageError
from bakeoff.suite.execution.output import MOST_BYTES
from bakeoff.suite.journal.journal import Journal
from tests.workplace import Workplace

MIXER = """
from bakeoff.models.mixer import Mixer

class Loud(Mixer):
    def forward(self, x, mask=None, context=None, context_mask=None):
        if len(x) >= 100:
            print("far too much" * 300_000)
            print("the last words")
            raise RuntimeError(f"no {x.ndim}")
        print("planning")
        return x
"""


@pytest.mark.whole
@pytest.mark.usefixtures("kept_servers", "plain_figures")
def test_a_failure_is_told_with_its_line_and_its_output(tmp_path: Path, store_tables: Path) -> None:
    work = Workplace(tmp_path)
    work.out.mkdir()
    shutil.copy(store_tables, work.out / "mlflow.db")
    (tmp_path / "loud_mixers.py").write_text(MIXER)
    file = work.ablation(mixer="loud_mixers:Loud", probes=["quality"], seeds=1, values=[1e-3, 1e-2])
    bakeoff = CliRunner().invoke
    ran = bakeoff(app, ["run", file, "--executor", "inline", "--out", str(work.out)])
    assert ran.exit_code == FAILED
    line = 'RuntimeError: no 3 (at loud_mixers.py, line 9: raise RuntimeError(f"no {x.ndim}"))'
    with Journal(work.out / "journal.db", read_only=True) as journal:
        first, other = journal.statuses()
        (result,) = journal.results([first])
    for said in (ran.stderr, bakeoff(app, ["status", "--out", str(work.out)]).stdout):
        assert f"error: {line}" in said
        assert first[:8] in said or other[:8] in said
        assert "planning" not in said
        assert "logs TRIAL" in said
    assert "far too much" not in ran.output
    page = (work.out / "reports/small/index.html").read_text()
    assert "no 3 (at loud_mixers.py, line 9: raise RuntimeError(" in page
    assert "bakeoff logs TRIAL prints its traceback" in page
    assert result.reason == line
    assert len(result.output) <= MOST_BYTES + 4
    logs = bakeoff(app, ["logs", first[:6], "--out", str(work.out)])
    assert logs.exit_code == 0
    assert "--- traceback\nTraceback (most recent call last):" in logs.stdout
    assert logs.stdout.endswith("far too much\nthe last words\n")
    again = ["run", file, "--executor", "inline", "--set", "seeds=2", "--set", "steps=3"]
    assert bakeoff(app, [*again, "--out", str(work.out)]).exit_code == FAILED
    assert bakeoff(app, ["logs", first[:6], "--out", str(work.out)]).stdout == logs.stdout
    for wrong, sentence in (("0000000", "no trial of"), ("", "6 trials of")):
        refused = bakeoff(app, ["logs", wrong, "--out", str(work.out)])
        assert isinstance(refused.exception, UsageError)
        assert sentence in str(refused.exception)
