"""Plan and run sweeps from Python, as `bakeoff.plan` and `bakeoff.run`, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bakeoff.suite.commands.progress import display_for
from bakeoff.suite.errors import NotRecorded, ensure_home
from bakeoff.suite.planning.overrides import Setting
from bakeoff.suite.planning.plan import plan as plan_ablation
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import Ablation
from bakeoff.suite.sweep import driver
from bakeoff.suite.sweep.driver import Executor, Options
from bakeoff.suite.sweep.finish import SweepOutcome
from bakeoff.suite.sweep.interruption import signals_interrupt


def run(
    *ablations: Ablation | str | Sequence[Ablation | str],
    scale: str = "quick",
    seeds: int | None = None,
    out: Path | str | None = None,
    executor: Executor | None = None,
    options: Options | None = None,
    **overrides: Setting,
) -> SweepOutcome:
    """Run the missing trials of these ablations, record them, and make their reports.

    Failed trials do not raise an exception: `counts` of the outcome counts them by status, and
    they are rows of the reports.

    Args:
        ablations: `Ablation` objects, names, or paths of files, or lists of these. An object is
            recorded under its `Ablation.name`, which by default is made from its question.
        scale: ``smoke``, ``quick``, ``standard`` or ``paper``.
        seeds: Number of seeds, instead of the scale's.
        out: The output folder, instead of that of `options`.
        executor: ``ray`` or ``inline``, instead of that of `options`.
        options: Further options of the run.
        overrides: Changes to each ablation, as in `bakeoff run --set`: ``steps=200`` replaces the
            scale's value, ``heads=[1, 2, 4]`` the values of an axis.

    Returns:
        The outcome. Its `results` and `verdicts` are DataFrames, as those of `bakeoff.results` and
        `bakeoff.verdicts`; `report` is the path of the page; `counts` has the numbers of trials
        that ran, were reused, failed, were skipped or are missing, and the numbers by status.

    Raises:
        SpecError: For an invalid specification, or two ablations of one name; nothing has run then.
        NotAFolder, FolderUnavailable, ClusterUnavailable: If the output folder or the cluster is
            not available.
        NotRecorded: If the results could not be recorded, or the reports could not be written; the
            journal keeps the results, and the error's `outcome` describes how the trials ended.
    """
    ensure_home()
    options = options or Options()
    options = replace(
        options,
        out=Path(options.out if out is None else out),
        executor=executor or options.executor,
    )
    with signals_interrupt():
        outcome = driver.run(
            *ablations,
            scale=scale,
            seeds=seeds,
            options=options,
            settings=overrides,
            display_for=display_for,
        )
    if outcome.error:
        raise NotRecorded(outcome.error, outcome)
    return outcome


def plan(
    ablation: Ablation | str,
    *,
    scale: str = "quick",
    seeds: int | None = None,
    **overrides: Setting,
) -> Plan:
    """Return the plan of the ablation that `run` would run, with the same arguments.

    Raises:
        SpecError: If anything is misspelt, has the wrong type or is too large, or if the baseline
            is impossible.
    """
    return plan_ablation(ablation, scale=scale, seeds=seeds, settings=overrides)
