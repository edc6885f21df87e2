"""Measure time and memory per token, and the calls of torch, as sequences grow.

The lengths run in turns, as mixers do. Calls of torch are counted too: a loop over positions
would make more calls for a longer sequence.
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
    """The measurements of a mixer at one length.

    Attributes:
        title: The title of the mixer.
        length: The number of tokens; the batch is 1.
        seconds: The median time of one pass.
        per_token: The time per token, divided by that at the shortest length.
        peak: The peak memory of a pass, in bytes.
        num_calls: The number of torch operators that run, forward and backward.
    """

    title: str
    length: int
    seconds: float
    per_token: Ratio
    peak: int
    num_calls: int


def grow(pairing: Pairing, place: Place, limits: Limits) -> Iterator[Growth]:
    """Yield the measurements at each length of the place."""
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
    """Count the torch operators in one pass."""
    with OperationNames() as noted:
        one_pass()
    return len(noted.names)
