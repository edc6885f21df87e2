"""What does the instrument say where the truth is known? A mixer beside itself, and slowed."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tests.benchmarks.duels import mixer_of
from tests.benchmarks.interleaved import Contest, Limits, Ratio
from tests.benchmarks.peers import Pairing
from tests.benchmarks.places import Pass, Place, Shape

SLOWED = 1.05


@dataclass(frozen=True, kw_only=True)
class Control:
    """One mixer at one shape.

    Attributes:
        title: Of the mixer.
        shape: Batch, length and widths.
        itself: A copy over the mixer; the truth is 1.
        slowed: A slowed copy over the mixer; the truth is `SLOWED`.
    """

    title: str
    shape: Shape
    itself: Ratio
    slowed: Ratio


def control(pairing: Pairing, place: Place, limits: Limits) -> Iterator[Control]:
    """One for each shape of the place."""
    for shape in place.shapes:
        ours = mixer_of(pairing, shape)
        first, second, third = (
            Pass(copy.deepcopy(ours), shape, place, place.dtype) for _ in range(3)
        )
        contestants = {"ours": first, "itself": second, "slowed": partial(_slow, third, place)}
        times = Contest(contestants, limits, settle=place.settle).run()
        yield Control(
            title=pairing.title, shape=shape, itself=times.ratio("itself", "ours"),
            slowed=times.ratio("slowed", "ours"),
        )  # fmt: skip


def _slow(one_pass: Pass, place: Place) -> None:
    begun = time.perf_counter()
    one_pass()
    place.settle()
    end = begun + SLOWED * (time.perf_counter() - begun)
    while time.perf_counter() < end:
        pass
