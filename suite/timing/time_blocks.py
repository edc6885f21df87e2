"""Choose the rounds that count: those of quiet blocks, or all if too few are quiet.

A block in which other processes were busy is excluded and repeated while there is time. Blocks are
excluded by the load of other processes, never by the measured times, which would make any
instrument look precise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bakeoff.suite.timing.machine_load import num_cpus
from bakeoff.suite.timing.passes import Key
from bakeoff.suite.timing.stopping import Limits, SampleSeries, noise

Round = Mapping[Key, float]  # seconds of one pass


@dataclass(frozen=True)
class TimeBlock:
    """Rounds that were run together.

    Attributes:
        rounds: The rounds, at least one.
        disturbance: Why they count less; empty if no reason is known.
        cores_of_others: CPU seconds per second that other processes took, or None if unknown.
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
        """Return True if the candidate has used its maximum time."""
        return self.every(key).seconds >= limits.cell_seconds

    def counted(self, key: Key, limits: Limits) -> tuple[SampleSeries, str]:
        """Return the samples that finally count, and why they are noisy, or ""."""
        quiet, every = self.quiet(key), self.every(key)
        if len(quiet.samples) >= min(limits.least_rounds, len(every.samples)):
            return quiet, noise(quiet, limits, self.elapsed)
        return every, self._disturbance()

    def other_load(self) -> float | None:
        """Return the share of the allowed CPUs' time that other processes took, if known."""
        known = [(s.cores_of_others, s.seconds) for s in self.blocks]
        taken = [(cores * seconds, seconds) for cores, seconds in known if cores is not None]
        lasted = sum(seconds for _, seconds in taken)
        return sum(cpu for cpu, _ in taken) / lasted / num_cpus() if lasted else None

    def _disturbance(self) -> str:
        """Return the disturbance of the block with the median load among the disturbed ones."""
        disturbed = [block for block in self.blocks if block.disturbance]
        ordered = sorted(disturbed, key=lambda block: block.cores_of_others or 0.0)
        return ordered[len(ordered) // 2].disturbance

    def _series(self, key: Key, rounds: Sequence[Round]) -> SampleSeries:
        return SampleSeries([held[key] for held in rounds if key in held], self.num_passes[key])


LEAST_CANDIDATES = 5  # with fewer, the effect of a round cannot be separated from theirs
LEAST_ROUNDS = 5
_SWEEPS = 6


def without_round_effects(rounds: Sequence[Mapping[Key, float]]) -> list[Mapping[Key, float]]:
    """Remove the effects of rounds from samples; return them unchanged if there are too few.

    A machine that is slower for a second slows all candidates of that second's rounds. Rounds are
    randomised blocks: log seconds = candidate + round + residual, fitted by Tukey's median polish
    (1977, "Exploratory Data Analysis", chapter 11), which is robust to a few outliers. Without it,
    the interval of a median would measure the variation of the machine's speed. The median round
    effect is zero, so the seconds remain those of a usual moment.
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
