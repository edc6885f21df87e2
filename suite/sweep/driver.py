"""Run sweeps: run the missing trials of plans, record their results and make the reports.

Trials run in this process, on an embedded Ray, or on a running cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Literal, get_args

from rich.console import Console

from bakeoff.suite.errors import unknown_name
from bakeoff.suite.events import (
    SECONDS_BETWEEN,
    Checkpoints,
    Event,
    ExecutorSettings,
    Finished,
    PlannedCode,
    Started,
    TrialExecutor,
    Unavailable,
    writable_event,
)
from bakeoff.suite.execution.inline import InlineExecutor, refuse_infeasible, refuse_too_large
from bakeoff.suite.execution.process_cleanup import process_cleanup
from bakeoff.suite.execution.side_by_side import num_places
from bakeoff.suite.journal.editions import source_sha256
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.journal.sqlite_schema import journal_in
from bakeoff.suite.planning.overrides import Setting
from bakeoff.suite.planning.own_modules import planned_code, source_of
from bakeoff.suite.planning.plan import distinct_plans
from bakeoff.suite.planning.training_examination import remarks_on, unresumable
from bakeoff.suite.provenance import num_cpus
from bakeoff.suite.schema import FAILURES, MIXER_ALONE, Plan, Resources
from bakeoff.suite.spec import Ablation, SpecError
from bakeoff.suite.sweep.finish import SweepOutcome, close_parents, conclude, counted
from bakeoff.suite.sweep.folder_lock import lock_folder
from bakeoff.suite.sweep.interruption import Interrupted, checkpoint_folder, where_it_continues
from bakeoff.suite.sweep.mlflow_sync import EventLog, MlflowSync
from bakeoff.suite.sweep.pending import (
    Pending,
    Where,
    distinct_work,
    environment_of_most,
    fixed_environment,
    local_environment,
    pending_work,
    seconds_of_past,
    split_by_seed,
    topological_layers,
)
from bakeoff.suite.sweep.starts import StartWeights
from bakeoff.suite.tasks.data_files import refuse_damaged
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.timeouts import SECONDS_AT, Deadline, TimeIsUp, in_time
from bakeoff.suite.tracking.client import StoreUnavailable
from bakeoff.suite.tracking.location import (
    Store,
    mlflow_is_installed,
    refuse_unusable,
    store_of,
    try_rebase,
)
from bakeoff.suite.tracking.restore import taken_over
from bakeoff.suite.tracking.write import RunWriter
from bakeoff.suite.training.checkpoint import remove

Executor = Literal["ray", "inline"]


class Display:
    """A display of events, used in a `with` block; this base class shows nothing."""

    def __init__(self, *arguments: object) -> None: ...

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def show(self, event: Event) -> None:
        """Update the display for an event."""


DisplayFor = Callable[[Sequence[Plan], Pending, Console], Display]


def executing(
    executor: Executor, address: str | None, settings: ExecutorSettings, plans: Sequence[Plan] = ()
) -> AbstractContextManager[TrialExecutor]:
    """Open an executor for the length of the block.

    Raises:
        BadAddress, RefusedAddress: In the cases of `bakeoff.suite.cluster.address.check_address`.
        Unavailable: If there is no such executor, or no cluster at the address.
    """
    if executor == "inline":
        return _inline(settings)
    from bakeoff.suite.cluster.address import authenticate, check_address

    if address is not None:
        check_address(address)
    authenticate(address)
    try:
        from bakeoff.suite.cluster.connect import joined, started
    except ImportError as error:
        raise Unavailable(
            f"Ray is not installed ({error}); `--executor inline` runs without it."
        ) from error
    return started(settings) if address is None else joined(address, settings, plans)


@contextmanager
def _inline(settings: ExecutorSettings) -> Iterator[InlineExecutor]:
    with process_cleanup():
        yield InlineExecutor(settings)


_SECONDS_TO_CLOSE = 10.0  # after Ctrl-C; the journal has what the store then lacks


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a sweep.

    Attributes:
        out: The output folder.
        tracking_uri: The MLflow store; by default an SQLite file in the output folder.
        executor: ``ray``; or ``inline``, which runs in this process and needs neither Ray nor
            MLflow.
        address: A running Ray cluster to join; by default one is started here.
        fail_fast: Stop at the first trial that times out, crashes or raises an error.
        checkpoint_seconds: Minimum time between two checkpoints of a trial; shorter trials write
            none.
        trial_seconds: Time limit of a trial; by default `timeouts.SECONDS_AT` of its scale.
        is_patient: Wait for another sweep that holds the output folder, instead of giving up.
        deadline: The time at which to stop with the results so far; without one, the sweep runs to
            the end.
    """

    out: Path = Path("out")
    tracking_uri: str | None = None
    executor: Executor = "ray"
    address: str | None = None
    fail_fast: bool = False
    checkpoint_seconds: float = SECONDS_BETWEEN
    trial_seconds: float | None = None
    is_patient: bool = False
    deadline: Deadline | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", Path(self.out))
        if self.executor not in get_args(Executor):
            raise SpecError(unknown_name("executor", str(self.executor), get_args(Executor)))

    @property
    def journal(self) -> Path:
        """The file of the journal."""
        return journal_in(self.out)

    @property
    def store(self) -> Store:
        """The MLflow store."""
        return store_of(self.out, self.tracking_uri)


