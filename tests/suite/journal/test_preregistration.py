"""Tests that a claim stated before its results is distinguished from one stated later."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bakeoff.models.model_spec import Knob
from bakeoff.reports.stats.intervals import CONFIDENCE
from bakeoff.reports.view import read_sweep
from bakeoff.suite.journal.editions import edition_sha256
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.plans import (
    ALPHA,
    Statement,
    content_of,
    num_seeds_seen,
    registration_of,
)
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.reporting.build import sweeps_in
from bakeoff.suite.reporting.frames import by_trial, sweep_files, sweep_of
from bakeoff.suite.schema import FAILURES, About, Plan, Registration, Result, Status
from bakeoff.suite.spec import Claim
from bakeoff.suite.sweep.driver import Options, run
from bakeoff.suite.sweep.verify import differences
from bakeoff.suite.tracking.location import store_of
from tests.suite.heads_sweep import HEADS
from tests.suite.small_ablation import make_ablation
from tests.workplace import Workplace

pytestmark = pytest.mark.whole


def make(seeds: int = 3, scale: dict[str, Any] | None = None, **claim: Any) -> Plan:
    """Return a plan with the given claim fields, seeds and scale."""
    fields = {"metric": "bits_per_character", "a": "heads=4", "b": "heads=1", "by": 0.02}
    fields |= {"statement": "four beat one", "source": "A paper"} | claim
    stated = Claim(fields.pop("statement"), **fields)
    return plan(make_ablation(claim=stated, scale=scale), seeds=seeds)


def registered(about: About) -> Registration:
    assert about.registration is not None
    return about.registration


def commit_all(journal: Journal, planned: Plan, status: Status = Status.OK) -> None:
    for trial in planned.trials:
        journal.commit(ok(trial.trial_id, status), journal.begin(trial.trial_id, "here"))


def ok(trial_id: str, status: Status = Status.OK) -> Result:
    return Result(trial_id=trial_id, status=status, provenance=HEADS.place, seconds=1.0)


@pytest.fixture
def journal(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Journal(tmp_path / "journal.db") as opened:
        yield opened


# --- what fixes a test ---------------------------------------------------------------------------


def test_the_hash_is_that_of_the_canonical_json() -> None:
    content = content_of(make().about)
    assert content is not None
    said = json.loads(content)
    assert set(said) == {"alpha", "claim", "seeds", "settings"}
    assert (said["alpha"], said["seeds"], said["settings"]["dim"]) == (0.05, 3, 16)
    assert said["claim"]["by"] == 0.02
    assert content == json.dumps(said, sort_keys=True, separators=(",", ":"))
    statement = Statement(content=content, num_pairs=0, stated_seconds=0.0)
    assert statement.sha256 == hashlib.sha256(content.encode()).hexdigest()


def test_a_schedule_is_part_of_the_test_but_the_one_that_was_not_said_once() -> None:
    """Check that statements and editions without a schedule keep their hashes."""
    first = make(scale={"schedule": "cosine"})
    settings = first.about.settings
    unsaid = replace(first, about=replace(first.about, settings=without(settings, "schedule")))
    assert settings["schedule"] == "cosine"
    assert content_of(first.about) == content_of(unsaid.about)
    assert edition_sha256(first) == edition_sha256(unsaid)
    other = make(scale={"schedule": "linear"})
    assert content_of(other.about) != content_of(first.about)
    assert edition_sha256(other) != edition_sha256(first)


def without(settings: Mapping[str, Knob], name: str) -> dict[str, Knob]:
    return {key: value for key, value in settings.items() if key != name}


def test_alpha_is_that_of_the_reports() -> None:
    assert pytest.approx(1 - CONFIDENCE) == ALPHA


@pytest.mark.parametrize(
    ("change", "is_part"),
    [
        ({"statement": "four are better"}, True),
        ({"by": 0.01}, True),
        ({"a": "heads=1", "b": "heads=4"}, True),
        ({"seeds": 4}, True),
        ({"scale": {"steps": 5}}, True),
        ({"scale": {"learning_rate": 0.5}}, True),
        ({"source": "Another paper"}, False),
        ({"published": "24.9 against 25.8"}, False),
        ({"scale": {"cpus": 2, "threads": 1, "memory_gib": 1.0}}, False),
    ],
)
def test_what_changes_the_test_changes_its_hash(change: dict[str, Any], *, is_part: bool) -> None:
    """Check that sources, published numbers and resources are not part of the test."""
    assert (content_of(make(**change).about) != content_of(make().about)) == is_part


def test_without_a_claim_there_is_nothing_to_register(journal: Journal) -> None:
    planned = plan(make_ablation())
    assert content_of(planned.about) is None
    assert journal.keep_plan(planned).about.registration is None
    assert journal.statements(planned.key) == []


# --- pairs known ---------------------------------------------------------------------------------


def at_another(planned: Plan, **claim: str) -> Plan:
    assert planned.about.claim is not None
    return replace(
        planned, about=replace(planned.about, claim=replace(planned.about.claim, **claim))
    )


def test_a_seed_is_known_by_either_side() -> None:
    planned = make()
    of = {(cell.variant, cell.seed): cell.trial_id for cell in planned.cells}
    some = {of["heads=4", 0], of["heads=1", 0], of["heads=1", 2]}
    assert num_seeds_seen(planned, some.__contains__) == 2
    assert num_seeds_seen(planned, lambda trial_id: True) == 3
    assert num_seeds_seen(planned, lambda trial_id: False) == 0
    assert num_seeds_seen(at_another(planned, b="heads=2"), {of["heads=1", 0]}.__contains__) == 0


@pytest.mark.parametrize("status", sorted(Status))
def test_failures_and_skips_are_not_seen(journal: Journal, status: Status) -> None:
    planned = make()
    commit_all(journal, planned, status=status)
    says_nothing = status in {*FAILURES, Status.SKIPPED}
    made = registered(journal.keep_plan(planned).about)
    assert made.num_pairs_before == (0 if says_nothing else 3)


@pytest.mark.parametrize("sides", [{"heads=1"}, {"heads=4"}, {"heads=1", "heads=4"}])
def test_an_edit_after_results_is_exploratory(journal: Journal, sides: set[str]) -> None:
    """Check that the results of one side, as of an interrupted sweep, are enough."""
    for cell in journal.keep_plan(make()).cells:
        if cell.variant in sides and cell.seed < 2:
            journal.commit(ok(cell.trial_id), journal.begin(cell.trial_id, "here"))
    edited = registered(journal.keep_plan(make(by=0.01)).about)
    assert (edited.num_pairs_before, edited.changes) == (2, ("by 0.02 -> 0.01",))
    assert not edited.is_confirmatory


def test_of_a_claim_about_no_coordinate_every_one_is_seen() -> None:
    cells = tuple(replace(cell, at=f"length={8 + cell.seed}") for cell in make().cells)
    swept = replace(make(), cells=cells)
    assert num_seeds_seen(swept, lambda trial_id: True) == 3
    assert num_seeds_seen(at_another(swept, at="length=9"), lambda trial_id: True) == 1


def test_a_timing_knows_both_sides_at_once() -> None:
    claim = Claim("faster", metric="training_step_seconds", a="heads=1", b="heads=4", by=0.0)
    planned = plan(make_ablation(probes=["step_time"], claim=claim), seeds=2)
    first = planned.trials[0].trial_id
    assert num_seeds_seen(planned, lambda trial_id: trial_id == first) == 1


def test_a_result_of_another_ablation_counts(journal: Journal) -> None:
    mine = make()
    other = replace(mine, about=replace(mine.about, ablation="other"))
    journal.keep_plan(other)
    commit_all(journal, other)
    assert registered(journal.keep_plan(mine).about).num_pairs_before == 3
    assert registered(journal.keep_plan(other).about).is_confirmatory


# --- the life of a claim -------------------------------------------------------------------------


def test_a_claim_stated_first_is_confirmatory_and_stays_so(journal: Journal) -> None:
    stated = registered(journal.keep_plan(make()).about)
    content = content_of(make().about)
    assert content is not None
    assert stated == Registration(sha256=hashlib.sha256(content.encode()).hexdigest())
    commit_all(journal, make())
    assert registered(journal.keep_plan(make()).about) == stated
    assert stated.is_confirmatory


@pytest.mark.parametrize(
    ("edit", "is_late", "num_before", "changes"),
    [
        ({"by": 0.01, "seeds": 5}, False, 0, ("by 0.02 -> 0.01", "seeds 3 -> 5")),
        ({"seeds": 5}, True, 3, ("seeds 3 -> 5, after results were seen",)),
        ({"scale": {"steps": 5}}, True, 0, ("steps 4 -> 5",)),  # no results were known
    ],
)
def test_an_edit_says_what_changed_and_what_was_seen(
    journal: Journal,
    edit: dict[str, Any],
    num_before: int,
    changes: tuple[str, ...],
    *,
    is_late: bool,
) -> None:
    journal.keep_plan(make())
    if is_late:
        commit_all(journal, make())
    edited = registered(journal.keep_plan(make(**edit)).about)
    assert (edited.num_pairs_before, edited.changes) == (num_before, changes)
    assert edited.is_confirmatory == (num_before == 0)


def test_back_at_the_first_statement_it_is_confirmatory_again(journal: Journal) -> None:
    first = registered(journal.keep_plan(make()).about)
    commit_all(journal, make())
    second = registered(journal.keep_plan(make(by=0.01)).about)
    assert registered(journal.keep_plan(make()).about) == first
    commit_all(journal, make(seeds=4))
    assert registered(journal.keep_plan(make(by=0.01)).about) == second
    assert len(journal.statements(make().key)) == 2


def test_words_with_spaces_are_quoted_and_nothing_is_none() -> None:
    plain, swept = make().about, make(statement="all beat one").about
    assert swept.claim is not None
    swept = replace(swept, claim=replace(swept.claim, at="length=8"))
    stated = [
        Statement(content=content, num_pairs=0, stated_seconds=seconds)
        for seconds, about in enumerate((plain, swept))
        if (content := content_of(about))
    ]
    found = registration_of(swept, stated)
    assert found is not None
    assert found.changes == (
        "at none -> length=8",
        'statement "four beat one" -> "all beat one"',
    )


# --- copies --------------------------------------------------------------------------------------


def test_it_travels_in_the_frame(journal: Journal, tmp_path: Path) -> None:
    journal.keep_plan(make())
    commit_all(journal, make())
    kept = journal.keep_plan(make(by=0.01))
    assert journal.plans() == [kept]
    results = by_trial(journal.results(trial.trial_id for trial in kept.trials))
    for name, body in sweep_files(kept, results).items():
        (tmp_path / name).write_bytes(body)
    read = read_sweep(tmp_path / "results.parquet", tmp_path / "curves.parquet")
    assert registered(read.about).changes == ("by 0.02 -> 0.01",)
    assert read.about == sweep_of(kept, results).about


def test_statements_of_another_folder_are_adopted(tmp_path: Path) -> None:
    with Journal(tmp_path / "a.db") as there, Journal(tmp_path / "b.db") as here:
        there.keep_plan(make())
        commit_all(there, make())
        edited = there.keep_plan(make(by=0.01))
        assert here.adopt_plan(edited, there).about.registration == edited.about.registration
        assert here.statements(edited.key) == there.statements(edited.key)
        assert registered(here.keep_plan(make()).about).is_confirmatory


def test_what_was_stated_here_late_was_stated_there_early(tmp_path: Path) -> None:
    with Journal(tmp_path / "a.db") as there, Journal(tmp_path / "b.db") as here:
        there.keep_plan(make())
        commit_all(here, make())
        assert not registered(here.keep_plan(make()).about).is_confirmatory
        assert registered(here.adopt_plan(make(), there).about).is_confirmatory
        late = here.statements(make().key)
        there.adopt_plan(make(), here)  # the other direction changes nothing
        assert there.statements(make().key) == late


def test_a_rebuilt_journal_knows_what_the_old_one_knew(tmp_path: Path) -> None:
    with Journal(tmp_path / "old.db") as old:
        old.keep_plan(make())
        commit_all(old, make())
        old.keep_plan(make(seeds=5))
    with Journal(tmp_path / "old.db", read_only=True) as old, Journal(tmp_path / "new.db") as new:
        (planned,) = old.plans()
        found = registered(new.adopt_plan(planned, old).about)
    assert found.changes == ("seeds 3 -> 5, after results were seen",)


@pytest.mark.usefixtures("kept_servers", "plain_figures")
def test_reports_from_the_store_know_it(tmp_path: Path, store_tables: Path) -> None:
    """Read the registration after a run, and after a second one with an edited claim."""
    work = Workplace(tmp_path)
    work.out.mkdir()
    shutil.copy(store_tables, work.out / "mlflow.db")

    def ran(by: float) -> About:
        file = Path(work.ablation(mixer="attention", probes=["quality"]))
        claim = f"""Claim(
            "x", metric="accuracy", a="learning_rate=0.01", b="learning_rate=0.001", by={by}
        )"""
        text = file.read_text().replace("probes=", f"claim={claim}, probes=")
        text = text.replace("fashion_mnist_patches", "parity")  # its floors take no time
        file.write_text(text.replace("import Ablation", "import Ablation, Claim"))
        run(str(file), options=Options(out=work.out, executor="inline"))
        (sweep,) = sweeps_in(store_of(work.out, None))["small"]
        assert differences(work.out, None).differences == ()
        return sweep.about

    assert registered(ran(0.5)).is_confirmatory
    edited = registered(ran(0.25))
    assert (edited.num_pairs_before, edited.changes) == (2, ("by 0.5 -> 0.25",))


# --- older journals ------------------------------------------------------------------------------


def without_statements(path: Path) -> None:
    """Convert the journal to format 2."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(
            "DROP TABLE statements; DROP TABLE ends; DROP TABLE trials; DROP TABLE driver; "
            "DROP TABLE editions; DROP TABLE sources; PRAGMA user_version = 2;"
        )


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a journal of format 2 with the plan and all of its results."""
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        journal.keep_plan(make())
        commit_all(journal, make())
    without_statements(path)
    return path


def test_of_an_old_journal_no_registration_is_known(old: Path) -> None:
    with Journal(old, read_only=True) as journal:
        (planned,) = journal.plans()
        assert planned.about.registration is None
    with Journal(old) as journal:
        assert journal.plans() == [planned]
        assert journal.keep_plan(make()).about.registration is None


def test_a_claim_edited_in_an_old_journal_is_exploratory(old: Path) -> None:
    with Journal(old) as journal:
        edited = registered(journal.keep_plan(make(by=0.01)).about)
    assert (edited.num_pairs_before, edited.changes) == (3, ("by 0.02 -> 0.01",))


def test_an_old_journal_without_results_has_nothing_to_hide(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        journal.keep_plan(make())
    without_statements(tmp_path / "journal.db")
    with Journal(tmp_path / "journal.db") as journal:
        assert registered(journal.keep_plan(make()).about).is_confirmatory


def test_results_of_an_old_journal_stay_unregistered(old: Path, tmp_path: Path) -> None:
    with Journal(old, read_only=True) as there, Journal(tmp_path / "new.db") as here:
        assert here.adopt_plan(make(), there).about.registration is None
        for result in there.results(trial.trial_id for trial in make().trials):
            here.adopt(result)
        assert here.keep_plan(make()).about.registration is None
        assert registered(here.keep_plan(make(by=0.01)).about).num_pairs_before == 3
