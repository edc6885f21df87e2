"""What in a sample is the round's, and not the contestant's? Rounds are blocks.

A machine that is slower for a second slows all contestants of that second's rounds. Each met each
round once, so that the round's part can be told from the contestant's, as in any design of
randomised blocks: log seconds = contestant + round + rest, fitted by Tukey's median polish (1977,
"Exploratory Data Analysis", chapter 11), which a few odd samples do not move. Without it the
interval of a median says how restless the machine was, and not how well the contestants can be
told apart. The middle round is left as it was: seconds stay the seconds of a usual moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from suite.timing.passes import Key

LEAST_CONTESTANTS = 5  # fewer cannot tell the round's part from their own
LEAST_ROUNDS = 5
_SWEEPS = 6


def without_round_effects(rounds: Sequence[Mapping[Key, float]]) -> list[Mapping[Key, float]]:
    """The samples as they would be, were all rounds alike; unchanged where there are too few."""
    keys = list(dict.fromkeys(key for held in rounds for key in held))
    if len(keys) < LEAST_CONTESTANTS or len(rounds) < LEAST_ROUNDS:
        return [dict(held) for held in rounds]
    logs = np.array([[np.log(held[key]) if key in held else np.nan for key in keys]
                     for held in rounds])  # fmt: skip
    factors = np.exp(_round_effects(logs))
    pairs = zip(rounds, factors, strict=True)
    return [{key: value / float(factor) for key, value in held.items()} for held, factor in pairs]


def _round_effects(logs: np.ndarray) -> np.ndarray:
    """Of `[rounds, contestants]`: one a round, their median 0. A contestant may sit rounds out."""
    effects = np.zeros(len(logs))
    for _ in range(_SWEEPS):
        contestants = np.nanmedian(logs - effects[:, None], axis=0)
        effects = np.nanmedian(logs - contestants[None, :], axis=1)
        effects -= np.median(effects)
    return effects
