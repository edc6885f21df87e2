"""Compare journal, MLflow store and reports, and repair differences.

The journal is compared with its own hashes, each run of the store with the content from the
journal, and each file of a report with one made now. A repair first restores rows that the journal
has lost from the store; results that only the store has are never deleted. Then it marks wrong
content in the store, and the writer writes it again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bakeoff.suite.journal.editions import SHOWN_DIGITS, Source, edition_sha256
from bakeoff.suite.journal.export import JOURNAL_FILE, ExportError, exported, unpacked
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import journal_in
from bakeoff.suite.planning.loader import recorded_as
from bakeoff.suite.reporting.build import (
    findings_of,
    refuse_missing,
    reported,
    reports_of,
    sweeps_in,
)
from bakeoff.suite.reporting.frames import by_trial, sweep_files, sweep_of, with_history
from bakeoff.suite.reporting.stored_editions import at_edition, made_from
from bakeoff.suite.schema import Edition, Plan, Result
from bakeoff.suite.spec import SpecError
from bakeoff.suite.sweep.finish import conclude, counted
from bakeoff.suite.sweep.folder_lock import FolderUnavailable, is_held, lock_folder
from bakeoff.suite.sweep.mlflow_sync import MlflowSync, trials_with_cells
from bakeoff.suite.text import command, number_of
from bakeoff.suite.tracking.artifacts import digest_of, files_in
from bakeoff.suite.tracking.client import RunContent, StoreUnavailable
from bakeoff.suite.tracking.experiments import folder_of
from bakeoff.suite.tracking.location import Store, is_own, sqlite_path, store_of, try_rebase
from bakeoff.suite.tracking.read import REPORT, ChildRun, StoredFile, StoredSweep, StoreReader
from bakeoff.suite.tracking.restore import DamagedStore, rebuild
from bakeoff.suite.tracking.run_fields import Key, trial_content
from bakeoff.suite.tracking.shared_views import EDITION_TAG
from bakeoff.suite.tracking.write import RunWriter

IsWanted = Callable[[Edition, Source], bool]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference between journal, store and reports.

    Attributes:
        sentence: A description of the difference.
        key: The sweep, or None if it does not belong to a single sweep.
        run_ids: Runs that are wrong, and can be written again from the journal.
        files: Artifacts of the parent that have to be sent again.
        is_lost: Whether the journal lacks something that the store may have.
    """

    sentence: str
    key: Key | None = None
    run_ids: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of a comparison.

    Attributes:
        differences: The differences, one sentence each.
        summary: A sentence about all of them.
        mended: The differences that were repaired.
    """

    differences: tuple[str, ...]
    summary: str
    mended: tuple[str, ...] = ()


def differences(out: Path, tracking_uri: str | None, names: Sequence[str] = ()) -> Verification:
    """Compare the store and the reports with the journal of the folder.

    Args:
        out: The output folder.
        tracking_uri: The store; by default the folder's own.
        names: Names or files of ablations; by default all. The report of a file is compared with
            the edition that was made from its present content.

    Raises:
        SpecError: If nothing was run in the folder yet, or nothing of one of the names.
        FolderUnavailable: If a driver is running in it.
        JournalError: If the journal cannot be read.
        StoreUnavailable: If the store cannot be reached.
    """
    store = store_of(out, tracking_uri)
    _refuse_empty(out, store)
    if is_held(out):
        raise FolderUnavailable(f"--out {out}: a run is in progress; wait until it ends.")
    asked = recorded_as(names)
    return _verification(out, _found_in(out, store, asked), asked)


def repaired(out: Path, tracking_uri: str | None, names: Sequence[str] = ()) -> Verification:
    """Repair every difference that can be repaired; write nothing if there is none.

    If the repair is killed at any point, the next call completes it. `names` are as in
    `differences`.

    Returns:
        The remaining differences, and those that were repaired.

    Raises:
        SpecError: If nothing was run in the folder yet, or nothing of one of the names.
        FolderUnavailable: If a driver is running in it.
        JournalError: If the journal cannot be read or written.
        StoreUnavailable: If the store cannot be reached.
    """
    store = store_of(out, tracking_uri)
    _refuse_empty(out, store)
    asked = recorded_as(names)
    with lock_folder(out):
        moved = try_rebase(store)
        found = before = _found_in(out, store, asked)
        if any(each.is_lost for each in found):
            _restore(found, store, out)
            found = _found_in(out, store, asked)
        if found:
            _write_anew(found, store, out)
            found = _found_in(out, store, asked)
        left = {each.sentence for each in found}
        mended = [moved, *(each.sentence for each in before if each.sentence not in left)]
        return _verification(out, found, asked, tuple(filter(None, mended)))


def _verification(
    out: Path, found: Sequence[Difference], asked: Collection[str], mended: tuple[str, ...] = ()
) -> Verification:
    """Return the differences with a summary such as ``4 trials of heads: 2 differences``.

    It says which sweeps are unfinished: if one was interrupted, MLflow and the report lack it.
    """
    compared, unfinished = "no journal", ""
    if journal_in(out).is_file():
        with Journal(journal_in(out), read_only=True) as journal:
            trials = [each for each in journal.trials() if _is_asked(each.ablation, asked)]
            unfinished = "".join(f"; {each}" for each in _unfinished(journal, asked))
        names = dict.fromkeys(trial.ablation for trial in trials)
        number = number_of(len({trial.trial_id for trial in trials}), "trial")
        compared = f"{number} of {', '.join(names)}"
    state = number_of(len(found), "difference") if found else "journal, store and reports agree"
    sentences = tuple(each.sentence for each in found)
    summary = f"{compared}: {state}{unfinished}"
    return Verification(differences=sentences, summary=summary, mended=mended)


def _unfinished(journal: Journal, asked: Collection[str]) -> Iterator[str]:
    """Yield how many trials each sweep has left, and how to run them."""
    done = {each.trial_id for each in journal.entries()}
    for plan in journal.readable_plans():
        name, scale = plan.key
        left = len({trial.trial_id for trial in plan.trials} - done)
        if left and _is_asked(name, asked):
            again = command("run", name, "--scale", scale)
            yield f"{name} is unfinished, `{again}` runs the {number_of(left, 'trial')} left"


def _refuse_empty(out: Path, store: Store) -> None:
    """Raise SpecError if there is neither a journal nor a store."""
    file = sqlite_path(store.uri)
    is_there = out.is_dir() if file is None else file.is_file()
    if not journal_in(out).is_file() and not is_there:
        raise _nothing_run(out)


def _nothing_run(out: Path) -> SpecError:
    run = command("run", "NAME", out=out)
    return SpecError(f"--out {out}: nothing has been run here yet; start with `{run}`.")


def _is_asked(ablation: str, asked: Collection[str]) -> bool:
    return not asked or ablation in asked


def _found_in(out: Path, store: Store, asked: Mapping[str, Path | None]) -> list[Difference]:
    """Return every difference.

    Raises:
        SpecError: If neither the journal nor the store exists, or if they lack one of the names.
        JournalError, StoreUnavailable: In the same cases as `differences`.
    """
    file, path = sqlite_path(store.uri), journal_in(out)
    if file is not None and not file.is_file():
        return [Difference(sentence=f"there is no store at {file}; `--repair` creates it.")]
    reader = StoreReader(store.uri, folder_of(store))
    is_shared = not is_own(store, out)  # others may have recorded more there
    if not path.is_file():
        if not reader.sweeps():
            raise _nothing_run(out)
        sentence = f"there is no journal at {path}; `--repair` creates it from the store."
        return [Difference(sentence=sentence, is_lost=True)]
    with Journal(path, read_only=True) as journal:
        every, damaged = journal.plans(), {trial_id for trial_id, _ in journal.damaged()}
        recorded = {plan.about.ablation for plan in every}
        for name in asked:
            if name not in recorded:
                refuse_missing(name, (), known=recorded)
        plans = [plan for plan in every if _is_asked(plan.about.ablation, asked)]
        editions = {edition_sha256(plan)[:SHOWN_DIGITS] for plan in plans}
        found = [each for plan in plans for each in _of_journal(plan, journal, damaged)]
        # Rows cannot be compared with the store if some are damaged.
        for plan in plans if not damaged else ():
            check = _StoreCheck(plan, journal, reader.sweep(plan.key), is_shared=is_shared)
            found += check.differences(out / "reports")
    known = {plan.key for plan in plans}
    if not is_shared:
        for key in reader.sweeps():
            if key not in known and _is_asked(key[0], asked):
                sentence = f"{key[0]}, {key[1]}: the sweep is in the store, not in the journal."
                found.append(Difference(sentence=sentence, key=key, is_lost=True))
    if not any(each.files for each in found):  # otherwise there is nothing to make a report from
        for name in sorted({name for name, _ in known}):
            file = asked.get(name)
            is_wanted = made_from(file) if file else _is_among(editions)
            found += _of_report(name, known, store, out / "reports", is_wanted)
    return found


def _is_among(editions: set[str]) -> IsWanted:
    return lambda edition, _: edition.sha256 in editions


def _of_journal(plan: Plan, journal: Journal, damaged: set[str]) -> Iterator[Difference]:
    """Yield rows of the journal that do not match their hash, or that contradict each other."""
    ablation, scale = plan.key
    head = f"{ablation}, {scale}: trial"
    trial_ids = {trial.trial_id for trial in plan.trials}
    for trial_id in sorted(damaged & trial_ids):
        sentence = f"{head} {trial_id} in the journal was altered: its SHA-256 differs."
        yield Difference(sentence=sentence, key=plan.key, is_lost=True)
    for each in journal.contradictions():
        if each.trial_id in trial_ids:
            first, later = each.attempts
            yield Difference(
                sentence=f"{head} {each.trial_id} gave different numbers in attempts {first} and "
                f"{later} of the same environment."
            )


def _of_report(
    name: str, known: set[Key], store: Store, folder: Path, is_wanted: IsWanted
) -> Iterator[Difference]:
    """Compare every file of a report with one made now, from the sweeps that it may show."""
    if not (folder / name / "index.html").is_file():
        yield Difference(
            sentence=f"{name}: there is no report; `{command('report', name)}` makes it."
        )
        return
    shown = known | reported(folder)
    with tempfile.TemporaryDirectory() as fresh:
        try:
            in_store = sweeps_in(store, [name], [name]).get(name, ())
            sweeps = [each for each in in_store if (name, each.about.scale) in shown]
            reports_of([name], {name: at_edition(store, sweeps, is_wanted)}, Path(fresh))
        except StoreUnavailable as error:
            yield Difference(sentence=f"{name}: the report cannot be compared: {error}")
            return
        wanted, here = files_in(Path(fresh) / name), files_in(folder / name)
    unlike = sorted(file for file, body in wanted.items() if here.get(file) != body)
    if unlike:
        others = f" and {len(unlike) - 1} more are" if len(unlike) > 1 else " is"
        again = command("report", name)
        sentence = f"{name}: {unlike[0]}{others} not consistent with the store; run `{again}`."
        yield Difference(sentence=sentence)


class _StoreCheck:
    """A comparison of one sweep of the journal, without damaged rows, with the store.

    A shared store may show another edition that was recorded later by others: then only the runs of
    the journal's own trials are compared.
    """

    def __init__(
        self, plan: Plan, journal: Journal, stored: StoredSweep, *, is_shared: bool
    ) -> None:
        self._plan, self._journal, self._stored = plan, journal, stored
        own = edition_sha256(plan)[:SHOWN_DIGITS]
        self._is_foreign = is_shared and stored.edition_sha256 not in ("", own)

    def differences(self, reports: Path) -> Iterator[Difference]:
        """Yield differences of the parent, the runs, the artifacts, and the copy of the report."""
        number = len(self._stored.parents)
        if number > 1:
            yield self._difference(f"the parent is in the store {number} times.")
        results = list(self._journal.results(trial.trial_id for trial in self._plan.trials))
        yield from self._of_trials(results)
        if self._is_foreign:
            return
        of_files = list(self._of_files(results))
        yield from of_files
        if self._stored.edition and not of_files:  # an older version wrote no variants
            yield from self._of_variants(results)
        yield from self._of_sent_report(reports / self._plan.about.ablation)

    def _difference(self, sentence: str, **what: Any) -> Difference:
        ablation, scale = self._plan.key
        sentence = f"{ablation}, {scale}: {sentence}"
        return Difference(sentence=sentence, key=self._plan.key, **what)

    def _of_trials(self, results: Sequence[Result]) -> Iterator[Difference]:
        """Compare by trial and environment; each result should have one complete run."""
        trials, key, axes = trials_with_cells(self._plan), self._plan.key, self._plan.about.axes
        is_marked = self._stored.edition and not self._is_foreign
        edition = {EDITION_TAG: self._stored.edition} if is_marked else {}
        wanted = {}
        for result in results:
            content = trial_content(key, *trials[result.trial_id], axes, result)
            content = replace(content, tags={**content.tags, **edition})
            wanted[content.place] = (f"trial {result.trial_id}", content)
        others = yield from self._of_runs(wanted, self._stored.trials)
        # The journal may hold trials that the plan no longer has.
        known = {("trial", each.trial_id, each.environment_id) for each in self._journal.entries()}
        for place, trial_id in {run.place: run.trial_id for run in others}.items():
            if place not in known and not self._is_foreign:
                sentence = f"trial {trial_id} is in the store, not in the journal."
                yield self._difference(sentence, is_lost=True)

    def _of_variants(self, results: Sequence[Result]) -> Iterator[Difference]:
        """Compare with the rows of the report's tables; each should have one run."""
        wanted = {}
        for numbers in findings_of(sweep_of(self._plan, by_trial(results))).variants:
            content = numbers.content(self._plan.about)
            wanted[content.place] = (f"variant {numbers.variant} on {numbers.task}", content)
        others = yield from self._of_runs(wanted, self._stored.variants)
        if others:
            sentence = f"variants that are not in the journal are in the store ({len(others)})."
            yield self._difference(sentence, run_ids=tuple(run.run_id for run in others))

    def _of_runs(
        self, wanted: Mapping[tuple[str, ...], tuple[str, RunContent]], runs: Sequence[ChildRun]
    ) -> Generator[Difference, None, list[ChildRun]]:
        """Compare runs with the expected content of each place; return the runs of other places."""
        shown: dict[tuple[str, ...], list[ChildRun]] = {}
        for run in runs:
            if run.is_complete:
                shown.setdefault(run.place, []).append(run)
        for place, (head, content) in wanted.items():
            of_place = shown.pop(place, [])
            right = [run for run in of_place if self._stored.holds(run, content)]
            wrong = tuple(run.run_id for run in of_place if run not in right[:1])
            if not of_place:
                yield self._difference(f"{head} is in the journal, not in the store.")
            elif len(of_place) > 1:
                sentence = f"{head} is in the store {len(of_place)} times."
                yield self._difference(sentence, run_ids=wrong)
            elif wrong:
                sentence = f"{head} in the store differs from the journal."
                yield self._difference(sentence, run_ids=wrong)
        return [run for of_place in shown.values() for run in of_place]

    def _of_files(self, results: Sequence[Result]) -> Iterator[Difference]:
        shown = with_history(self._plan, self._journal)
        wanted = sweep_files(shown, by_trial(results))
        wanted[JOURNAL_FILE] = exported(self._plan, self._journal)
        for name, body in wanted.items():
            if fault := _fault_of_file(name, self._stored.file(name), body):
                yield self._difference(fault, files=(name,))

    def _of_sent_report(self, home: Path) -> Iterator[Difference]:
        """Compare only a copy of the present report, which may have grown since it was sent."""
        if not home.is_dir() or self._stored.digest(REPORT) != digest_of(home):
            return
        sent = self._stored.report_files()
        altered = [name for name, body in files_in(home).items() if sent.get(name) != body]
        if altered:
            sentence = f"{REPORT}/{altered[0]} in the store differs from the published file."
            yield self._difference(sentence, files=(REPORT,))


