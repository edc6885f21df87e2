"""Tests for the journal: what it has acknowledged stays in it, whatever happens to its process."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import Contradiction, JournalError
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import FAILURES, Measurement, Point, Provenance, Result, Status
from tests.suite.heads_sweep import HEADS
from tests.suite.small_ablation import make_ablation

HERE, ELSEWHERE = HEADS.place, HEADS.other_place


def result(
    trial_id: str = "a", status: Status = Status.OK, value: float = 1.0, place: Provenance = HERE
) -> Result:
    return Result(
        trial_id=trial_id,
        status=status,
        provenance=place,
        seconds=1.5,
        measurements=(Measurement(metric="loss", value=value, unit="nat", better="lower"),),
        points=(
            Point(metric="loss", step=3, flops=1e9, value=0.1 + 0.2, unit="nat", better="lower"),
        ),
        reason="" if status is Status.OK else "it went wrong",
        traceback="line 1\nline 2 \u2014",
    )


def held(journal: Journal, trial_id: str = "a") -> list[Result]:
    return list(journal.results([trial_id]))


def test_conditions_come_back_and_rows_from_before_them_are_read(path: Path) -> None:
    told = result("told", place=replace(HERE, conditions={"governor": "performance"}))
    with Journal(path) as journal:
        for each in (told, result("before")):
            journal.commit(each, journal.begin(each.trial_id, "process 1"))
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "UPDATE results SET result = CAST(json_remove(CAST(result AS TEXT), "
            "'$.provenance.conditions') AS BLOB) WHERE trial_id = 'before'"
        )
        db.commit()
        (body,) = db.execute("SELECT result FROM results WHERE trial_id = 'before'").fetchone()
    assert b"conditions" not in body
    with Journal(path) as journal:
        assert held(journal, "told") == [told]
        (before,) = held(journal, "before")
        assert before.sha256 in {entry.sha256 for entry in journal.entries()}


@pytest.mark.parametrize("failure", sorted(FAILURES))
def test_a_failure_gives_way_to_a_later_attempt_and_nothing_else_does(
    journal: Journal, failure: Status
) -> None:
    journal.commit(result(status=failure), journal.begin("a", ""))
    assert journal.done() == {}
    again = journal.begin("a", "")
    assert journal.commit(result(value=2.0), again)
    assert journal.done() == {"a": {HERE.environment_id}}
    assert not journal.commit(result(status=failure), journal.begin("a", ""))
    assert held(journal) == [result(value=2.0)]


def test_each_environment_has_a_result_of_its_own(journal: Journal) -> None:
    journal.commit(result(), journal.begin("a", ""))
    journal.commit(result(place=ELSEWHERE), journal.begin("a", ""))
    assert {found.provenance.device for found in held(journal)} == {"Test CPU", "Another CPU"}
    assert journal.done() == {"a": {HERE.environment_id, ELSEWHERE.environment_id}}
    entries = {entry.environment_id: entry for entry in journal.entries()}
    assert entries[HERE.environment_id].sha256 == result().sha256
    assert entries[ELSEWHERE.environment_id].attempt == 2


def test_a_result_of_another_folder_is_taken_over_once(journal: Journal) -> None:
    journal.begin("a", "a process that was killed here")
    assert journal.adopt(result(value=1.0))
    assert not journal.adopt(result(value=2.0))
    assert held(journal) == [result(value=1.0)]


def test_how_each_attempt_ended_is_kept_though_its_result_gives_way(journal: Journal) -> None:
    late = journal.begin("a", "node 1")
    first = journal.begin("a", "node 2")
    journal.commit(result(status=Status.ERROR), first)
    assert not journal.commit(result(), late)
    assert journal.commit(result(), journal.begin("a", "node 2"))
    assert not journal.commit(result(value=2.0), 3)  # the result is reported twice
    ends = {end.attempt: end for end in journal.ends()}
    assert {number: (end.status, end.is_kept) for number, end in ends.items()} == {
        1: ("ok", False),
        2: ("error", True),
        3: ("ok", True),
    }
    assert (ends[2].reason, ends[2].seconds, ends[2].num_cpus) == ("it went wrong", 1.5, 1.0)
    started = {start.attempt: start.started_seconds for start in journal.starts()}
    assert list(started) == [1, 2, 3]
    assert all((ends[n].ended_seconds or 0) >= started[n] for n in started)


def test_what_another_folder_has_spent_is_taken_over_without_its_time(journal: Journal) -> None:
    journal.commit(result(status=Status.ERROR), journal.begin("a", "here"))
    assert journal.adopt(result())
    found = {end.attempt: (end.status, end.ended_seconds is None) for end in journal.ends()}
    assert found == {0: ("ok", True), 1: ("error", False)}


def test_of_two_environments_a_finding_counts_before_a_failure(journal: Journal) -> None:
    for place, status in ((HERE, Status.OK), (ELSEWHERE, Status.CRASHED)):
        journal.commit(result("a", status, place=place), journal.begin("a", ""))
        journal.commit(result("b", Status.CRASHED, place=place), journal.begin("b", ""))
    assert journal.statuses() == {"a": "ok", "b": "crashed"}
    assert journal.failed() == {"a", "b"}


def test_the_trials_of_a_plan_are_listed_and_those_of_an_older_plan_are_gone(
    journal: Journal,
) -> None:
    older, newer = (
        plan(make_ablation(probes=["quality", "step_time"]), seeds=seeds) for seeds in (2, 1)
    )
    journal.keep_plan(older)
    before = journal.driver_started()
    journal.keep_plan(newer)
    assert journal.driver_started() > before > 0
    rows = {row.trial_id: row for row in journal.trials()}
    assert set(rows) == {trial.trial_id for trial in newer.trials}
    assert {row.probe for row in rows.values() if row.is_alone} == {"step_time"}
    labels = [row.label for row in rows.values() if row.probe == "quality"]
    assert f"{newer.about.variants[0]}, {newer.about.tasks[0]}, seed 0" in labels


def test_attempts_gives_the_newest_of_each_trial(journal: Journal) -> None:
    for place in ("process 1", "process 2"):
        journal.begin("a", place)
    journal.begin("b", "process 3")
    told = {a.trial_id: (a.attempt, a.place) for a in journal.attempts()}
    assert told == {"a": (2, "process 2"), "b": (1, "process 3")}


def test_a_plan_is_kept_and_the_newer_one_replaces_it(path: Path) -> None:
    older, newer = plan("heads", seeds=1), plan("heads", seeds=2)
    with Journal(path) as journal:
        for known in (older, newer, newer):
            journal.keep_plan(known)
    with Journal(path, read_only=True) as journal:
        (found,) = journal.plans()
    assert found.trials == newer.trials
    assert replace(found.about, registration=None, editions=()) == newer.about


def test_a_newer_format_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(JournalError, match=r"newer bakeoff \(format 99"):
            Journal(path, read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "body", [b"not a database " * 100, b"SQLite format 3\0" + b"\xff" * 5000, None]
)
def test_what_is_no_database_is_one_sentence(path: Path, body: bytes | None) -> None:
    path.mkdir() if body is None else path.write_bytes(body)
    for read_only in (False, True):
        with pytest.raises(JournalError, match=r"journal\.db: the journal cannot be opened"):
            Journal(path, read_only=read_only)


def test_damage_inside_is_one_sentence(path: Path) -> None:
    with Journal(path) as journal:
        for number in range(200):
            journal.commit(result(str(number)), 0)
    body = bytearray(path.read_bytes())
    body[8192:-4096] = b"\x5a" * (len(body) - 12288)
    path.write_bytes(body)
    with pytest.raises(JournalError, match="the journal cannot be used"), Journal(path) as journal:
        list(journal.results(str(number) for number in range(200)))


def test_a_row_that_is_no_result_is_one_sentence(path: Path) -> None:
    with Journal(path) as journal:
        journal.commit(result(), 0)
    with closing(sqlite3.connect(path)) as db:
        db.execute("""UPDATE results SET result = '{"trial_id": 3}'""")
        db.commit()
    with Journal(path) as journal, pytest.raises(JournalError, match="a row is damaged"):
        held(journal)


def test_a_reader_sees_one_moment_while_a_driver_writes(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.commit(result("a"), 0)
    with Journal(path, read_only=True) as reader:
        assert [entry.trial_id for entry in reader.entries()] == ["a"]
        assert journal.commit(result("b"), 0)
        assert held(reader, "b") == []
    monkeypatch.chdir(path.parent)
    with Journal(Path("journal.db"), read_only=True) as reader:  # a relative path
        assert held(reader, "b") == [result("b")]


def test_a_reader_cannot_write(path: Path, journal: Journal) -> None:
    with pytest.raises(JournalError, match="readonly"), Journal(path, read_only=True) as reader:
        reader.begin("a", "")


class AgainstAModel(RuleBasedStateMachine):
    """A state machine that compares the journal with a dictionary under the same calls."""

    trials = st.sampled_from("abc")
    places = st.sampled_from([HERE, ELSEWHERE])

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "journal.db"
        self.journal = Journal(self.path)
        self.attempts: dict[str, int] = {}
        self.held: dict[tuple[str, str], Result] = {}

    @rule(trial_id=trials)
    def begin(self, trial_id: str) -> None:
        self.attempts[trial_id] = self.attempts.get(trial_id, 0) + 1
        assert self.journal.begin(trial_id, "place") == self.attempts[trial_id]

    @rule(
        trial_id=trials,
        place=places,
        status=st.sampled_from(Status),
        late=st.integers(0, 2),
        value=st.floats(allow_nan=False, allow_infinity=False),
    )
    def commit(
        self, trial_id: str, place: Provenance, status: Status, late: int, value: float
    ) -> None:
        made = result(trial_id, status, value, place)
        attempt = max(0, self.attempts.get(trial_id, 0) - late)
        key = (trial_id, place.environment_id)
        is_late = attempt < self.attempts.get(trial_id, 0)
        is_settled = key in self.held and self.held[key].status not in FAILURES
        assert self.journal.commit(made, attempt) == (not is_late and not is_settled)
        if not is_late and not is_settled:
            self.held[key] = made

    @rule()
    def reopen(self) -> None:
        self.journal.close()
        self.journal = Journal(self.path)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        found = {
            (found.trial_id, found.provenance.environment_id): found
            for found in self.journal.results("abc")
        }
        assert found == self.held  # to the bit, also in a journal that was opened again
        hashes = {(e.trial_id, e.environment_id): e.sha256 for e in self.journal.entries()}
        assert hashes == {key: kept.sha256 for key, kept in self.held.items()}
        done: dict[str, set[str]] = {}
        for (trial_id, environment_id), kept in self.held.items():
            if kept.status not in FAILURES:
                done.setdefault(trial_id, set()).add(environment_id)
        assert self.journal.done() == done

    def teardown(self) -> None:
        self.journal.close()
        self.folder.cleanup()


AgainstAModel.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, derandomize=True
)
TestAgainstAModel = AgainstAModel.TestCase

WRITER = """
import resource, sys
from pathlib import Path
from bakeoff.suite.journal.journal import Journal, JournalError
from bakeoff.suite.schema import Provenance, Result, Status

