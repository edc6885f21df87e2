"""Tests that no text of an error or a sample breaks a sweep or an output format."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import pytest

from bakeoff.suite.errors import MOST_OF_A_REASON, MOST_OF_A_TEXT
from bakeoff.suite.events import Finished, writable_event
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.schema import Sample
from bakeoff.suite.sweep.driver import Options, run
from bakeoff.suite.sweep.verify import differences
from tests.suite.heads_sweep import HEADS
from tests.workplace import Workplace

SPEAKS = r"""
from pathlib import Path


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


Formula = type("=cmd|' /C calc'!A0", (Exception,), {})
TEXTS = ["\udcff of a name", "a\0b", "x" * 10**7, "\u202egnp\u2066", "\r\n=1,\n@x", "\x1b[31m\x85",
         "<script>$\\input{x}$ `|*"]
ERRORS = [Mute(), *map(Formula, TEXTS)]


class Speaks(Good):
    def meet_fault(self, x):
        for number, error in enumerate(ERRORS):  # each trial has a process of its own
            said = Path(__file__).with_name(f"said{number}")
            if not said.exists():
                said.touch()
                raise error
"""
NOT_SEEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.slow
def test_no_text_of_an_error_ends_the_sweep(work: Workplace) -> None:
    with (work.path / f"{work.mixers('speaks')}.py").open("a") as module:
        module.write(SPEAKS)
    file = work.ablation(mixer="speaks:Speaks", probes=["quality"], seeds=4)
    outcome = run(file, options=Options(out=work.out, executor="inline"))
    assert (outcome.num_failed, outcome.error) == (8, "")
    assert differences(work.out, None).differences == ()
    with Journal(work.out / "journal.db", read_only=True) as journal:
        found = list(journal.results([entry.trial_id for entry in journal.entries()]))
    reasons = " ".join(result.reason for result in found)
    for words in (r"\udcff of a name", r"a\x00b", "characters are left out", "Mute: "):
        assert words in reasons
    assert max(len(result.reason) for result in found) <= MOST_OF_A_REASON
    assert 50_000 < max(len(result.traceback) for result in found) <= MOST_OF_A_TEXT
    for path in (work.out / "reports").rglob("*.*"):
        if path.suffix != ".parquet":
            assert not NOT_SEEN.search(path.read_text(encoding="utf-8")), path
    with (work.out / "reports/small/results.csv").open(newline="", encoding="utf-8") as rows:
        cells = [row["reason"] for row in csv.DictReader(rows)]
    assert sum(cell.startswith("'=cmd") for cell in cells) == 7


def test_what_a_model_wrote_stays_but_for_what_cannot_be_encoded() -> None:
    text = Sample(kind="text", title="continuation", text="\x00\udcff")
    event = Finished(replace(HEADS.result(HEADS.trial()), samples=(text,)))
    written = writable_event(event)
    assert isinstance(written, Finished)
    assert written.result.samples[0].text == "\x00" + r"\udcff"
    assert writable_event(written) == written