def run(
    *ablations: Ablation | str | Sequence[Ablation | str],
    scale: str = "quick",
    seeds: int | None = None,
    options: Options | None = None,
    settings: Mapping[str, Setting] | None = None,
    display_for: DisplayFor = Display,
) -> SweepOutcome:
    """Run the missing trials of these ablations, record them, and make their reports.

    Args:
        ablations: `Ablation` objects, names, or paths of files, or lists of these.
        scale: The name of the scale, see `bakeoff.suite.spec.Ablation`.
        seeds: Number of seeds, instead of the scale's.
        options: The options of the sweep.
        settings: Changes to apply to each ablation first, by field; see
            `bakeoff.suite.planning.overrides`.
        display_for: Creates the display of the progress; `bakeoff.run` shows it on stderr.

    Returns:
        The outcome, with the counts of trials and the pages of the reports.

    Raises:
        SpecError: For an invalid specification; nothing has run then.
        NotAFolder, FolderUnavailable, ClusterUnavailable: If the output folder or the cluster is
            not available.
    """
    plans = distinct_plans(ablations, scale=scale, seeds=seeds, settings=settings)
    return run_plans(plans, options or Options(), Console(stderr=True), display_for)


def run_plans(
    plans: Sequence[Plan], options: Options, console: Console, display_for: DisplayFor = Display
) -> SweepOutcome:
    """Run the missing trials; every result is in the journal before it goes anywhere else."""
    refuse_what_cannot_run(plans, options)
    # The code is read before this process waits for the lock.
    code, sources = planned_code(plans), [source_of(plan) for plan in plans]
    with (
        lock_folder(options.out, is_patient=options.is_patient),
        Journal(options.journal) as journal,
    ):
        journal.refuse_damaged()
        _meet_store(plans, options, journal, console, map(source_sha256, sources))
        for sentence in remarks_on(plans):
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        # State each claim before its trials.
        plans = list(map(journal.keep_plan, plans, sources))
        sync = _started_sync(plans, options)
        sweep = _Sweep(plans, options, journal, EventLog(journal, sync), code)
        try:
            ran = sweep.run(console, display_for)
        except BaseException as error:
            writer, _ = sync.close(max_seconds=_SECONDS_TO_CLOSE) if sync else (None, "")
            if writer is not None:  # so that the store shows nothing of this sweep as running
                with suppress(StoreUnavailable):
                    close_parents(plans, journal, writer)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(sweep.continues()) from None
            raise
        outcome = _concluded(plans, options, journal, sync, ran)
        if not ran.was_cut:
            return outcome
        return replace(outcome, num_left=sweep.num_left(), continues=sweep.continues())


