"""Tests for `bakeoff submit`, `status --address` and `cancel` on a real head with a token."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bakeoff.suite.errors import DONE, INTERRUPTED, UNAVAILABLE, USAGE
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.provenance import commit
from bakeoff.suite.schema import Result, Status
from tests.suite.cluster.heads import AUTHENTICATION, Cluster, cluster
from tests.workplace import Workplace

pytestmark = [pytest.mark.ray, pytest.mark.cluster]

TOKEN = "c0ffee00canary00token00c0ffee000"
PASSWORD = "canary-of-a-password"
SAID: list[str] = []  # the output of all commands of this file


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("submit")


@pytest.fixture(scope="module")
def there(place: Path) -> Iterator[Cluster]:
    """Yield one head with its own home, for all tests of this file."""
    (place / "token").write_text(TOKEN)
    (place / "home").mkdir()
    environment = {"HOME": str(place / "home"), "MLFLOW_TRACKING_PASSWORD": PASSWORD}
    with cluster(place / "token", environment) as found:
        yield found


@pytest.fixture
def work(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Return the folder of a user on another machine, with a valid token."""
    for name in (*AUTHENTICATION, "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(place / "token"),
        "MLFLOW_TRACKING_PASSWORD": PASSWORD,
        "RAY_ADDRESS": "http://127.0.0.1:1",
        "http_proxy": "http://127.0.0.1:1",  # must be ignored
    }
    return Workplace(tmp_path, environment=environment)


def own(work: Workplace, name: str, values: list[float], pause: float) -> str:
    """Write an ablation with its own mixer in a module; a trial sleeps for about 50 pauses."""
    module = work.mixers(f"{name}_mixers", pause=pause)
    return work.ablation(
        name, mixer=f"{module}:Slow", values=values, probes=["quality", "parameters"], seeds=1
    )


def said(work: Workplace, *arguments: str, code: int = DONE) -> str:
    done = work.bakeoff(*arguments, timeout=600)
    SAID.append(done.stdout + done.stderr)
    assert done.returncode == code, SAID[-1]
    assert "Traceback" not in SAID[-1]
    return SAID[-1]


def without_out(
    work: Workplace, *arguments: str, code: int = DONE
) -> subprocess.CompletedProcess[str]:
    """Run `bakeoff` without the option `--out DIR` that `Workplace` adds."""
    done = subprocess.run(
        work.command(*arguments)[:-2],
        env={**os.environ, **work.environment},
        text=True,
        capture_output=True,
        check=False,
    )
    SAID.append(done.stdout + done.stderr)
    assert done.returncode == code, SAID[-1]
    return done


def asked(work: Workplace, there: Cluster) -> Any:
    return json.loads(without_out(work, "status", "--json", "--address", there.url).stdout)


def waited(work: Workplace, there: Cluster, until: Callable[[Any], bool], seconds: float) -> Any:
    end = time.monotonic() + seconds
    while not until(found := asked(work, there)):
        assert time.monotonic() < end, found
        time.sleep(0.5)
    return found


def results(out: Path) -> dict[str, Result]:
    with Journal(out / "journal.db", read_only=True) as journal:
        trial_ids = [entry.trial_id for entry in journal.entries()]
        assert len(trial_ids) == len(set(trial_ids))
        return {result.trial_id: result for result in journal.results(trial_ids)}