def _fault_of_file(name: str, stored: StoredFile, wanted: bytes) -> str:
    """Return what is wrong with an artifact of the parent; empty if it is correct."""
    if stored.body is None:
        return f"the parent in the store has no {name}."
    if not stored.is_sound or len(stored.published) > 1:
        return f"{name} in the store differs from the published file: its SHA-256 differs."
    if _content(name, stored.body) != _content(name, wanted):
        return f"{name} of the store differs from the journal."
    return ""


def _content(name: str, body: bytes) -> bytes:
    try:
        return unpacked(body) if name == JOURNAL_FILE else body
    except ExportError:
        return b""


def _restore(found: Sequence[Difference], store: Store, out: Path) -> None:
    """Restore what the journal lost, sweep by sweep, unless the store is damaged too."""
    lost = dict.fromkeys(each.key for each in found if each.is_lost and each.key is not None)
    with Journal(journal_in(out)) as journal:
        for key in list(lost) or StoreReader(store.uri, folder_of(store)).sweeps():
            with suppress(DamagedStore):
                rebuild(journal, store, [key])


def _write_anew(found: Sequence[Difference], store: Store, out: Path) -> None:
    """Mark wrong content in the store, and write it and missing content from the journal."""
    with Journal(journal_in(out)) as journal:
        plans = journal.plans()
        if not plans or journal.damaged():  # never write content from a damaged row
            return
        writer = RunWriter(store)
        for plan in plans:
            of_plan = [each for each in found if each.key == plan.key]
            writer.open_sweep(plan.about)
            run_ids = [run_id for each in of_plan for run_id in each.run_ids]
            writer.invalidate(plan.key, run_ids, [name for each in of_plan for name in each.files])
        sync = MlflowSync(lambda: RunWriter(store), plans, journal.path)
        sync.start()
        ready, error = sync.close()
        if not error:
            outcome = counted(plans, journal, 0)
            error = conclude(outcome, plans, journal, ready, out, store).error
    if error:
        raise StoreUnavailable(error)
