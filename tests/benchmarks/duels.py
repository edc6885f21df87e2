"""Compare a mixer with its peers, after a check of equal outputs, and with itself as a control."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from bakeoff.models.mixer import Mixer
from bakeoff.models.registry import build_mixer
from tests.benchmarks.interleaved import Limits, Ratio, Times, TimingRun
from tests.benchmarks.peers import Pairing, Peer
from tests.benchmarks.places import Pass, Place, Shape

OURS = "ours"
AT_MOST = 1.1  # times the duration of a peer
SAME = 1e-8  # a share of the largest number, in float64
SLOWED = 1.05


class NotTheSame(Exception):
    """The error of a peer that does not compute what it should; no speed is reported."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table: a mixer at one shape beside one peer, or alone.

    Attributes:
        mixer: The mixer's name in the registry.
        title: The name with the settings that distinguish it.
        shape: The batch, the length and the widths.
        peer: The name of the peer.
        seconds: The median time of one pass of our mixer.
        peer_seconds: The median time of one pass of the peer, or None if it did not run.
        ratio: Our time divided by the peer's, or None if the peer did not run.
        peak: The peak memory of our pass, in bytes.
        peer_peak: The peak memory of the peer's pass in bytes, or None if it did not run.
        is_same: True if outputs and gradients are equal, or None if the peer did not run.
        note: The difference between the two, or the reason why the peer did not run.
    """

    mixer: str
    title: str
    shape: Shape
    peer: str
    seconds: float
    peak: int
    peer_seconds: float | None = None
    ratio: Ratio | None = None
    peer_peak: int | None = None
    is_same: bool | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """The answer to "at most `AT_MOST` times the peer's time?": yes, no, or open."""
        if self.ratio is None:
            return ""
        if self.ratio.high <= AT_MOST:
            return "yes"
        return "no" if self.ratio.low > AT_MOST else "open"


def duel(pairing: Pairing, shape: Shape, place: Place, limits: Limits) -> list[Row]:
    """Return a row for each peer: check it, time it in turns with ours, then measure memory.

    Raises:
        NotTheSame: a peer that claims to give our outputs gives others.
    """
    ours = mixer_of(pairing, shape)
    is_float32 = any(peer.is_float32_only for peer in pairing.peers)
    dtype = torch.float32 if is_float32 else place.dtype
    passes = {OURS: Pass(copy.deepcopy(ours), shape, place, dtype)}
    passes[OURS]()
    notes = {}
    for peer in pairing.peers:
        if not peer.installed():
            notes[peer.name] = f"{peer.package} is not installed"
            continue
        try:
            entrant = Pass(_checked(peer, ours, shape, place), shape, place, dtype)
            entrant()
        except NotTheSame:
            raise
        except Exception as error:  # a package may raise anything, and a device may be too small
            sentence = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            notes[peer.name] = f"did not run: {sentence}"
            continue
        passes[peer.name] = entrant
        notes[peer.name] = peer.differs
    times = TimingRun(passes, limits, settle=place.settle).run()
    peaks = {name: place.peak_bytes(entrant) for name, entrant in passes.items()}
    return [_row(pairing, shape, peer, times, peaks, notes[peer.name]) for peer in pairing.peers]


def mixer_of(pairing: Pairing, shape: Shape) -> Mixer:
    """Build our mixer in its layer of the stack, always with the same parameters."""
    torch.manual_seed(0)
    mixer = build_mixer(
        pairing.mixer,
        dim=shape.dim,
        heads=shape.heads,
        max_length=shape.length,
        is_causal=pairing.is_causal,
        **pairing.knobs,
    )
    mixer.take_place(pairing.layer, mixer)
    return mixer


def _checked(peer: Peer, ours: Mixer, shape: Shape, place: Place) -> nn.Module:
    theirs = peer.adapt(ours)
    if peer.check is not None:
        with peer.check():
            distance = farthest(ours, theirs, shape, place.device)
        if not distance <= SAME:
            raise NotTheSame(f"{peer.name}: {distance:.1e} of the largest number, over {SAME:g}")
    return theirs


def farthest(ours: nn.Module, theirs: nn.Module, shape: Shape, device: str) -> float:
    """Return how far outputs and input gradients differ, in float64, relative to the largest
    number.
    """
    drawn = torch.Generator().manual_seed(2)
    sizes = (1, shape.length, shape.dim)
    x, gradient = (torch.randn(sizes, generator=drawn, dtype=torch.float64) for _ in range(2))

    def seen(module: nn.Module) -> Iterator[Tensor]:
        module = copy.deepcopy(module).to(device, torch.float64).train()
        here = x.to(device).requires_grad_()
        mixed = module(here)
        yield mixed.detach()
        yield torch.autograd.grad(mixed, here, gradient.to(device))[0]

    pairs = zip(seen(ours), seen(theirs), strict=True)
    return max(float((mine - other).abs().max() / other.abs().max()) for mine, other in pairs)


def _row(
    pairing: Pairing, shape: Shape, peer: Peer, times: Times, peaks: Mapping[str, int], note: str
) -> Row:
    row = Row(
        mixer=pairing.mixer,
        title=pairing.title,
        shape=shape,
        peer=peer.name,
        note=note,
        seconds=times.median(OURS),
        peak=peaks[OURS],
    )
    if peer.name not in peaks:
        return row
    return replace(
        row,
        peer_seconds=times.median(peer.name),
        ratio=times.ratio(OURS, peer.name),
        peer_peak=peaks[peer.name],
        is_same=peer.check is not None,
    )


@dataclass(frozen=True, kw_only=True)
class Control:
    """A timing of one mixer at one shape against copies of itself.

    Attributes:
        title: The title of the mixer.
        shape: The batch, the length and the widths.
        itself: The time of a copy divided by the mixer's; the true ratio is 1.
        slowed: The time of a slowed copy divided by the mixer's; the true ratio is `SLOWED`.
    """

    title: str
    shape: Shape
    itself: Ratio
    slowed: Ratio


def control(pairing: Pairing, place: Place, limits: Limits) -> Iterator[Control]:
    """Yield a control for each shape of the place."""
    for shape in place.shapes:
        ours = mixer_of(pairing, shape)
        first, second, third = (
            Pass(copy.deepcopy(ours), shape, place, place.dtype) for _ in range(3)
        )
        candidates = {"ours": first, "itself": second, "slowed": partial(_slow, third, place)}
        times = TimingRun(candidates, limits, settle=place.settle).run()
        yield Control(
            title=pairing.title,
            shape=shape,
            itself=times.ratio("itself", "ours"),
            slowed=times.ratio("slowed", "ours"),
        )


def _slow(one_pass: Pass, place: Place) -> None:
    begun = time.perf_counter()
    one_pass()
    place.settle()
    end = begun + SLOWED * (time.perf_counter() - begun)
    while time.perf_counter() < end:
        pass
