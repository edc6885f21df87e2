"""Which trials are left to run? Those of the plans, each once, less those that are done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from suite.estimate import seconds_of
from suite.probes.registry import probe
from suite.provenance import provenance
from suite.schema import Plan, Resources, Trial

Work = tuple[Trial, Resources]


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


def missing_work(plans: Sequence[Plan], done: Mapping[str, set[str]]) -> Missing:
    """The work that is left; a trial that two plans share stands in it once."""
    every = distinct_work(plans)
    left = [work for work in every if not is_done(*work, done)]
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


def is_done(trial: Trial, resources: Resources, done: Mapping[str, set[str]]) -> bool:
    """A quality trial: with a result from anywhere. A timing trial: with one from here."""
    environments = done.get(trial.trial_id, set())
    if probe(trial.probe).is_timing:
        return provenance(resources).environment_id in environments
    return bool(environments)
