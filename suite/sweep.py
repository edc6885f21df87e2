"""The driver: plans in, books closed, reports out. Every other arrow is called from here."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from suite.books import Books
from suite.conclusion import close_parents, conclude
from suite.events import Event, Finished
from suite.execution import Executor, executing
from suite.executor import Executes
from suite.journal import Journal, journal_in
from suite.lock import held
from suite.machine import refuse_too_large
from suite.missing import Missing, distinct_work, missing_work
from suite.mlflow_store import StoreUnavailable
from suite.new_store import recorder_of
from suite.outbox import Outbox
from suite.outcome import Outcome, counted
from suite.planning import plan as plan_of
from suite.progress import display_for
from suite.schema import FAILURES, Plan
from suite.spec import Ablation
from suite.store import Store, mlflow_is_installed, store_of
from suite.tasks.data_files import read_verified
from suite.tasks.registry import task_class


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a sweep is run.

    Attributes:
        out: The output folder.
        tracking_uri: The MLflow store; None is an SQLite file in the output folder.
        executor: ``ray``, or ``inline``: this process, with neither Ray nor MLflow needed.
        address: A running Ray cluster to join; None starts one here.
        fail_fast: Stop at the first trial that times out, crashes or errs.
    """

    out: Path = Path("out")
    tracking_uri: str | None = None
    executor: Executor = "ray"
    address: str | None = None
    fail_fast: bool = False

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return journal_in(self.out)

    @property
    def store(self) -> Store:
        """The MLflow store."""
        return store_of(self.out, self.tracking_uri)


def run(
    *ablations: Ablation | str,
    scale: str = "quick",
    seeds: int | None = None,
    options: Options | None = None,
) -> Outcome:
    """Run what is missing of these ablations, record it, and make their reports.

    Raises:
        SpecError: for a specification that cannot be meant; nothing has run then.
        NotAFolder, FolderUnavailable, ClusterUnavailable: where something outside is not there.
    """
    plans = [plan_of(ablation, scale=scale, seeds=seeds) for ablation in ablations]
    return run_plans(plans, options or Options(), Console(stderr=True))


def run_plans(plans: Sequence[Plan], options: Options, console: Console) -> Outcome:
    """Run what is missing; every result is in the journal before anything else hears of it."""
    _refuse_bad_data(plans)
    if options.address is None:
        refuse_too_large([plan.resources for plan in plans])
    with held(options.out), Journal(options.journal) as journal:
        for plan in plans:
            journal.keep_plan(plan)
        missing = missing_work(plans, journal.done())
        outbox = _outbox(plans, options)
        try:
            num_run = _run_missing(plans, missing, options, Books(journal, outbox), console)
        except BaseException:
            _stopped(plans, journal, outbox)
            raise
        return _concluded(plans, options, journal, outbox, num_run)


def record_journal(file: Path, options: Options) -> Outcome:
    """Take over what another folder's journal holds, tell the store, and make the reports.

    A result that this folder has already stays as it is.
    """
    with Journal(file.resolve(), read_only=True) as other:
        plans = other.plans()
        with held(options.out), Journal(options.journal) as journal:
            for plan in plans:
                journal.keep_plan(plan)
            trial_ids = [trial.trial_id for trial, _ in distinct_work(plans)]
            num_new = sum(journal.adopt(result) for result in other.results(trial_ids))
            outbox = _outbox(plans, options)
            return _concluded(plans, options, journal, outbox, num_new)


def _concluded(
    plans: Sequence[Plan],
    options: Options,
    journal: Journal,
    outbox: Outbox | None,
    num_run: int,
) -> Outcome:
    recorder, trouble = outbox.close() if outbox else (None, "")
    outcome = replace(counted(plans, journal, num_run), trouble=trouble)
    return conclude(outcome, plans, journal, recorder, options.out, options.store)


def _stopped(plans: Sequence[Plan], journal: Journal, outbox: Outbox | None) -> None:
    """An end before the end: the store shows nothing as running any more."""
    recorder, _ = outbox.close() if outbox else (None, "")
    if recorder is not None:
        with suppress(StoreUnavailable):
            close_parents(plans, journal, recorder)


def _outbox(plans: Sequence[Plan], options: Options) -> Outbox | None:
    """None where MLflow is not installed: then the journal is the only book."""
    if not mlflow_is_installed():
        return None
    store = options.store
    outbox = Outbox(lambda: recorder_of(store), plans, options.journal)
    outbox.start()
    return outbox


def _refuse_bad_data(plans: Sequence[Plan]) -> None:
    """Missing or altered data are refused by name before anything runs."""
    for task in {task for plan in plans for task in plan.about.tasks}:
        read_verified(task_class(task).source)


def _run_missing(
    plans: Sequence[Plan], missing: Missing, options: Options, books: Books, console: Console
) -> int:
    """Returns how many trials have left a result."""
    if not missing.num_trials:
        return 0
    num_finished = 0
    with (
        display_for(plans, missing, console) as display,  # first: a cluster takes seconds to start
        executing(options.executor, options.address, _source_paths(plans)) as executor,
        closing(_events(missing, executor, books)) as events,
    ):
        for event in events:
            books.take(event)
            display.show(event)
            num_finished += isinstance(event, Finished)
            if options.fail_fast and _has_failed(event):
                break
    return num_finished


def _events(missing: Missing, executor: Executes, books: Books) -> Generator[Event, None, None]:
    """Training first, packed; then timing, alone, while the store is left in peace."""
    yield from executor.execute(missing.packed)
    if missing.alone:
        with books.store_paused():
            yield from executor.execute_alone(missing.alone)


def _has_failed(event: Event) -> bool:
    return isinstance(event, Finished) and event.result.status in FAILURES


def _source_paths(plans: Sequence[Plan]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for plan in plans for path in plan.source_paths))
