"""In which order does a sweep do its work, so that it is worth something wherever it is cut?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from suite.missing import Missing, Work


def stages(missing: Missing, *, may_be_cut: bool) -> Iterator[tuple[Missing, int | None]]:
    """The work in stages, each with its two phases.

    Without a limit there is one, which has all: the largest trial first packs best. Where the
    sweep may be cut, all variants with two seeds say something, and half of the variants with
    three say nothing: so seed 0 of everything, training and timing, comes before seed 1; within a
    stage the largest first again. It costs a cluster some idle places at the end of each stage.

    Yields:
        The stage's work, and the last seed whose timings belong to it; None where all do that are
        left then, which may be more than were missing at first.
    """
    if not may_be_cut:
        yield missing, None
        return
    last = max((trial.seed for trial, _ in missing.alone), default=0)
    for seed in sorted({trial.seed for trial, _ in (*missing.packed, *missing.alone)}):
        packed, alone = _of(seed, missing.packed), _of(seed, missing.alone)
        yield replace(missing, packed=packed, alone=alone), seed if seed < last else None


def _of(seed: int, works: tuple[Work, ...]) -> tuple[Work, ...]:
    return tuple(work for work in works if work[0].seed == seed)
