"""Tests on a machine with torch and little else: it leaves one file, which is recorded elsewhere.

Ray, MLflow, DeepSpeed and the packages for reports are missing.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from pandas.testing import assert_frame_equal

import bakeoff
from bakeoff.reports.view import read_sweep
from bakeoff.suite.errors import DONE, FAILED
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import JournalError
from bakeoff.suite.reporting.frames import CURVES_FILE, RESULTS_FILE, by_trial, sweep_of
from bakeoff.suite.schema import Plan, Result
from bakeoff.suite.sweep.driver import Options, record_journal
from bakeoff.suite.sweep.finish import SweepOutcome
from bakeoff.suite.tracking.read import load_artifacts
from tests.workplace import Workplace

pytestmark = pytest.mark.usefixtures("plain_figures")

ROOT = Path(bakeoff.__file__).parents[1]
HAS = ("torch", "numpy", "pandas", "scipy", "typer", "rich", "pydantic")
LACKS = (
    "ray",
    "mlflow",
    "deepspeed",
    "pyarrow",
    "matplotlib",
    "jinja2",
    "safetensors",
    "sklearn",
    "psutil",
    "sacrebleu",
)
BLOCKER = f"""
import sys
for name in {LACKS}:
    sys.modules[name] = None
"""
FIND = "import sys, importlib.util as u; print(*filter(u.find_spec, sys.argv[1:]))"
MIXER = """
import os
import signal
import time
import traceback
from pathlib import Path

from bakeoff.models.mixers.fnet import FNet
from bakeoff.suite import timeouts

HERE = Path(__file__).parent
DRIVER, TIMED, CUT = HERE / "driver", HERE / "timed", HERE / "cut"
IS_DUE = timeouts._is_due
if not DRIVER.exists():  # the driver plans first
    DRIVER.write_text(str(os.getpid()))
    timeouts._is_due = lambda one, now: (
        IS_DUE(one, now) or CUT.exists() and one is timeouts._ALARMS[0]
    )


class CutAfterTiming(FNet):
    # The driver's deadline comes with the first training after a timing.
    def forward(self, x, mask=None, context=None, context_mask=None):
        if any("/suite/timing/" in frame.filename for frame in traceback.extract_stack()):
            TIMED.touch()
        elif TIMED.exists():
            CUT.touch()
            os.kill(int(DRIVER.read_text()), signal.SIGALRM)
            time.sleep(600)
        return super().forward(x, mask)
"""


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def ablation(work: Workplace, mixer: str = "fnet") -> str:
    probes = ["quality", "parameters", "flops", "step_time"]
    return work.ablation(mixer=mixer, axis="depth", values=[1, 2], probes=probes, seeds=2, batch=8)


def run_lonely(
    python: Sequence[str], file: str, out: Path, limit: str, path: Sequence[Path]
) -> subprocess.CompletedProcess[str]:
    """Run `bakeoff run` as a user does there, in a folder without files of this project."""
    return subprocess.run(
        [
            *python,
            "-m",
            "bakeoff.suite.cli",
            "run",
            file,
            "--executor",
            "inline",
            "--time-limit",
            limit,
            "--out",
            str(out),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        cwd=Path(file).parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def refuse_more_than_one_file(done: subprocess.CompletedProcess[str], out: Path) -> None:
    """Check the message that there is no store and no report, and that only the journal is left."""
    said = " ".join(done.stderr.split())
    assert "MLflow is not installed here" in said
    assert f"The results are in {out / 'journal.db'}" in said
    assert "There is no report" in said
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["driver.lock", "journal.db"]
    assert (out / "driver.lock").read_text() == ""


def kept(journal: Path) -> tuple[Plan, list[Result]]:
    with Journal(journal, read_only=True) as opened:
        (plan,) = opened.plans()
        return plan, list(opened.results(trial.trial_id for trial in plan.trials))


def refuse_other_rows(journal: Path, out: Path) -> None:
    """Check that the frames in the store of `out` equal those of the journal exactly."""
    plan, results = kept(journal)
    with tempfile.TemporaryDirectory() as folder:
        uri = f"sqlite:///{out / 'mlflow.db'}"
        ((scale, fetched),) = load_artifacts(uri, Path(folder))["small"]
        found = read_sweep(fetched / RESULTS_FILE, fetched / CURVES_FILE)
    wanted = sweep_of(plan, by_trial(results))
    assert scale == "quick"
    assert_frame_equal(found.results, wanted.results, check_exact=True)
    assert_frame_equal(found.curves, wanted.curves, check_exact=True)
    assert found.about == wanted.about
    assert any(place.conditions for place in found.about.provenances.values())


def record(journal: Path, out: Path) -> SweepOutcome:
    """Record the journal on a machine that has a store, and check the report."""
    outcome = record_journal(journal, Options(out=out))
    assert outcome.error == ""
    assert outcome.reports[0].is_file()
    refuse_other_rows(journal, out)
    return outcome


@pytest.fixture
def without(tmp_path: Path) -> Path:
    """Return a folder that makes packages unimportable if it is first on the path."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(BLOCKER)
    return folder


