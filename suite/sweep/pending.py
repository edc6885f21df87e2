"""Find the trials that are left to run, and order them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bakeoff.suite.journal.sqlite_schema import End
from bakeoff.suite.planning.cost_model import kinds_of, seconds_of
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import FAILURES, Plan, Resources, Trial

Work = tuple[Trial, Resources]
Done = Mapping[str, set[str]]  # trial_id -> environments in which it has a result
Where = Callable[[Resources], str]  # the environment of timings with these resources
HasWeights = Callable[[str], bool]  # whether the weights of a trial are available, by its id


@dataclass(frozen=True, kw_only=True)
class Pending:
    """The work to run, in order, in two phases: timing never shares a machine.

    Attributes:
        packed: The work of the first phase, which shares the machine.
        alone: The timings, each of which runs alone.
        num_done: The number of trials that are done.
        past: trial_id -> the seconds that a finished trial took, if known.
        num_places: How many workers run at a time in the first phase, or None if not known yet.
    """

    packed: tuple[Work, ...]
    alone: tuple[Work, ...]
    num_done: int
    past: Mapping[str, float] = field(default_factory=dict)
    num_places: float | None = None

    @property
    def num_trials(self) -> int:
        """The number of trials to run, of both phases."""
        return len(self.packed) + len(self.alone)


def local_environment(resources: Resources) -> str:
    """Return the environment of this machine."""
    return provenance(resources).environment_id


def fixed_environment(environment_id: str) -> Where:
    """Return a function that returns this environment for any resources."""
    return lambda resources: environment_id


def environment_of_most(plans: Iterable[Plan], done: Done, resources: Resources) -> str:
    """Return the environment of most of the plans' timings with these resources, or ""."""
    counts = Counter(
        environment_id
        for trial, asked in _work_by_environment(plans)
        if asked == resources and trial.is_timing
        for environment_id in done.get(trial.trial_id, ())
    )
    return max(sorted(counts), key=lambda each: counts[each], default="")


def pending_work(
    plans: Sequence[Plan],
    done: Done,
    where: Where = local_environment,
    has_weights: HasWeights = lambda trial_id: True,
) -> Pending:
    """Return the work that is left, in the order of `sort_by_priority`.

    A trial that two plans share appears once. A timing that two plans share appears once for each
    of their resources: with another number of threads its environment is another one, and a
    comparison must not mix environments.

    A trial that is done runs again if a trial that is left needs its weights, and they are lost.
    """
    every = _work_by_environment(plans)
    left = [work for work in every if not is_done(*work, done, where)]
    lost = {each for trial, _ in left for each in _lost(trial, done, has_weights)}
    left += [work for work in every if work[0].trial_id in lost and is_done(*work, done, where)]
    left = sort_by_priority(left)
    return Pending(
        packed=tuple(work for work in left if not work[0].is_timing),
        alone=tuple(work for work in left if work[0].is_timing),
        num_done=len(every) - len(left),
    )


def _lost(trial: Trial, done: Done, has_weights: HasWeights) -> Iterator[str]:
    """Yield the parents of a trial that are done but have lost their weights."""
    for parent in trial.givers_of_weights.values():
        if done.get(parent.trial_id) and not has_weights(parent.trial_id):
            yield parent.trial_id
            yield from _lost(parent, done, has_weights)


def topological_layers(works: Iterable[Work]) -> list[tuple[Work, ...]]:
    """Return the work in layers, parents first; keep the order within a layer."""
    by_id = {work[0].trial_id: work for work in works}
    layers: dict[int, list[Work]] = {}
    for trial, resources in by_id.values():
        layers.setdefault(_depth(trial, by_id), []).append((trial, resources))
    return [tuple(layers[depth]) for depth in sorted(layers)]


def _depth(trial: Trial, pending: Container[str]) -> int:
    """Return the length of the longest chain of pending parents."""
    parents = [parent for parent in trial.parents.values() if parent.trial_id in pending]
    return 1 + max(_depth(parent, pending) for parent in parents) if parents else 0


def sort_by_priority(works: Iterable[Work]) -> list[Work]:
    """Sort trials: the shortest of each probe, task and mixer; then seed 0; then other seeds.

    So there are soon results of each kind, and its speed is known. After these few, the longest
    come first: one that started last would leave all other places idle, while in this order a phase
    takes at most a third longer than the optimum (Graham 1969, "Bounds on multiprocessing timing
    anomalies"), and the few delay it by at most their own time. The estimated time left also
    depends on the longest most.
    """
    timed = sorted(((w[0].seed > 0, seconds_of(*w), w) for w in works), key=lambda each: each[:2])
    first: dict[Hashable, Work] = {}
    rest: list[tuple[bool, float, Work]] = []
    for is_later, seconds, work in timed:
        _, kind, *_ = kinds_of(work[0])
        if first.setdefault(kind, work) is not work:
            rest.append((is_later, -seconds, work))
    rest.sort(key=lambda each: each[:2])
    return [*first.values(), *(work for _, _, work in rest)]


def seconds_of_past(plans: Iterable[Plan], ends: Iterable[End]) -> Mapping[str, float]:
    """Return how long the finished trials of these plans took, in seconds, by id."""
    known = {trial.trial_id for plan in plans for trial in plan.trials}
    kept = (end for end in ends if end.is_kept and end.status not in FAILURES)
    return {end.trial_id: end.seconds for end in kept if end.trial_id in known}


def distinct_work(plans: Iterable[Plan]) -> list[Work]:
    """Return every trial of the plans with its resources, once, in the plans' order."""
    found = ((trial, plan.resources.for_trial(trial)) for plan in plans for trial in plan.trials)
    return list({trial.trial_id: (trial, resources) for trial, resources in found}.values())


def _work_by_environment(plans: Iterable[Plan]) -> list[Work]:
    """Return the distinct work, but a timing once for each of its resources."""
    found = ((trial, plan.resources.for_trial(trial)) for plan in plans for trial in plan.trials)
    keyed = {(work[0].trial_id, work[0].is_timing and work[1]): work for work in found}
    return list(keyed.values())


def is_done(
    trial: Trial, resources: Resources, done: Done, where: Where = local_environment
) -> bool:
    """Return True if a trial has a result; a timing needs one from its environment."""
    environments = done.get(trial.trial_id, set())
    return where(resources) in environments if trial.is_timing else bool(environments)


def split_by_seed(pending: Pending, *, may_be_cut: bool) -> Iterator[tuple[Pending, int | None]]:
    """Yield the work in parts to be run one after the other, each with two phases.

    Without a deadline there is one part, which packs best. With a deadline, all variants with two
    seeds are more informative than half of the variants with three: so seed 0 of everything,
    training and timing, comes before seed 1. On a cluster this leaves some places idle at the end
    of each part.

    Yields:
        The part's work, and the last seed whose timings belong to it, or None if all remaining
        timings belong to it, which may be more than were pending at first.
    """
    if not may_be_cut:
        yield pending, None
        return
    last = max((trial.seed for trial, _ in pending.alone), default=0)
    for seed in sorted({trial.seed for trial, _ in (*pending.packed, *pending.alone)}):
        packed, alone = _of(seed, pending.packed), _of(seed, pending.alone)
        yield replace(pending, packed=packed, alone=alone), seed if seed < last else None


def _of(seed: int, works: tuple[Work, ...]) -> tuple[Work, ...]:
    return tuple(work for work in works if work[0].seed == seed)
