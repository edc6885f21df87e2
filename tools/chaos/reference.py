"""The undisturbed results of a sweep: its trials, run one by one without a driver."""

from __future__ import annotations

import tempfile
from pathlib import Path

from suite.planning.plan import plan
from suite.schema import Trial
from tools.chaos.alone import run_alone
from tools.chaos.command import warm_up
from tools.chaos.figures import Figures
from tools.chaos.lanes import in_lanes


def reference_findings(sweep: Path, num_seeds: int) -> dict[str, str]:
    """trial_id -> hash of what was found; in forked processes, so Ray must not be imported yet."""
    warm_up()
    planned = plan(str(sweep), seeds=num_seeds)
    with tempfile.TemporaryDirectory() as folder:

        def note(trial: Trial) -> Figures:
            found = run_alone(trial, planned.resources).result
            Path(folder, trial.trial_id).write_text(found.finding_sha256)
            return Figures()

        failed = in_lanes(planned.trials, note)
        assert not failed.troubles, failed.troubles
        return {path.name: path.read_text() for path in Path(folder).iterdir()}
