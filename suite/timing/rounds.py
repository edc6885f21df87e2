"""Time candidates in turn, so that a moment of high load affects all of them alike.

Every candidate runs once per round, in random order: random interleaving removed two fifths of the
variance between runs in google/benchmark (docs/random_interleaving.md there).
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from bakeoff.suite.errors import classified
from bakeoff.suite.schema import Status
from bakeoff.suite.timing.clock import Clock
from bakeoff.suite.timing.machine_load import ReadTimes, num_cpus, seconds_of_others
from bakeoff.suite.timing.passes import Key, Missing, NoGraph, Pass, Passes
from bakeoff.suite.timing.stopping import Limits, has_enough
from bakeoff.suite.timing.time_blocks import Record, Round, TimeBlock

_Value = TypeVar("_Value")
_TRIES = 2  # attempts to take a sample
_LEAST_SECONDS = 1e-9  # avoids a division by zero for a pass below the clock's resolution


@dataclass(frozen=True)
class Timings:
    """The result of a timing run.

    Attributes:
        samples: Seconds of one pass each, from the rounds that count.
        noise: Why a candidate's samples are noisy; empty if they are not.
        first_calls: Seconds of each candidate's first call.
        missing: Candidates that could not take part.
        num_disturbed: Number of rounds that were excluded.
        other_load: Share of the machine's CPU time that other processes took, or None if unknown.
    """

    samples: Mapping[Key, Sequence[float]]
    noise: Mapping[Key, str]
    first_calls: Mapping[Key, float]
    missing: Mapping[Key, Missing]
    num_disturbed: int
    other_load: float | None

    def joined(self, later: Timings) -> Timings:
        """Return the result with that of a later timing run, which replaces equal candidates."""
        loads = [load for load in (self.other_load, later.other_load) if load is not None]
        again = {*later.samples, *later.missing}
        return Timings(
            samples={**_without(self.samples, again), **later.samples},
            noise={**_without(self.noise, again), **later.noise},
            first_calls={**_without(self.first_calls, again), **later.first_calls},
            missing={**_without(self.missing, again), **later.missing},
            num_disturbed=self.num_disturbed + later.num_disturbed,
            other_load=max(loads, default=None),
        )


def _without(found: Mapping[Key, _Value], left_out: Container[Key]) -> dict[Key, _Value]:
    return {key: value for key, value in found.items() if key not in left_out}


class TimingRun:
    """Candidates to be timed in turn on one device. Use once.

    Args:
        passes: The pass of each candidate; missing ones stay missing.
        clock: Clock of the device.
        limits: How long to continue.
        read_times: Function that reads the CPU time so far of the machine and of this process.
        seed: Seed of the order within the rounds.
    """

    def __init__(
        self, passes: Passes, clock: Clock, limits: Limits, read_times: ReadTimes, seed: int
    ) -> None:
        self.clock, self.limits, self.read_times = clock, limits, read_times
        self.missing = {key: p for key, p in passes.items() if isinstance(p, Missing)}
        self.passes = {key: p for key, p in passes.items() if isinstance(p, Pass)}
        self.num_passes = dict.fromkeys(self.passes, 1)
        self.least_seconds: dict[Key, float] = {}  # the least seconds of a pass so far
        self.turns = random.Random(seed)

    def run(self) -> Timings:
        """Run the first calls in the order given, warm-up rounds, and the rounds that count."""
        begun = self.clock.now()
        first_calls = self._first_calls()
        self._warm_up(begun)
        return self._timings(self._rounds(), first_calls)

    def _first_calls(self) -> dict[Key, float]:
        tried = {key: self._tried(key) for key in list(self.passes)}
        return {key: seconds for key, seconds in tried.items() if seconds is not None}

    def _tried(self, key: Key) -> float | None:
        """Return the seconds of one pass, or None if it failed or ran out of memory.

        The candidate is then excluded. It may fail later than at the first call, since other
        candidates have taken memory in between.
        """
        try:
            return self._sample(key)
        except Exception as error:
            self.missing[key] = why_missing(error, self.passes[key].declared)
        del self.passes[key]
        torch.cuda.empty_cache()  # the error, which kept the pass's tensors alive, is gone
        return None

    def _warm_up(self, begun: float) -> None:
        """Run rounds that do not count, and find how many passes make a sample long enough."""
        samples: dict[Key, list[float]] = {key: [] for key in self.passes}
        num_rounds = 1  # the first calls count as a round
        while self.passes and not is_warm(
            samples.values(), num_rounds, self.clock.now() - begun, self.limits
        ):
            start = self.clock.now()
            for key, seconds in self._round(self.passes).items():
                samples[key].append(seconds)
            self._set_passes(self.clock.now() - start)
            num_rounds += 1

    def _set_passes(self, round_seconds: float) -> None:
        sample = self.limits.least_sample_in(max(round_seconds, _LEAST_SECONDS))
        for key, seconds in self.least_seconds.items():
            self.num_passes[key] = max(1, math.ceil(sample / max(seconds, _LEAST_SECONDS)))

    def _rounds(self) -> Record:
        record, begun = Record(self.num_passes), self.clock.now()
        while not self._is_over(record):
            taking_part = [key for key in self.passes if not record.is_spent(key, self.limits)]
            blocks = [*record.blocks, self._block(taking_part)]
            record = replace(record, blocks=blocks, elapsed=self.clock.now() - begun)
        return record

    def _is_over(self, record: Record) -> bool:
        going = [key for key in self.passes if not record.is_spent(key, self.limits)]
        if all(has_enough(record.quiet(key), self.limits) for key in going):
            return True
        so_far = (record.elapsed, record.num_quiet, record.num_disturbed)
        if not self.limits.is_time_up(*so_far):
            return False
        is_noisy = any(record.counted(key, self.limits)[1] for key in going)
        return not (is_noisy and self.limits.is_worth_more(*so_far, len(self.passes)))

    def _block(self, keys: Sequence[Key]) -> TimeBlock:
        before, begun = self.read_times(), self.clock.now()
        rounds = [self._round(keys)]
        while self.clock.now() - begun < self.limits.block:
            rounds.append(self._round(keys))
        seconds = self.clock.now() - begun
        taken = seconds_of_others(before, self.read_times())
        cores = None if taken is None else taken / seconds
        return TimeBlock(rounds, self._disturbance(cores), cores, seconds)

    def _disturbance(self, cores_of_others: float | None) -> str:
        """Return why a block counts less. On a GPU its clock decides, not the CPU's load."""
        if cores_of_others is None or not self.clock.suffers_from_load:
            return self.clock.why_slow()
        if cores_of_others > self.limits.most_cores_of_others(num_cpus()):
            return f"other processes took {100 * cores_of_others:.0f} % of a core"
        return ""

    def _round(self, keys: Iterable[Key]) -> Round:
        """Time each candidate once, in random order."""
        order = list(keys)
        self.turns.shuffle(order)
        tried = {key: self._tried(key) for key in order if key in self.passes}
        return {key: seconds for key, seconds in tried.items() if seconds is not None}

    def _sample(self, key: Key) -> float:
        """Return the seconds of one pass."""
        candidate = self.passes[key]
        candidate.prepare()
        try:
            seconds = self._at_speed(candidate, key)
        finally:
            candidate.clear()
        self.least_seconds[key] = min(seconds, self.least_seconds.get(key, math.inf))
        return seconds

    def _at_speed(self, candidate: Pass, key: Key) -> float:
        """Time a candidate; repeat a short one if the device was slow at its end."""
        is_short = self.least_seconds.get(key, math.inf) < self.limits.cold_pass
        for _ in range(_TRIES if is_short else 1):
            self.clock.wait_for_speed()
            if is_short:
                candidate.run()
            seconds = self.clock.seconds(candidate.run, self.num_passes[key])
            if self.clock.is_at_speed():
                break
        return seconds

    def _timings(self, record: Record, first_calls: Mapping[Key, float]) -> Timings:
        counted = {key: record.counted(key, self.limits) for key in self.passes}
        return Timings(
            samples={key: series.samples for key, (series, _) in counted.items()},
            noise={key: noise for key, (_, noise) in counted.items()},
            first_calls=first_calls,
            missing=self.missing,
            num_disturbed=record.num_disturbed,
            other_load=record.other_load(),
        )