place = Provenance(commit="c", device="d", num_threads=1, num_cpus=1.0, num_gpus=0.0, versions={})
path, first, limit = sys.argv[1:]
try:
    with Journal(Path(path)) as journal:
        if limit == "pages":
            journal._db.execute("PRAGMA max_page_count = 60")
        elif limit != "none":
            size = Path(path + "-wal").stat().st_size + int(limit)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        for number in range(int(first), 100_000):
            made = Result(
                trial_id=f"{number:06d}", status=Status.OK, provenance=place, seconds=float(number)
            )
            assert journal.commit(made, journal.begin(made.trial_id, "here"))
            print(made.trial_id, flush=True)
except JournalError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def writer(path: Path, first: int, limit: str = "none") -> subprocess.Popen[str]:
    """Start a process that writes results until it is killed or the disk is full."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), limit],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.whole
def test_kill_9_loses_nothing_that_was_acknowledged(path: Path) -> None:
    chance = random.Random(20170612)
    acknowledged: list[str] = []
    for _ in range(6):
        with writer(path, len(acknowledged) + 1) as process:
            assert process.stdout is not None
            for _ in range(chance.randint(1, 60)):
                acknowledged.append(process.stdout.readline().strip())
            process.send_signal(signal.SIGKILL)
            acknowledged += process.stdout.read().split()
        assert process.returncode == -signal.SIGKILL
        with Journal(path) as journal:
            found = [entry.trial_id for entry in journal.entries()]
            assert len(found) == len(set(found))
            assert set(acknowledged) <= set(found)
            # The kill may precede the acknowledgement of the last write.
            assert len(found) - len(acknowledged) in (0, 1)
            assert [r.seconds for r in journal.results(found)] == [int(t) for t in found]
        acknowledged = found


OLD_FORMATS = {
    1: "DROP TABLE waiting; DROP TABLE statements; DROP TABLE ends; DROP TABLE trials; "
    "DROP TABLE driver;",
    2: "DROP TABLE ends; DROP TABLE trials;",
    3: "ALTER TABLE ends DROP COLUMN joules; ALTER TABLE ends DROP COLUMN finding_sha256;",
    5: "ALTER TABLE ends DROP COLUMN joules;",
}


@pytest.mark.parametrize("number", OLD_FORMATS)
def test_an_older_format_is_read_and_written_to(path: Path, number: int) -> None:
    with Journal(path) as journal:
        journal.commit(result("a"), journal.begin("a", "here"))
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(f"{OLD_FORMATS[number]} PRAGMA user_version = {number};")
    with Journal(path, read_only=True) as journal:
        (kept,) = journal.kept(["a"])
        assert (kept.attempt, kept.sha256) == (1, result("a").sha256)
        assert kept.started_seconds is not None
        assert (kept.ended_seconds is None) == (number < 3)
        before = result("a").finding_sha256 if number > 3 else ""
        assert [(end.finding_sha256, end.joules) for end in journal.ends()] == [(before, None)]
        assert journal.contradictions() == []
        assert journal.waiting() == (0, "")
    with Journal(path) as journal:
        assert [attempt.trial_id for attempt in journal.attempts()] == ["a"]
        journal.note_waiting(2, "no node")
        assert journal.waiting() == (2, "no node")
        journal.commit(replace(result("b"), joules=2.5), journal.begin("b", "here"))
        found = {end.trial_id: (end.finding_sha256, end.joules) for end in journal.ends()}
        assert [each.joules for each in journal.results("ab")] == [None, 2.5]
    assert found == {"a": (before, None), "b": (result("b").finding_sha256, 2.5)}


def test_what_an_attempt_found_is_kept_also_of_one_that_came_too_late(journal: Journal) -> None:
    early, late = journal.begin("a", "here"), journal.begin("a", "there")
    assert not journal.commit(result("a", value=1.0), early)
    assert journal.commit(result("a", value=2.0), late)
    failed = journal.begin("b", "here")
    journal.commit(result("b", Status.ERROR), failed)
    found = {(end.trial_id, end.attempt): end.finding_sha256 for end in journal.ends()}
    assert found == {
        ("a", early): result("a", value=1.0).finding_sha256,
        ("a", late): result("a", value=2.0).finding_sha256,
        ("b", failed): "",
    }


def test_a_contradiction_is_of_one_environment_and_of_no_timing(
    path: Path, journal: Journal
) -> None:
    def twice(trial_id: str, *values: float, other: Provenance | None = None) -> None:
        for value, place in zip(values, [HERE, other or HERE], strict=True):
            attempt = journal.begin(trial_id, "here")
            journal.commit(result(trial_id, value=value, place=place), attempt)

    twice("same", 1.0, 1.0)
    twice("elsewhere", 1.0, 2.0, other=replace(HERE, device="Another CPU"))
    twice("timing", 1.0, 2.0)
    twice("number", 1.0, 2.0)
    row = "INSERT INTO trials VALUES ('x', 'quick', ?, 'quality', '', 1, 1.0, 0.0, ?)"
    with closing(sqlite3.connect(path)) as db, db:
        for trial_id in ("same", "elsewhere", "timing", "number"):
            db.execute(row, (trial_id, trial_id == "timing"))
    assert journal.contradictions() == [Contradiction("number", HERE.environment_id, (1, 2))]


def test_a_row_that_is_not_what_was_written_is_known(path: Path, journal: Journal) -> None:
    for trial_id in "abcd":
        journal.commit(result(trial_id), journal.begin(trial_id, "here"))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "UPDATE results SET result = replace(result, ':1.5', ':1.6') WHERE trial_id = 'a'"
        )
        db.execute("UPDATE results SET status = 'error' WHERE trial_id = 'b'")
        db.execute("UPDATE results SET result = '{' WHERE trial_id = 'c'")
    assert [trial_id for trial_id, _ in journal.damaged()] == ["a", "b", "c"]
    told = "trial a was altered: its SHA-256 differs. `bakeoff verify --repair`"
    for read in (journal.results, journal.kept):
        with pytest.raises(JournalError, match=told):
            list(read(["a"]))
        assert len(list(read(["d"]))) == 1
    with pytest.raises(JournalError, match=told):
        journal.refuse_damaged()


def test_a_sound_row_never_gives_way_and_a_damaged_one_does(path: Path, journal: Journal) -> None:
    journal.commit(result("a"), journal.begin("a", "here"))
    (kept,) = journal.kept(["a"])
    assert not journal.restore(kept)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE results SET result = '{'")
    assert journal.restore(kept)
    assert list(journal.kept(["a"])) == [kept]
    with pytest.raises(JournalError, match="it was altered: its SHA-256 differs"):
        journal.restore(kept._replace(sha256="beef"))


@pytest.mark.parametrize("limit", ["pages", "0", "70000"])
def test_a_full_disk_is_one_sentence_and_the_file_stays_usable(path: Path, limit: str) -> None:
    """Check a disk that is full by SQLite's own limit, or by the system's at various writes."""
    process = writer(path, 0, limit)
    said, errors = process.communicate()
    assert process.returncode == 1
    (sentence,) = errors.strip().splitlines()
    assert sentence.startswith(f"JournalError: {path}: the journal cannot be used: d")
    acknowledged = said.split()
    assert bool(acknowledged) == (limit != "0")
    with Journal(path) as journal:
        assert journal._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = [entry.trial_id for entry in journal.entries()]
        assert found == acknowledged
        assert journal.damaged() == []
        again = f"{len(found):06d}"  # the trial whose result was not written
        assert journal.commit(result(again), journal.begin(again, "here"))
