"""Tests for the id and the command of a submitted sweep."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bakeoff.suite.cluster.code_bundle import CodeBundle
from bakeoff.suite.cluster.job_spec import (
    STARTER_SCRIPT,
    JobSpec,
    folder_on_head,
    public_uri,
    split_id,
)
from bakeoff.suite.cluster.jobs import Job
from bakeoff.suite.commands import submit
from bakeoff.suite.commands.submit import SubmitOptions, _job_spec
from bakeoff.suite.journal.status_message import SweepStatus, line_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import SpecError
from bakeoff.suite.tracking.location import BadUri, RefusedUri
from tests.suite.small_ablation import make_ablation

SWEEP = JobSpec(
    names=("heads", "mine.py"),
    scale="quick",
    seeds=None,
    out=Path("out"),
    tracking_uri=None,
    trial_ids=("a", "b"),
)


def test_the_same_sweep_has_one_id_and_another_sweep_another() -> None:
    assert SWEEP.first_id == replace(SWEEP, options=("--fail-fast",)).first_id
    assert SWEEP.first_id.startswith("bakeoff-heads-mine-quick-")
    others = [
        replace(SWEEP, names=("heads",)),
        replace(SWEEP, scale="paper"),
        replace(SWEEP, out=Path("/out")),
        replace(SWEEP, tracking_uri="http://h:5000"),
        replace(SWEEP, trial_ids=("a", "c")),
        replace(SWEEP, code="another digest of what is sent"),
    ]
    assert len({SWEEP.first_id, *(other.first_id for other in others)}) == 7


def test_all_trials_of_all_plans_are_in_it_once_and_sorted(tmp_path: Path) -> None:
    options = SubmitOptions(
        scale="quick", seeds=None, out=Path("out"), tracking_uri=None, settings=("steps=9",)
    )
    bundle = CodeBundle(tmp_path, tmp_path, SWEEP.names)
    plans = [plan(make_ablation(), seeds=number) for number in (5, 3)]
    sweeps = [_job_spec(some, bundle, options) for some in (plans, plans[::-1])]
    assert list(sweeps[0].trial_ids) == sorted({trial.trial_id for trial in plans[0].trials})
    assert sweeps[0] == sweeps[1]
    assert sweeps[0].code == bundle.digest()
    assert "--scale quick --set=steps=9 --out" in sweeps[0].command


def test_a_long_list_of_names_makes_no_endless_id() -> None:
    assert len(replace(SWEEP, names=tuple("x" * 60 for _ in range(9))).first_id) < 100


@pytest.mark.parametrize("name", ["heads-quick-2", "heads"])
def test_attempts_are_counted_after_the_hash(name: str) -> None:
    first = f"bakeoff-{name}-0123456789ab"
    assert split_id(first) == (first, 1)
    assert split_id(f"{first}-3") == (first, 3)


def test_the_command_says_all_of_it() -> None:
    sweep = replace(
        SWEEP,
        seeds=5,
        out=Path("/data/my out"),
        tracking_uri="http://h:5000",
        options=("--fail-fast", "--trial-limit", "2h"),
    )
    assert shlex.split(sweep.command) == [
        "exec",
        "sh",
        "start_bakeoff.sh",
        "run",
        "heads",
        "mine.py",
        "--scale",
        "quick",
        "--seeds",
        "5",
        "--tracking-uri",
        "http://h:5000",
        "--fail-fast",
        "--trial-limit",
        "2h",
        "--out",
        "/data/my out",
        "--address",
        "auto",
        "--wait",
    ]


@pytest.mark.parametrize("out", ["out", "a b/$(touch x)", "it's"])
def test_a_relative_folder_is_in_the_home_of_whoever_runs_it(out: str, tmp_path: Path) -> None:
    command = replace(SWEEP, out=Path(out)).command
    shown = command.replace("exec sh start_bakeoff.sh", "printf '%s\\n'")
    done = subprocess.run(
        ["sh", "-c", shown],
        env={"HOME": "/home/me"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[lines.index("--out") + 1] == f"/home/me/{out}"
    assert list(tmp_path.iterdir()) == []


def test_what_is_said_beside_the_job_is_text() -> None:
    assert all(isinstance(value, str) for value in SWEEP.metadata.values())
    assert SWEEP.metadata["names"] == "heads mine.py"
    assert SWEEP.metadata["num_trials"] == "2"


@pytest.mark.parametrize("uri", ["http://me:s3cret@h:5000", "http://me@h", "http://h?token=s3cret"])
def test_a_password_in_the_store_is_refused(uri: str) -> None:
    with pytest.raises(RefusedUri, match="MLFLOW_TRACKING_PASSWORD") as caught:
        public_uri(uri)
    assert "s3cret" not in str(caught.value)


def test_a_file_that_would_end_with_the_job_is_refused() -> None:
    assert public_uri("sqlite:////data/mlflow.db") == "sqlite:////data/mlflow.db"
    with pytest.raises(SpecError, match="absolute path"):
        public_uri("sqlite:///mlflow.db")
    with pytest.raises(BadUri):
        public_uri("nonsense")


STAND_IN = '#!/bin/sh\n[ "$1" = -c ] && exit {has_ray}\necho "$0" "$@" "$BAKEOFF_STATUS_LINES"\n'


@pytest.mark.parametrize(
    ("pythons", "told"),
    [
        ({"python3": 0}, "python3 -m bakeoff.suite.cli run x 1"),
        ({"python3": 1, "python": 0}, "python -m bakeoff.suite.cli run x 1"),
        ({"python3": 1}, "no Python with Ray"),
    ],
)
def test_the_first_python_that_has_ray_is_taken(
    pythons: dict[str, int], told: str, tmp_path: Path
) -> None:
    """Check the search outside of Ray, where the grandparent process is not a Ray node."""
    for name, has_ray in pythons.items():
        (tmp_path / name).write_text(STAND_IN.format(has_ray=has_ray))
        (tmp_path / name).chmod(0o755)
    for tool in ("sh", "sed", "tr"):
        (tmp_path / tool).symlink_to(f"/bin/{tool}")
    (tmp_path / "start.sh").write_text(STARTER_SCRIPT)
    done = subprocess.run(
        ["/bin/sh", str(tmp_path / "start.sh"), "run", "x"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told in done.stdout + done.stderr
    assert done.returncode == (4 if "no Python" in told else 0)


def test_the_python_that_the_node_was_told_comes_first(tmp_path: Path) -> None:
    """Run the script below stand-ins for Ray's daemon, its worker and the job's shell."""
    starter = tmp_path / "start.sh"
    starter.write_text(
        STARTER_SCRIPT.replace("-m bakeoff.suite.cli", "-c 'import sys; print(sys.argv)'")
    )
    worker = f"import subprocess as s; s.run(['sh', '-c', 'exec sh {starter} run x'])"
    daemon = f"import subprocess as s, sys; s.run([sys.executable, '-c', {worker!r}])"
    option = f"--python_worker_command={sys.executable} setup_worker.py"
    done = subprocess.run(
        [sys.executable, "-c", daemon, option],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['-c', 'run', 'x']"


def test_the_output_folder_is_never_the_home_itself() -> None:
    assert folder_on_head(Path("~/results")) == Path("results")
    assert replace(SWEEP, out=Path("results")).place == "~/results"
    for out in (Path("~"), Path(), Path("/")):
        with pytest.raises(SpecError, match="give a folder of its own"):
            folder_on_head(out)
    for out in (Path("../out"), Path("/data/../.."), Path("~ada/out"), Path("a\nb")):
        with pytest.raises(SpecError, match="give a plain path on the head"):
            folder_on_head(out)
        options = SubmitOptions(scale="quick", seeds=None, out=out, tracking_uri=None)
        with pytest.raises(SpecError, match="--out"):  # before any request or planning
            submit.submit(["nosuch"], "no address", options)


def test_what_earlier_jobs_have_done_does_not_count_as_submitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check a first attempt that logged its status, and a second one that did not."""
    status = SweepStatus(counts={"ok": 3, "diverged": 1, "error": 2, "missing": 1, "running": 1})
    logs = {SWEEP.first_id: f"{line_of(status)}\n", f"{SWEEP.first_id}-2": "killed\n"}
    monkeypatch.setattr(submit.jobs, "job_log", lambda url, key: logs[key])
    first, second, third = (
        Job(
            submission_id=f"{SWEEP.first_id}{end}",
            status="FAILED",
            message="",
            names="heads",
            scale="quick",
            out="~/out",
            start_seconds=1.0,
            exit_code=4,
        )
        for end in ("", "-2", "-3")
    )
    other = replace(first, submission_id=f"bakeoff-heads-quick-{'0' * 12}")
    elsewhere = replace(other, out="~/elsewhere")
    for there, to_run in (
        ([first, elsewhere], "8 trials"),
        ([third, second, first], "4 trials to run, 4 already done"),
        ([first, other], "at most 8 trials to run, fewer if ~/out already contains some"),
    ):
        monkeypatch.setattr(submit.jobs, "list_jobs", lambda url, there=there: there)
        assert submit._to_run("http://h:1", there[0], 8) == to_run