@pytest.mark.slow  # test_driver.py records a journal of a machine without MLflow and Ray
def test_a_file_that_was_cut_by_the_limit_is_recorded_elsewhere(
    work: Workplace, without: Path
) -> None:
    (work.path / "cut_after_timing.py").write_text(MIXER)
    file = ablation(work, mixer="cut_after_timing:CutAfterTiming")
    away = work.path / "away"
    done = run_lonely([sys.executable], file, away, "600", [without, ROOT])
    assert done.returncode == FAILED, done.stderr
    # Seed 0 of everything was done; the deadline came when seed 1 had just begun.
    assert "the time limit of 10 min 0 s was reached: 3 trials are left" in " ".join(
        done.stderr.split()
    )
    refuse_more_than_one_file(done, away)
    plan, results = kept(away / "journal.db")
    probes = {trial.trial_id: (trial.probe, trial.seed) for trial in plan.trials}
    assert Counter(probes[result.trial_id] for result in results) == {
        ("quality", 0): 2,
        ("parameters", 0): 2,
        ("flops", 0): 2,
        ("step_time", 0): 1,
    }
    outcome = record(away / "journal.db", work.out)
    assert (outcome.num_run, outcome.num_missing) == (7, 3)


@pytest.mark.slow
def test_where_the_others_were_never_installed(work: Workplace) -> None:
    place = work.path / "venv"
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    pip = [python, "-m", "pip", "--quiet"]
    apart = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    constraints = ["-c", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "install", *constraints, *HAS], check=True, env=apart)
    # jinja2 is a dependency of torch.
    subprocess.run([*pip, "uninstall", "--yes", "jinja2"], check=True, env=apart)
    found = subprocess.run(
        [python, "-c", FIND, *LACKS], check=True, env=apart, cwd=place, capture_output=True
    )
    assert found.stdout.split() == []
    file, away = ablation(work), work.path / "away"
    done = run_lonely([python], file, away, "20m", [ROOT])
    assert done.returncode == DONE, done.stderr
    refuse_more_than_one_file(done, away)
    assert record(away / "journal.db", work.out).num_run == len(kept(away / "journal.db")[1]) == 10


NO_JOURNALS = {
    "text": b"hello\n",
    "nothing": b"",
    "half a database": b"SQLite format 3\0" + bytes(100),
}


@pytest.mark.parametrize("kind", NO_JOURNALS)
def test_what_is_no_journal_is_refused(work: Workplace, kind: str) -> None:
    file = work.path / "file.db"
    file.write_bytes(NO_JOURNALS[kind])
    refuse_file(file, work)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_database_of_another_program_is_refused(work: Workplace, version: int) -> None:
    with closing(sqlite3.connect(work.path / "other.db")) as db:
        db.execute("CREATE TABLE runs (run TEXT)")
        db.execute(f"PRAGMA user_version = {version}")
        db.commit()
    refuse_file(work.path / "other.db", work)


def refuse_file(file: Path, work: Workplace) -> None:
    before = file.read_bytes()
    with pytest.raises(JournalError) as refused:
        record_journal(file, Options(out=work.out))
    sentence = str(refused.value)
    assert sentence.startswith(f"{file}: ")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert not work.out.exists()
    assert file.read_bytes() == before
