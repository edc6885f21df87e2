"""Choose the rounds that count: those of quiet blocks, or all where too few are quiet.

A block in which other processes were busy is excluded and repeated while there is time: by
their load, never by the times that were measured, which would make any instrument look precise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from suite.timing.machine_load import num_cpus
from suite.timing.passes import Key
from suite.timing.stopping import Limits, SampleSeries, noise

Round = Mapping[Key, float]  # seconds of one pass


@dataclass(frozen=True)
class TimeBlock:
    """Rounds that were run together.

    Attributes:
        rounds: The rounds, at least one.
        disturbance: Why they count less; empty where nothing is known.
        cores_of_others: CPU seconds per second that other processes took; None if unknown.
        seconds: Duration of the block.
    """

    rounds: Sequence[Round]
    disturbance: str
    cores_of_others: float | None
    seconds: float


@dataclass(frozen=True)
class Record:
    """The blocks of a timing run so far.

    Attributes:
        num_passes: Number of passes of which a sample of each candidate is the mean.
        blocks: The blocks, in order of time.
        elapsed: Seconds since the first block began.
    """

    num_passes: Mapping[Key, int]
    blocks: Sequence[TimeBlock] = ()
    elapsed: float = 0.0

    @property
    def num_quiet(self) -> int:
        """Number of rounds in quiet blocks."""
        return sum(len(block.rounds) for block in self.blocks if not block.disturbance)

    @property
    def num_disturbed(self) -> int:
        """Number of rounds in disturbed blocks."""
        return sum(len(block.rounds) for block in self.blocks if block.disturbance)

    def quiet(self, key: Key) -> SampleSeries:
        """Return the candidate's samples from quiet blocks, without round effects."""
        return self._series(key, self._quiet_rounds)

    def every(self, key: Key) -> SampleSeries:
        """Return all samples of a candidate."""
        return self._series(key, [held for s in self.blocks for held in s.rounds])

    @cached_property
    def _quiet_rounds(self) -> Sequence[Round]:
        return without_round_effects(
            [held for s in self.blocks if not s.disturbance for held in s.rounds]
        )

    def is_spent(self, key: Key, limits: Limits) -> bool:
        """Return True if the candidate has taken as much time as one may."""
        return self.every(key).seconds >= limits.cell_seconds

    def counted(self, key: Key, limits: Limits) -> tuple[SampleSeries, str]:
        """Return the samples that count in the end, and why they are noisy, if they are."""
        quiet, every = self.quiet(key), self.every(key)
        if len(quiet.samples) >= min(limits.least_rounds, len(every.samples)):
            return quiet, noise(quiet, limits, self.elapsed)
        return every, self._disturbance()

    def other_load(self) -> float | None:
        """Return the share of our CPUs' time that other processes took; None if unknown."""
        known = [(s.cores_of_others, s.seconds) for s in self.blocks]
        taken = [(cores * seconds, seconds) for cores, seconds in known if cores is not None]
        lasted = sum(seconds for _, seconds in taken)
        return sum(cpu for cpu, _ in taken) / lasted / num_cpus() if lasted else None

    def _disturbance(self) -> str:
        """Return the disturbance of the middle one of the disturbed blocks."""
        disturbed = [block for block in self.blocks if block.disturbance]
        ordered = sorted(disturbed, key=lambda block: block.cores_of_others or 0.0)
        return ordered[len(ordered) // 2].disturbance

    def _series(self, key: Key, rounds: Sequence[Round]) -> SampleSeries:
        return SampleSeries([held[key] for held in rounds if key in held], self.num_passes[key])


LEAST_CANDIDATES = 5  # fewer cannot tell the round's part from their own
LEAST_ROUNDS = 5
_SWEEPS = 6


def without_round_effects(rounds: Sequence[Mapping[Key, float]]) -> list[Mapping[Key, float]]:
    """Remove the effects of rounds from samples; leave them unchanged where there are too few.

    A machine that is slower for a second slows all candidates of that second's rounds. Rounds are
    randomised blocks: log seconds = candidate + round + rest, fitted by Tukey's median polish
    (1977, "Exploratory Data Analysis", chapter 11), which a few odd samples do not move. Without it
    the interval of a median would say how restless the machine was. The middle round is left as it
    was: seconds stay the seconds of a usual moment.
    """
    keys = list(dict.fromkeys(key for held in rounds for key in held))
    if len(keys) < LEAST_CANDIDATES or len(rounds) < LEAST_ROUNDS:
        return [dict(held) for held in rounds]
    logs = np.array(
        [[np.log(held[key]) if key in held else np.nan for key in keys] for held in rounds]
    )
    factors = np.exp(_round_effects(logs))
    pairs = zip(rounds, factors, strict=True)
    return [{key: value / float(factor) for key, value in held.items()} for held, factor in pairs]


def _round_effects(logs: np.ndarray) -> np.ndarray:
    """Return one effect per round, with median 0, from logs `[rounds, candidates]`."""
    effects = np.zeros(len(logs))
    for _ in range(_SWEEPS):
        candidates = np.nanmedian(logs - effects[:, None], axis=0)
        effects = np.nanmedian(logs - candidates[None, :], axis=1)
        effects -= np.median(effects)
    return effects
