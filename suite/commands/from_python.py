"""Run sweeps from Python, as `suite.run`: with the progress display that `bakeoff run` has."""

from __future__ import annotations

from suite.commands.progress import display_for
from suite.spec import Ablation
from suite.sweep import driver
from suite.sweep.driver import Options
from suite.sweep.finish import SweepOutcome


def run(
    *ablations: Ablation | str,
    scale: str = "quick",
    seeds: int | None = None,
    options: Options | None = None,
) -> SweepOutcome:
    """Run what is missing of these ablations, record it, and make their reports.

    See `suite.sweep.driver.run`, which shows nothing.
    """
    return driver.run(
        *ablations, scale=scale, seeds=seeds, options=options, display_for=display_for
    )
