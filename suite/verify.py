"""`bakeoff verify`: journal, MLflow and reports agree; nothing is lost, doubled or different."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reports.render import render
from suite.answers import sweeps_in
from suite.frames import sweep_files
from suite.journal.journal import Journal, journal_in
from suite.journal_lines import JOURNAL_FILE, LinesError, packed, unpacked
from suite.mlflow_store import StoreUnavailable
from suite.outbox import cells_by_trial
from suite.projection import Key, axes_of
from suite.rows import by_trial
from suite.schema import Plan
from suite.shown import Given, ShownTrial, fault_of
from suite.shown_store import REPORT, Artifact, ShownStore, ShownSweep, files_in, is_report
from suite.spec import SpecError
from suite.store import Store, is_own, store_of
from suite.sweep.folder_lock import FolderUnavailable, is_held
from suite.tracking_uri import sqlite_path

_Place = tuple[str, str]  # (trial_id, environment_id)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Where two of the books do not agree.

    Attributes:
        sentence: What differs.
        key: Of the sweep, where a remedy is named.
        wrong_trials: run_ids of children that give way to what the journal says.
        wrong_files: Artifacts of the parent that are to be sent again.
        lacks: Whether it is the journal that lacks something.
    """

    sentence: str
    key: Key | None = None
    wrong_trials: tuple[str, ...] = ()
    wrong_files: tuple[str, ...] = ()
    lacks: bool = False


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was compared, and where it differs: a sentence each.

    Attributes:
        mended: What differed before it was repaired.
    """

    differences: tuple[str, ...]
    summary: str
    mended: tuple[str, ...] = ()


def differences(out: Path, tracking_uri: str | None) -> Comparison:
    """Hold the store and the reports against the journal of the folder.

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
    return comparison(out, store, found_in(out, store))


def comparison(
    out: Path, store: Store, found: list[Difference], mended: tuple[str, ...] = ()
) -> Comparison:
    """The differences, and a sentence about all."""
    state = f"{len(found)} differences" if found else "journal, store and reports agree"
    return Comparison(
        differences=tuple(each.sentence for each in found),
        summary=f"{_compared(out)}: {state}",
        mended=mended,
    )


def refuse_empty(out: Path, store: Store) -> None:
    """Where there is neither a journal nor a folder or file that could hold more, is nothing.

    Raises:
        SpecError: then.
    """
    file = sqlite_path(store.uri)
    is_there = out.is_dir() if file is None else file.is_file()
    if not journal_in(out).is_file() and not is_there:
        raise SpecError(f"--out {out}: nothing was run here yet; `bakeoff run` does that.")


def found_in(out: Path, store: Store) -> list[Difference]:
    """Every difference.

    Raises:
        SpecError: if there is no journal, and nothing in the store.
        JournalError, StoreUnavailable: as `differences`.
    """
    file, path = sqlite_path(store.uri), journal_in(out)
    if file is not None and not file.is_file():
        return [Difference(sentence=f"there is no store at {file}; `--repair` makes it.")]
    shown = ShownStore(store.uri)
    if not path.is_file():
        if not shown.sweeps():
            raise SpecError(f"--out {out}: nothing was run here yet; `bakeoff run` does that.")
        return [_lacking(f"there is no journal at {path}; `--repair` makes it from the store.")]
    with Journal(path, read_only=True) as journal:
        plans, damaged = journal.plans(), {trial_id for trial_id, _ in journal.damaged()}
        found = [each for plan in plans for each in _of_journal(plan, journal, damaged)]
        if not damaged:  # else what all is to be held against is not known
            found += [each for plan in plans for each in _of_sweep(plan, journal, shown, out)]
    if is_own(store, out):  # one that others may use too holds more
        found += _unknown_sweeps({plan.key for plan in plans}, shown)
    if not any(each.wrong_files for each in found):  # else there is nothing to make it of
        names = dict.fromkeys(plan.about.ablation for plan in plans)
        found += [each for name in names for each in _of_report(name, store, out / "reports")]
    return found


def _compared(out: Path) -> str:
    """As ``4 trials of heads``."""
    if not journal_in(out).is_file():
        return "no journal"
    with Journal(journal_in(out), read_only=True) as journal:
        trials = journal.trials()
    names = dict.fromkeys(trial.ablation for trial in trials)
    return f"{len({trial.trial_id for trial in trials})} trials of {', '.join(names)}"


def _lacking(sentence: str, key: Key | None = None) -> Difference:
    return Difference(sentence=sentence, key=key, lacks=True)


def _unknown_sweeps(known: set[Key], shown: ShownStore) -> Iterator[Difference]:
    for key in shown.sweeps():
        if key not in known:
            yield _lacking(f"{_where(key)}: the sweep is in the store, not in the journal.", key)


def _where(key: Key) -> str:
    return f"{key[0]}, {key[1]}"


def _of_journal(plan: Plan, journal: Journal, damaged: set[str]) -> Iterator[Difference]:
    """The journal in itself: what is not what was written, and what contradicts itself."""
    head = f"{_where(plan.key)}: trial"
    trial_ids = {trial.trial_id for trial in plan.trials}
    for trial_id in sorted(damaged & trial_ids):
        sentence = f"{head} {trial_id} in the journal is not what was written, by its SHA-256."
        yield _lacking(sentence, plan.key)
    for each in journal.contradictions():
        if each.trial_id in trial_ids:
            first, later = each.attempts
            yield Difference(
                sentence=f"{head} {each.trial_id} gave different numbers in attempts {first} and "
                f"{later} of the same environment."
            )


