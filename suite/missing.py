"""Which trials are left to run? Those of the plans, each once, less those that are done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from suite.planning.estimate import seconds_of
from suite.probes.registry import probe
from suite.provenance import provenance
from suite.schema import Plan, Resources, Trial

Work = tuple[Trial, Resources]
Done = Mapping[str, set[str]]  # trial_id -> environments in which it has a result
Where = Callable[[Resources], str]  # the environment in which timings with these are made


@dataclass(frozen=True, kw_only=True)
class Missing:
    """What is to be run, largest first, in two phases: timing never shares a machine."""

    packed: tuple[Work, ...]
    alone: tuple[Work, ...]
    num_done: int

    @property
    def num_trials(self) -> int:
        """Trials to run, of both phases."""
        return len(self.packed) + len(self.alone)


def here(resources: Resources) -> str:
    """The environment of this machine."""
    return provenance(resources).environment_id


def at(environment_id: str) -> Where:
    """That environment, whatever a trial may use of it."""
    return lambda resources: environment_id


def environment_of_most(plans: Iterable[Plan], done: Done, resources: Resources) -> str:
    """Where most of these plans' timings with these resources were made; empty without any."""
    counts = Counter(
        environment_id
        for trial, asked in _work_by_environment(plans)
        if asked == resources and probe(trial.probe).is_timing
        for environment_id in done.get(trial.trial_id, ())
    )
    return max(sorted(counts), key=lambda each: counts[each], default="")


def missing_work(plans: Sequence[Plan], done: Done, where: Where = here) -> Missing:
    """The work that is left; a trial that two plans share stands in it once.

    A timing that two plans share stands in it once for each of their resources: on other threads
    it is made in another environment, and neither comparison may be filled from both.
    """
    every = _work_by_environment(plans)
    left = [work for work in every if not is_done(*work, done, where)]
    left.sort(key=lambda work: -seconds_of(*work))
    return Missing(
        packed=tuple(work for work in left if not probe(work[0].probe).is_timing),
        alone=tuple(work for work in left if probe(work[0].probe).is_timing),
        num_done=len(every) - len(left),
    )


def distinct_work(plans: Iterable[Plan]) -> list[Work]:
    """Every trial of the plans with its resources, each once, in the plans' order."""
    return list(
        {
            trial.trial_id: (trial, plan.resources) for plan in plans for trial in plan.trials
        }.values()
    )


def _work_by_environment(plans: Iterable[Plan]) -> list[Work]:
    """As `distinct_work`, but a timing as often as plans give it different resources."""
    return list(
        {
            (trial.trial_id, probe(trial.probe).is_timing and plan.resources): (
                trial, plan.resources
            )
            for plan in plans
            for trial in plan.trials
        }.values()
    )  # fmt: skip


def is_done(trial: Trial, resources: Resources, done: Done, where: Where = here) -> bool:
    """A quality trial: with a result from anywhere. A timing trial: with one from there."""
    environments = done.get(trial.trial_id, set())
    if probe(trial.probe).is_timing:
        return where(resources) in environments
    return bool(environments)