def record_journal(file: Path, options: Options) -> SweepOutcome:
    """Merge the results of another folder's journal, update the store, and make the reports.

    A result that this folder already has is kept.
    """
    refuse_unusable(options.store)
    with Journal(file.resolve(), read_only=True) as other:
        plans = other.plans()
        with lock_folder(options.out), Journal(options.journal) as journal:
            journal.refuse_damaged()
            hashes = [other.source_sha256_of(plan) for plan in plans]
            _meet_store(plans, options, journal, Console(stderr=True), hashes)
            plans = [journal.adopt_plan(plan, other) for plan in plans]
            trial_ids = dict.fromkeys(name for p in plans for name in other.trials_of_editions(p))
            num_new = sum(journal.adopt(result) for result in other.results(trial_ids))
            sync = _started_sync(plans, options)
            return _concluded(plans, options, journal, sync, _Ran(num_new))


def _meet_store(
    plans: Sequence[Plan],
    options: Options,
    journal: Journal,
    console: Console,
    hashes: Iterable[str],
) -> None:
    """Rebase the store of a copied folder, merge results that only the store has, and report both.

    `hashes` are those of the user's files that each plan is made from.
    """
    if not options.store.may_exist:
        return
    keys = [plan.key for plan in plans]
    for sentence in (try_rebase(options.store), taken_over(journal, options.store, keys, hashes)):
        if sentence:
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)


def _concluded(
    plans: Sequence[Plan],
    options: Options,
    journal: Journal,
    sync: MlflowSync | None,
    ran: _Ran,
) -> SweepOutcome:
    writer, error = sync.close() if sync else (None, "")
    outcome = replace(counted(plans, journal, ran.num_finished, ran.failed), error=error)
    return conclude(outcome, plans, journal, writer, options.out, options.store)


def _started_sync(plans: Sequence[Plan], options: Options) -> MlflowSync | None:
    """Return the running copy to MLflow, or None without MLflow: only the journal records then."""
    if not mlflow_is_installed():
        return None
    sync = MlflowSync(lambda: RunWriter(options.store), plans, options.journal)
    sync.start()
    return sync


def refuse_what_cannot_run(plans: Sequence[Plan], options: Options) -> None:
    """Raise for missing or altered data, impossible resources, and an unusable store.

    The resources of a cluster are checked once it has been joined.

    Raises:
        TaskError: If data are missing or altered.
        Unavailable: If this machine can never run a trial.
        UnusableFile: If the store is a file that cannot be used.
    """
    refuse_unusable(options.store)
    named = {t.task for plan in plans for t in plan.trials if t.task != MIXER_ALONE}
    for task in sorted(named):
        refuse_damaged(task_class(task).source)
    if options.executor == "inline":
        refuse_infeasible(distinct_work(plans))
    elif options.address is None:
        refuse_too_large(distinct_work(plans))


@dataclass(frozen=True)
class _Ran:
    """The outcome of a run: finished trials, failed ones, and whether the deadline came first."""

    num_finished: int = 0
    failed: tuple[str, ...] = ()
    was_cut: bool = False


