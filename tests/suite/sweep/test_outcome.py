"""A trial counts once, by its finding; a failure of now is told beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from suite.journal.journal import Journal
from suite.schema import Result, Status
from suite.sweep.outcome import counted
from tests.suite.finished_sweep import FinishedSweep

SWEEP = FinishedSweep("heads_small")


def failed(result: Result, device: str) -> Result:
    made = replace(result.provenance, device=device)
    return replace(
        result, status=Status.ERROR, reason="it broke", measurements=(), points=(), provenance=made
    )


@pytest.mark.parametrize("has_finding", [True, False])
def test_a_failure_is_counted_or_told_beside_a_finding_of_elsewhere(
    has_finding: bool, tmp_path: Path
) -> None:
    first, *others = SWEEP.results
    failure = failed(first, "another machine")
    with Journal(tmp_path / "journal.db") as journal:
        planned = journal.keep_plan(SWEEP.plan)
        for result in [*others, failure, *([first] if has_finding else [])]:
            journal.commit(result, journal.begin(result.trial_id, "here"))
        outcome = counted([planned], journal, 1, [first.trial_id])
    assert outcome.num_missing == 0
    assert (outcome.num_failed, outcome.num_failed_beside) == (not has_finding, has_finding)
