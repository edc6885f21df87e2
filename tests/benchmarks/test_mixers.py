"""Measure each mixer's fast form beside public implementations; `make bench` prints the tables.

If the environment has BAKEOFF_BENCHMARKS=FILE, a complete run also writes them between the marks of
that file. If it has BAKEOFF_BENCHMARKS_LATER=FILE, a run of chosen pairs (`-k NAME`) is added there
as a section of its own, which stays until the tables are written anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.benchmarks.document import Report
from tests.benchmarks.duels import control, duel
from tests.benchmarks.interleaved import Limits
from tests.benchmarks.linearity import grow
from tests.benchmarks.peers import PAIRINGS, Pairing
from tests.benchmarks.places import here
from tools.marked_text import (
    add_between_marks,
    clear_between_marks,
    replace_between_marks,
)

pytestmark = [
    pytest.mark.bench,
    pytest.mark.filterwarnings("default"),  # the packages raise warnings about their own parts
]

DOCUMENT = os.environ.get("BAKEOFF_BENCHMARKS")
LATER = os.environ.get("BAKEOFF_BENCHMARKS_LATER")
LIMITS = Limits()
_LINEAR = (
    "performer",
    "linear_transformer",
    "retention",
    "mamba2",
    "delta_net",
    "gated_delta",
    "kimi_delta",
)
LINEAR = [pairing for pairing in PAIRINGS if pairing.mixer in _LINEAR and pairing.is_causal] + [
    Pairing(mixer=name, is_causal=True, peers=()) for name in ("gla", "rwkv7")
]
CONTROLS = [
    Pairing(mixer=mixer, is_causal=is_causal, peers=())
    for mixer, is_causal in (("attention", True), ("conv", False), ("lstm", True))
]


def titles(pairing: Pairing) -> str:
    return pairing.title


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    for path in filter(None, (DOCUMENT, LATER)):  # fail before minutes of measurement
        assert Path(path).is_file(), f"{path}, where the tables are to be written, is no file"
    num_threads = torch.get_num_threads()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    report = Report(here())
    yield report
    text = report.text()
    print(f"\n\n{text}")
    torch.set_num_threads(num_threads)
    if DOCUMENT and (lacks := report.lacks()):
        print(f"\n{DOCUMENT} stays as it is, for want of: {', '.join(lacks)}")
    elif DOCUMENT:
        replace_between_marks(Path(DOCUMENT), "measured", text)
        clear_between_marks(Path(DOCUMENT), "measured later")
    if LATER and (report.rows or report.growths):
        add_between_marks(Path(LATER), "measured later", report.section())


@pytest.mark.parametrize("pairing", PAIRINGS, ids=titles)
def test_beside_its_peers(pairing: Pairing, report: Report) -> None:
    for shape in report.place.shapes:
        report.rows += duel(pairing, shape, report.place, LIMITS)


@pytest.mark.parametrize("pairing", CONTROLS, ids=titles)
def test_beside_itself(pairing: Pairing, report: Report) -> None:
    report.controls += control(pairing, report.place, LIMITS)


@pytest.mark.parametrize("pairing", LINEAR, ids=titles)
def test_growing_longer(pairing: Pairing, report: Report) -> None:
    report.growths += grow(pairing, report.place, LIMITS)