@dataclass(frozen=True)
class _Sweep:
    """A run of the missing trials of some plans, which records every event."""

    plans: Sequence[Plan]
    options: Options
    journal: Journal
    log: EventLog
    code: PlannedCode | None
    running: dict[str, None] = field(default_factory=dict)  # ids of the trials without a result

    def run(self, console: Console, display_for: DisplayFor) -> _Ran:
        """Run all missing trials, or stop at the deadline."""
        past = seconds_of_past(self.plans, self.journal.ends())
        missing = replace(self._pending(), past=past, num_places=self._num_places())
        deadline = self.options.deadline
        if not missing.num_trials or (deadline and deadline.is_over):
            return _Ran(was_cut=bool(missing.num_trials))
        if self.options.executor == "ray":
            address = self.options.address
            console.print(
                f"joining {address}" if address else ("starting Ray; this takes some seconds")
            )
        with (
            # The display is opened first, because Ray takes seconds to start.
            display_for(self.plans, missing, console) as display,
            checkpoint_folder(
                self._executor_settings.checkpoints,
                self.journal.done().keys() - self._starts.needed,
            ),
            executing(
                self.options.executor, self.options.address, self._executor_settings, self.plans
            ) as executor,
            closing(in_time(self._events(missing, executor), deadline)) as events,
        ):
            return self._taken(events, display)

    def _num_places(self) -> float | None:
        """Return how many trials run at a time on this machine, or None on a cluster."""
        if self.options.address is not None:
            return None
        asked = [plan.resources for plan in self.plans]
        if any(each.num_gpus for each in asked):
            return float(min(map(num_places, asked)))
        if self.options.executor == "inline":
            return 1.0
        return max(1.0, num_cpus() // max(each.num_cpus for each in asked))

    def continues(self) -> str:
        """Return a clause that says where the next run continues."""
        return where_it_continues(self.plans, self.running, self._executor_settings.checkpoints)

    def num_left(self) -> int:
        """Return the number of trials that are left for the next run."""
        return self._pending().num_trials

    def _pending(self, where: Where | None = None) -> Pending:
        return pending_work(
            self.plans, self.journal.done(), where or self._where(), self._starts.are_kept
        )

    def _taken(self, events: Iterator[Event], display: Display) -> _Ran:
        """Record every event, then show it."""
        num_finished, was_cut = 0, False
        failed: list[str] = []
        try:
            for event in map(writable_event, events):
                self.log.write(event)
                if isinstance(event, Started):
                    self.running[event.trial_id] = None
                if isinstance(event, Finished):
                    self.running.pop(event.trial_id, None)
                    num_finished += 1
                    if event.result.status in FAILURES:  # may resume from its checkpoint later
                        failed.append(event.trial_id)
                    else:
                        for trial_id in self._starts.after(event.trial_id):
                            remove(self._executor_settings.checkpoints, trial_id)
                display.show(event)
                if failed and self.options.fail_fast:
                    break
        except TimeIsUp:
            was_cut = True
        return _Ran(num_finished, tuple(failed), was_cut)

    def _where(self) -> Where:
        """Return the environment of timings: local, or on a cluster that of earlier timings."""
        if self.options.address is None:
            return local_environment
        return cache(partial(environment_of_most, self.plans, self.journal.done()))

    def _events(self, missing: Pending, executor: TrialExecutor) -> Generator[Event, None, None]:
        """Train first in each part, packed; then time, alone, without requests to MLflow."""
        executor.refuse_infeasible([*missing.packed, *missing.alone])
        timed: set[tuple[str, Resources]] = set()
        for part, last_seed in split_by_seed(missing, may_be_cut=self.options.deadline is not None):
            for layer in topological_layers(part.packed):
                ready, ended = self._starts.partition_ready(layer, self.journal)
                yield from ended
                yield from executor.execute(ready)
            if part.alone:
                with self.log.store_paused():
                    yield from self._timings(part, last_seed, timed, executor)

    def _timings(
        self,
        missing: Pending,
        last_seed: int | None,
        timed: set[tuple[str, Resources]],
        executor: TrialExecutor,
    ) -> Generator[Event, None, None]:
        """Time in one environment; if that of earlier timings is gone, repeat all in another.

        Failed timings in `timed`, from earlier parts, are left to the next run; see `split_by_seed`
        for `last_seed`.
        """
        so_far = self._where()
        for resources in dict.fromkeys(resources for _, resources in missing.alone):
            found = executor.environment_for_timing(resources, so_far(resources))
            work = [
                (trial, asked)
                for trial, asked in self._pending(fixed_environment(found)).alone
                if asked == resources
                and (trial.trial_id, asked) not in timed
                and (last_seed is None or trial.seed <= last_seed)
            ]
            timed.update((trial.trial_id, asked) for trial, asked in work)
            yield from executor.execute_alone(work, found)

    @cached_property
    def _starts(self) -> StartWeights:
        plans = {each.key: each for each in (*self.journal.readable_plans(), *self.plans)}
        folder = self.options.out.resolve() / "checkpoints"
        return StartWeights(plans.values(), self.journal.done(), folder)

    @cached_property
    def _executor_settings(self) -> ExecutorSettings:
        return ExecutorSettings(
            code=self.code,
            checkpoints=Checkpoints(
                folder=self.options.out.resolve() / "checkpoints",
                seconds_between=self.options.checkpoint_seconds,
                kept=self._starts.needed,
                unused=frozenset(unresumable(self.plans)),
            ),
            trial_seconds=self.options.trial_seconds
            or max(SECONDS_AT[plan.about.scale] for plan in self.plans),
        )