def why_missing(error: Exception, declared: str) -> Missing:
    """Return why a candidate is missing, if it lacks memory or cannot run or be recorded.

    Args:
        error: The error that it raised.
        declared: The value of `Pass.declared`.

    Raises:
        Exception: the error itself, for any other reason.
    """
    if isinstance(error, NoGraph):
        return Missing(Status.SKIPPED, str(error))
    status, reason = classified(error)
    if status is Status.OUT_OF_MEMORY:
        return Missing(status, reason)
    if not declared:
        raise error
    return Missing(Status.SKIPPED, f"it cannot be run with {declared}: {reason}")


NUM_SAMPLES = 10
_MOST_BY_CHANCE = 28
_DIFFERENCE = 0.01


def has_trend(samples: Sequence[float]) -> bool:
    """Return True if the last ten samples rise or fall; False if there are fewer than ten.

    Mann's test (1945, "Nonparametric tests against trend") subtracts the number of falling pairs
    from the number of rising pairs: among 45 pairs, a difference of 29 occurs by chance in fewer
    than 1 of 100 cases. A significant trend may still be too small to matter, so the medians of the
    two halves must also differ by more than 1 %.
    """
    last = samples[-NUM_SAMPLES:]
    if len(last) < NUM_SAMPLES:
        return False
    pairs = itertools.combinations(last, 2)
    balance = sum((later > earlier) - (later < earlier) for earlier, later in pairs)
    before, after = (statistics.median(half) for half in (last[:5], last[5:]))
    return abs(balance) > _MOST_BY_CHANCE and abs(after - before) > _DIFFERENCE * after


def is_warm(
    samples: Iterable[Sequence[float]], num_rounds: int, elapsed: float, limits: Limits
) -> bool:
    """Return True if the warm-up of all candidates is over.

    Args:
        samples: Samples of each candidate, without first calls.
        num_rounds: Number of passes of each candidate so far, including the first call.
        elapsed: Seconds since the warm-up began.
        limits: The limits of the warm-up.
    """
    if num_rounds < limits.warm_up_rounds or elapsed < limits.warm_up_seconds:
        return False
    if elapsed >= limits.most_warm_up_seconds:
        return True
    some = list(samples)
    return all(len(s) >= NUM_SAMPLES for s in some) and not any(has_trend(s) for s in some)
