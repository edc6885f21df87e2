"""Test that the output of dead workers is kept in the result, within the limit for one."""

from __future__ import annotations

from pathlib import Path

from bakeoff.suite.events import Checkpoints
from bakeoff.suite.execution.output import (
    MOST_BYTES,
    captured_output,
    output_file,
    with_left_output,
)
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Resources, Result, Status


def test_the_workers_that_died_share_the_room_of_one(tmp_path: Path) -> None:
    checkpoints = Checkpoints(folder=tmp_path)
    found = Result(
        trial_id="a", status=Status.CRASHED, provenance=provenance(Resources()), seconds=1.0
    )
    for worker in (0, 1):
        with captured_output(checkpoints, "a", worker):
            kept = output_file(checkpoints, "a", worker)
            assert kept.is_file()
        assert not kept.exists()
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("x" * MOST_BYTES + f"last words of {worker}")
    output = with_left_output(found, checkpoints).output
    assert [line[-15:] for line in output.splitlines()] == [
        "worker 0:",
        "last words of 0",
        "worker 1:",
        "last words of 1",
    ]
    assert len(output) < MOST_BYTES + 50