def rows(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "reports" / name / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_sweep_outlives_its_submitter_and_its_report_comes_home(
    work: Workplace, there: Cluster, place: Path
) -> None:
    file = own(work, "outlives", [1e-3, 1e-2], pause=0.05)
    submit = ("submit", file, "--address", there.url)
    submitter = replace(work, path=work.path).start(*submit, "--follow")
    assert submitter.stdout is not None
    submission = submitter.stdout.readline().split()[1].rstrip(":")
    os.killpg(submitter.pid, signal.SIGKILL)
    submitter.communicate()

    # Both runs use the same --out folder here, because they share a file system.
    again = said(work, *submit)
    assert f"{submission} is already running this sweep" in again
    running = waited(work, there, lambda told: bool(told["running"]), 60)
    assert running["submission"] == submission
    assert running["job_status"] == "RUNNING"
    assert sum(running["counts"].values()) == 3
    assert all(place_.startswith("node ") for place_ in running["running"].values())
    ended = waited(work, there, lambda told: told["job_status"] != "RUNNING", 90)
    assert ended["job_status"] == "SUCCEEDED"
    assert ended["counts"] == {"ok": 3}
    assert (ended["running"], ended["failed"], ended["waiting"]) == ({}, {}, None)
    assert ended["eta_seconds"] in (0.0, None)
    assert f"{submission} has already completed this sweep" in said(work, *submit)
    assert ended["editions"] == {"outlives": 1}

    fetched = work.path / "home" / "fetched"
    where = ("--address", there.url, "--out", str(fetched))
    page = Path(without_out(work, "fetch", "outlives", *where).stdout.split()[1])
    assert page == fetched / "reports" / "outlives" / "index.html"
    made = work.out / "reports" / "outlives"
    for each in filter(Path.is_file, made.rglob("*")):
        assert (page.parent / each.relative_to(made)).read_bytes() == each.read_bytes()

    here = replace(work, path=work.path / "inline")
    here.path.mkdir()
    said(here, "run", file, "--executor", "inline")
    assert_same_numbers(work.out, here.out, "outlives")
    assert {result.provenance.commit for result in results(work.out).values()} == {commit()}


def assert_same_numbers(there: Path, here: Path, name: str) -> None:
    """Compare quality rows, ids and commit, but not the place or the time."""
    columns = ("probe", "trial_id", "variant", "seed", "metric", "at", "value", "status", "commit")
    found = [
        [
            [row[column] for column in columns]
            for row in rows(out, name)
            if row["probe"] == "quality"
        ]
        for out in (there, here)
    ]
    assert found[0] == found[1]
    assert found[0]
    assert results(there).keys() == results(here).keys()


@pytest.mark.slow
def test_a_cancelled_sweep_goes_on_when_it_is_submitted_again(
    work: Workplace, there: Cluster
) -> None:
    file = own(work, "cancelled", [1e-3, 2e-3, 5e-3, 1e-2], pause=0.05)
    submit = ("submit", file, "--address", there.url)
    first = said(work, *submit).split()[1].rstrip(":")
    waited(work, there, lambda told: told["counts"].get("ok", 0) >= 1, 90)
    cancel = ("cancel", "cancelled", "--address", there.url)
    assert f"{first}: stopped" in without_out(work, *cancel).stdout
    before = results(work.out)
    assert before
    told = asked(work, there)
    assert (told["job_status"], told["running"]) == ("STOPPED", {})
    assert "RUNNING" not in statuses_of_children(work.out)

    followed = said(work, *submit, "--follow")
    to_run, num_done = re.findall(f"submitted {first}-2: (.) .* to run, (.) done", followed)[0]
    assert (int(to_run), int(num_done)) == (5 - len(before), len(before))
    assert "bakeoff-status" not in followed
    after = results(work.out)
    assert len(after) == 5
    assert {result.status for result in after.values()} == {Status.OK}
    for trial_id, result in before.items():
        assert after[trial_id] == result  # it did not run again
    assert "no submitted sweep is running" in without_out(work, *cancel, code=USAGE).stderr


def statuses_of_children(out: Path) -> set[str]:
    from tests.suite.heads_sweep import LocalStore

    return {child.status for child in LocalStore(out).trials(("cancelled", "quick"))}


@pytest.mark.parametrize(
    "case",
    [
        "wrong token",
        "too large",
        *(
            pytest.param(case, marks=pytest.mark.slow)
            for case in ("wrong token to join", "no token", "nobody", "the head's port")
        ),
    ],
)
def test_what_does_not_fit_is_refused_quickly(case: str, work: Workplace, there: Cluster) -> None:
    environment, file = dict(work.environment), work.ablation(probes=["parameters"])
    verb = "run" if case == "wrong token to join" else "submit"
    url = "http://127.0.0.1:1" if case == "nobody" else there.url
    if case in ("the head's port", "wrong token to join"):
        url = there.address
    if case == "too large":
        text = Path(file).read_text()
        Path(file).write_text(text.replace("dim=8,", "dim=8, cpus=64,"))
    if case.startswith("wrong token"):
        environment |= {"RAY_AUTH_TOKEN": "f00dcafe" * 4}
    if case == "no token":
        environment = {k: v for k, v in environment.items() if k not in AUTHENTICATION}
    why = {
        "wrong token": "does not accept the token",
        "wrong token to join": "does not accept the token",
        "no token": "requires a token",
        "nobody": "nothing answers there",
        "the head's port": "not the dashboard of a Ray cluster",
        "too large": "64 CPU",
    }[case]
    start = time.monotonic()
    refused = said(
        replace(work, environment=environment), verb, file, "--address", url, code=UNAVAILABLE
    )
    assert time.monotonic() - start < 15
    assert why in refused
    assert "f00dcafe" not in refused
    assert len(refused.splitlines()) == 1
    assert not [job for job in there.get("/api/jobs/") if "parameters" in str(job)]


def test_a_dry_run_asks_nobody(work: Workplace) -> None:
    file = own(work, "dry", [1e-3, 1e-2], pause=0.0)
    shown = said(work, "submit", file, "--address", "http://127.0.0.1:1", "--dry-run")
    assert "file:       dry.py" in shown
    assert "file:       dry_mixers.py" in shown
    assert "submission: bakeoff-dry-quick-" in shown
    assert not work.out.exists()


def test_no_secret_is_left_anywhere(work: Workplace, there: Cluster, place: Path) -> None:
    """Check all output and all files of the other tests, except the token file."""
    secrets = (TOKEN.encode(), PASSWORD.encode())
    told = "".join(SAID) + json.dumps(there.get("/api/jobs/"))
    for job in there.get("/api/jobs/"):
        told += there.get(f"/api/jobs/{job['submission_id']}/logs")["logs"]
    assert not [secret for secret in secrets if secret in told.encode()]
    looked = [file for root in (there.folder, place.parent) for file in root.rglob("*")]
    files = [file for file in looked if file.is_file() and file.name != "token"]
    assert any(file.name == "journal.db" for file in files) or not SAID
    holding = [file for file in files if any(s in file.read_bytes() for s in secrets)]
    assert holding == []


def both_have_succeeded(told: Any) -> bool:
    return {seen["job_status"] for seen in told["submissions"][:2]} == {"SUCCEEDED"}


READS = """
from pathlib import Path


class Reads(Good):
    def meet_fault(self, x):
        beside = Path(__file__).with_name("words") / "size.txt"
        assert beside.read_text() == Path("words/size.txt").read_text() == "8"
"""


@pytest.mark.slow
def test_included_files_reach_the_trials_of_one_of_two_ablations_in_a_file(
    work: Workplace, there: Cluster
) -> None:
    module = work.path / f"{work.mixers('own_readers')}.py"
    module.write_text(module.read_text() + READS)
    file = Path(work.ablation("both", mixer="own_readers:Reads", probes=["quality"], seeds=1))
    named = file.read_text().replace("ABLATION = Ablation(", "READS = Ablation(name='reads',")
    file.write_text(f"{named}OTHER = READS.model_copy(update={{'name': 'other'}})\n")
    (work.path / "words").mkdir()
    (work.path / "words" / "size.txt").write_text("8")
    submit = ("submit", f"{file}::reads", "--address", there.url, "--include", "words", "--follow")
    assert "submitted bakeoff-reads-quick-" in said(work, *submit)
    found = results(work.out).values()
    assert [result.status for result in found] == [Status.OK] * len(found)
    assert rows(work.out, "reads")
    assert not (work.out / "reports" / "other").exists()


@pytest.mark.slow
def test_a_relative_folder_is_in_the_home_of_the_heads_user_and_taken_in_turns(
    work: Workplace, there: Cluster, place: Path
) -> None:
    """Submit two sweeps into one folder, so that the second waits for the first."""
    files = [own(work, name, [1e-3, 1e-2], pause=0.05) for name in ("first", "second")]
    for file in files:
        without_out(work, "submit", file, "--address", there.url, "--out", "shared")
    ended = waited(work, there, both_have_succeeded, 180)
    assert [s["counts"] for s in ended["submissions"][:2]] == [{"ok": 3}, {"ok": 3}]
    assert len(results(place / "home" / "shared")) == 6


@pytest.mark.slow
def test_sigterm_closes_the_books_of_a_driver(work: Workplace, there: Cluster) -> None:
    file = own(work, "ended", [1e-3, 2e-3, 5e-3, 1e-2], pause=0.05)
    for where in (["--executor", "inline"], ["--address", there.address], []):
        process = work.start("run", file, *where)
        until = time.monotonic() + 90
        while not (work.out / "journal.db").exists() or not results(work.out):
            assert time.monotonic() < until
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=60)[0]
        assert process.returncode == INTERRUPTED, told
        assert "the same command continues from here" in told
        for name in ("journal.db", "mlflow.db"):
            (work.out / name).unlink()