def _of_sweep(plan: Plan, journal: Journal, store: ShownStore, out: Path) -> Iterator[Difference]:
    """One sweep: its parent, the children, the parent's artifacts."""
    sweep = store.sweep(plan.key)
    number = len(sweep.parents)
    if number > 1:
        sentence = f"{_where(plan.key)}: the parent is in the store {number} times."
        yield Difference(sentence=sentence, key=plan.key)
    yield from _of_trials(plan, journal, sweep)
    yield from _of_artifacts(plan, journal, sweep)
    yield from _of_sent_report(plan, sweep, out / "reports")


def _of_trials(plan: Plan, journal: Journal, sweep: ShownSweep) -> Iterator[Difference]:
    """The journal's results against the children."""
    where = _where(plan.key)
    kept = {(each.trial_id, each.environment_id): each for each in _given(plan, journal)}
    held = {(entry.trial_id, entry.environment_id) for entry in journal.entries()}
    shown: dict[_Place, list[ShownTrial]] = {}
    for child in sweep.trials:
        if child.recorded.is_complete:
            place = (child.recorded.trial_id, child.recorded.environment_id)
            shown.setdefault(place, []).append(child)
    for place in [place for place in kept if place not in shown]:
        yield Difference(sentence=f"{where}: trial {place[0]} is in the journal, not in the store.")
    for place, children in shown.items():
        if place in kept:
            yield from _of_trial(plan, kept[place], children, sweep)
        elif place not in held:
            sentence = f"{where}: trial {place[0]} is in the store, not in the journal."
            yield _lacking(sentence, plan.key)


def _of_trial(
    plan: Plan, given: Given, children: list[ShownTrial], sweep: ShownSweep
) -> Iterator[Difference]:
    """One result against the children that show it, of which there should be one."""
    head = f"{_where(plan.key)}: trial {given.trial_id}"
    same = [each for each in children if each.recorded.result_sha256 == given.result.sha256]
    chosen = (same or children)[0]
    doubled = tuple(each.recorded.run_id for each in children if each is not chosen)
    if doubled:
        yield Difference(
            sentence=f"{head} is in the store {len(children)} times.", key=plan.key,
            wrong_trials=doubled,
        )  # fmt: skip
    wrong = (chosen.recorded.run_id,)
    if not same:
        sentence = f"{head} differs between journal and store."
        yield Difference(sentence=sentence, key=plan.key, wrong_trials=wrong)
    elif fault := fault_of(chosen, given, sweep.history):
        sentence = f"{head} shows {fault}, in the store."
        yield Difference(sentence=sentence, key=plan.key, wrong_trials=wrong)


def _given(plan: Plan, journal: Journal) -> Iterator[Given]:
    """What each child of the sweep is made of."""
    trials = {trial.trial_id: trial for trial in plan.trials}
    cells, axes = cells_by_trial(plan), axes_of(plan.about.variants)
    for result in journal.results(trials):
        trial = trials[result.trial_id]
        yield Given(
            key=plan.key, trial=trial, cells=cells[trial.trial_id], axes=axes, result=result
        )


def _of_artifacts(plan: Plan, journal: Journal, sweep: ShownSweep) -> Iterator[Difference]:
    trial_ids = [trial.trial_id for trial in plan.trials]
    wanted: Mapping[str, bytes] = sweep_files(plan, by_trial(journal.results(trial_ids)))
    lines = packed(plan, journal.statements(plan.key), journal.kept(trial_ids))
    wanted = {**wanted, JOURNAL_FILE: lines}
    for name, artifact in sweep.artifacts(wanted).items():
        fault = _fault_of_file(name, artifact, wanted[name])
        if fault:
            yield Difference(
                sentence=f"{_where(plan.key)}: {fault}", key=plan.key, wrong_files=(name,)
            )


def _fault_of_file(name: str, held: Artifact, wanted: bytes) -> str:
    if held.body is None:
        return f"the parent in the store has no {name}."
    if not held.is_settled:
        return f"{name} in the store is not the file that was published, by its SHA-256."
    if _content(name, held.body) != _content(name, wanted):
        return f"{name} of the store is not what the journal gives."
    return ""


def _content(name: str, body: bytes) -> bytes:
    """What counts of a file: another zlib packs the same lines into other bytes."""
    try:
        return unpacked(body) if name == JOURNAL_FILE else body
    except LinesError:
        return b""


def _of_sent_report(plan: Plan, sweep: ShownSweep, folder: Path) -> Iterator[Difference]:
    """The parent's copy of the report; one that was sent before the report here grew may differ."""
    home = folder / plan.about.ablation
    digest, files = sweep.report_files()
    if not is_report(digest, home):
        return
    altered = [name for name, body in files_in(home).items() if files.get(name) != body]
    if altered:
        yield Difference(
            sentence=f"{_where(plan.key)}: {REPORT}/{altered[0]} in the store is not the file "
            "that was published.",
            key=plan.key, wrong_files=(REPORT,),
        )  # fmt: skip


def _of_report(name: str, store: Store, folder: Path) -> Iterator[Difference]:
    """Every file of the report on disk against one made now."""
    if not (folder / name / "index.html").is_file():
        sentence = f"{name}: there is no report; `bakeoff report {name}` makes it."
        yield Difference(sentence=sentence)
        return
    with tempfile.TemporaryDirectory() as fresh:
        try:
            render(name, sweeps_in(store, name), Path(fresh))
        except StoreUnavailable as error:
            yield Difference(sentence=f"{name}: the report cannot be compared: {error}")
            return
        wanted, here = files_in(Path(fresh) / name), files_in(folder / name)
    unlike = Counter(file for file, body in wanted.items() if here.get(file) != body)
    if unlike:
        first, more = min(unlike), len(unlike) - 1
        others = f" and {more} more are" if more else " is"
        yield Difference(
            sentence=f"{name}: {first}{others} not what the store gives; `bakeoff report {name}`."
        )
