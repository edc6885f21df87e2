"""Measures time and memory per token, and work in Python, as sequences grow.

The lengths take turns as mixers do. Calls of torch are counted too: a loop over positions would
call it more often the longer the sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.benchmarks.duels import mixer_of
from tests.benchmarks.interleaved import Limits, Ratio, TimingRun
from tests.benchmarks.peers import Pairing
from tests.benchmarks.places import Pass, Place
from tests.models.small_models import OperationNames


@dataclass(frozen=True, kw_only=True)
class Growth:
    """One length of a mixer.

    Attributes:
        title: Of the mixer.
        length: Tokens; the batch is 1.
        seconds: Of one pass, median.
        per_token: Time per token, over that at the shortest length.
        peak: Bytes of a pass.
        num_calls: Of torch's operators, forward and backward.
    """

    title: str
    length: int
    seconds: float
    per_token: Ratio
    peak: int
    num_calls: int


def grow(pairing: Pairing, place: Place, limits: Limits) -> Iterator[Growth]:
    """One for each length of the place."""
    shapes = {
        str(length): replace(place.shapes[0], batch=1, length=length) for length in place.lengths
    }
    passes = {
        name: Pass(mixer_of(pairing, shape), shape, place, place.dtype)
        for name, shape in shapes.items()
    }
    times = TimingRun(passes, limits, settle=place.settle).run()
    shortest = next(iter(shapes))
    for name, shape in shapes.items():
        ratio, longer = times.ratio(name, shortest), shape.length / shapes[shortest].length
        yield Growth(
            title=pairing.title,
            length=shape.length,
            seconds=times.median(name),
            per_token=Ratio(ratio.value / longer, ratio.low / longer, ratio.high / longer),
            peak=place.peak_bytes(passes[name]),
            num_calls=num_calls(passes[name]),
        )


def num_calls(one_pass: Pass) -> int:
    """Of torch's operators in one pass."""
    with OperationNames() as noted:
        one_pass()
    return len(noted.names)
