"""Compares journal, MLflow store and reports: nothing is lost, doubled or different."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.journal.journal import Journal
from suite.journal.sqlite_schema import journal_in
from suite.reporting.build import reported, reports_of, sweeps_in
from suite.schema import Plan
from suite.spec import SpecError
from suite.sweep.folder_lock import FolderUnavailable, is_held
from suite.sweep.store_check import Difference, StoreCheck
from suite.text import command, number_of
from suite.tracking.artifacts import files_in
from suite.tracking.client import StoreUnavailable
from suite.tracking.experiments import folder_of
from suite.tracking.location import Store, is_own, sqlite_path, store_of
from suite.tracking.read_runs import StoreReader
from suite.tracking.run_fields import Key


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What differs, a sentence each, and a sentence about all.

    Attributes:
        mended: What differed before it was repaired.
    """

    differences: tuple[str, ...]
    summary: str
    mended: tuple[str, ...] = ()


def differences(out: Path, tracking_uri: str | None) -> Verification:
    """Compare the store and the reports with the journal of the folder.

    Raises:
        SpecError: if nothing was run in the folder yet.
        FolderUnavailable: if a driver works on it.
        JournalError: if the journal cannot be read.
        StoreUnavailable: if the store cannot be reached.
    """
    store = store_of(out, tracking_uri)
    refuse_empty(out, store)
    if is_held(out):
        raise FolderUnavailable(f"--out {out}: a run is under way; wait for its end.")
    return verification(out, found_in(out, store))


def verification(
    out: Path, found: Sequence[Difference], mended: tuple[str, ...] = ()
) -> Verification:
    """The differences, and a summary as ``4 trials of heads: 2 differences``."""
    compared = "no journal"
    if journal_in(out).is_file():
        with Journal(journal_in(out), read_only=True) as journal:
            trials = journal.trials()
        names = dict.fromkeys(trial.ablation for trial in trials)
        number = number_of(len({trial.trial_id for trial in trials}), "trial")
        compared = f"{number} of {', '.join(names)}"
    state = number_of(len(found), "difference") if found else "journal, store and reports agree"
    sentences = tuple(each.sentence for each in found)
    return Verification(differences=sentences, summary=f"{compared}: {state}", mended=mended)


def refuse_empty(out: Path, store: Store) -> None:
    """Raise SpecError where there is neither a journal nor a place that could hold more."""
    file = sqlite_path(store.uri)
    is_there = out.is_dir() if file is None else file.is_file()
    if not journal_in(out).is_file() and not is_there:
        raise _nothing_run(out)


def found_in(out: Path, store: Store) -> list[Difference]:
    """Every difference.

    Raises:
        SpecError: if there is no journal, and nothing in the store.
        JournalError, StoreUnavailable: as `differences`.
    """
    file, path = sqlite_path(store.uri), journal_in(out)
    if file is not None and not file.is_file():
        return [Difference(sentence=f"there is no store at {file}; `--repair` makes it.")]
    reader = StoreReader(store.uri, folder_of(store))
    if not path.is_file():
        if not reader.sweeps():
            raise _nothing_run(out)
        sentence = f"there is no journal at {path}; `--repair` makes it from the store."
        return [Difference(sentence=sentence, is_lost=True)]
    with Journal(path, read_only=True) as journal:
        plans, damaged = journal.plans(), {trial_id for trial_id, _ in journal.damaged()}
        found = [each for plan in plans for each in _of_journal(plan, journal, damaged)]
        for plan in plans if not damaged else ():  # a damaged row is nothing to compare with
            found += StoreCheck(plan, journal, reader.sweep(plan.key)).differences(out / "reports")
    known = {plan.key for plan in plans}
    if is_own(store, out):  # one that others may use too holds more
        for key in reader.sweeps():
            if key not in known:
                sentence = f"{key[0]}, {key[1]}: the sweep is in the store, not in the journal."
                found.append(Difference(sentence=sentence, key=key, is_lost=True))
    if not any(each.files for each in found):  # else there is nothing to make a report from
        for name in sorted({name for name, _ in known}):
            found += _of_report(name, known, store, out / "reports")
    return found


def _nothing_run(out: Path) -> SpecError:
    run = command("run", "NAME", out=out)
    return SpecError(f"--out {out}: nothing was run here yet; `{run}` does that.")


def _of_journal(plan: Plan, journal: Journal, damaged: set[str]) -> Iterator[Difference]:
    """Rows of the journal that are not what was written, or that contradict each other."""
    ablation, scale = plan.key
    head = f"{ablation}, {scale}: trial"
    trial_ids = {trial.trial_id for trial in plan.trials}
    for trial_id in sorted(damaged & trial_ids):
        sentence = f"{head} {trial_id} in the journal is not what was written, by its SHA-256."
        yield Difference(sentence=sentence, key=plan.key, is_lost=True)
    for each in journal.contradictions():
        if each.trial_id in trial_ids:
            first, later = each.attempts
            yield Difference(
                sentence=f"{head} {each.trial_id} gave different numbers in attempts {first} and "
                f"{later} of the same environment."
            )


def _of_report(name: str, known: set[Key], store: Store, folder: Path) -> Iterator[Difference]:
    """Every file of a report against one made now, of the sweeps that it may show."""
    if not (folder / name / "index.html").is_file():
        yield Difference(
            sentence=f"{name}: there is no report; `{command('report', name)}` makes it."
        )
        return
    shown = known | reported(folder)
    with tempfile.TemporaryDirectory() as fresh:
        try:
            held = sweeps_in(store, [name], [name]).get(name, ())
            sweeps = [each for each in held if (name, each.about.scale) in shown]
            reports_of([name], {name: sweeps}, Path(fresh))
        except StoreUnavailable as error:
            yield Difference(sentence=f"{name}: the report cannot be compared: {error}")
            return
        wanted, here = files_in(Path(fresh) / name), files_in(folder / name)
    unlike = sorted(file for file, body in wanted.items() if here.get(file) != body)
    if unlike:
        others = f" and {len(unlike) - 1} more are" if len(unlike) > 1 else " is"
        again = command("report", name)
        sentence = f"{name}: {unlike[0]}{others} not what the store gives; `{again}`."
        yield Difference(sentence=sentence)
