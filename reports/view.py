"""Hold one sweep for reports: the frames, and the values parsed from them, each parsed once.

All sections of a page, the overview, the summary of a run and MLflow's summary read this object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pandas as pd

from bakeoff.reports.analysis.verdict import Verdict, verdict
from bakeoff.reports.results.axis_values import columns_of
from bakeoff.reports.results.frame import (
    CURVE_COLUMNS,
    CURVE_KEY,
    RESULT_COLUMNS,
    RESULT_KEY,
    about_in,
    check_frame,
    check_values,
    read_table,
    typed_frame,
)
from bakeoff.reports.results.length_sweep import Growth, growths
from bakeoff.reports.results.series import Series, all_series, compared, without_controls
from bakeoff.suite.schema import About, Status

_RESULTS_ORDER = ["task", "_rank", "probe", "metric", "at", "seed", "environment_id", "trial_id"]
_CURVES_ORDER = ["task", "metric", "variant", "seed", "environment_id", "trial_id", "step"]


@dataclass(frozen=True, eq=False)
class Sweep:
    """The description and results of one ablation at one scale.

    Attributes:
        about: The description of the ablation at this scale.
        results: One row per measurement; columns `RESULT_COLUMNS`, key `RESULT_KEY`.
        curves: One row per point; columns `CURVE_COLUMNS`, key `CURVE_KEY`.

    Raises:
        FrameError: if a column, key, unit, status or name does not match the schema.
    """

    about: About
    results: pd.DataFrame
    curves: pd.DataFrame

    def __post_init__(self) -> None:
        check_frame("results", self.results, RESULT_COLUMNS, RESULT_KEY)
        check_frame("curves", self.curves, CURVE_COLUMNS, CURVE_KEY)
        check_values("results", self.results["status"], [str(status) for status in Status])
        for kind, frame in (("results", self.results), ("curves", self.curves)):
            check_values(kind, frame["ablation"], [self.about.ablation])
            check_values(kind, frame["scale"], [self.about.scale])
            check_values(kind, frame["variant"], self.about.labels)
            check_values(kind, frame["task"], self.about.tasks)

    @classmethod
    def of_frames(cls, about: About, results: pd.DataFrame, curves: pd.DataFrame) -> Sweep:
        """Return the sweep of two frames; the FLOPs of trainings are those of their last points."""
        counted = curves.dropna(subset=["flops"])
        flops = {
            str(task): {
                str(name): float(some["flops"].max()) for name, some in rows.groupby("variant")
            }
            for task, rows in counted.groupby("task")
        }
        return cls(about=replace(about, training_flops=flops), results=results, curves=curves)

    @property
    def num_trials(self) -> int:
        """The number of trials that ran; one trial may have rows of several variants."""
        return self.results.loc[self.results["status"] != Status.SKIPPED, "trial_id"].nunique()

    @cached_property
    def in_order(self) -> Sweep:
        """The sweep with rows in a fixed order that does not depend on the store."""
        rank = {name: index for index, name in enumerate(self.about.labels)}
        ranked = self.results.assign(_rank=self.results["variant"].map(rank))
        results = ranked.sort_values(_RESULTS_ORDER, kind="stable").drop(columns="_rank")
        curves = self.curves.sort_values(_CURVES_ORDER, kind="stable", ignore_index=True)
        return replace(self, results=results, curves=curves)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """All series of measurements, controls of the instrument included."""
        return all_series(self.about, self.results)

    @cached_property
    def measured(self) -> tuple[Series, ...]:
        """The series of variants, with floors beside the scores and without controls."""
        return without_controls(self.series)

    @cached_property
    def compared(self) -> tuple[Series, ...]:
        """The series of `measured` that a comparison of variants shows."""
        return compared(self.measured)

    @cached_property
    def growths(self) -> tuple[Growth, ...]:
        """The metrics of the mixers alone along lengths, widths, batches and threads."""
        return growths(self.about, self.results)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The verdict on the claim, or None if the ablation makes none."""
        return verdict(self.about, self.measured) if self.about.claim else None


def read_sweep(results_path: Path, curves_path: Path) -> Sweep:
    """Return the sweep stored in two files.

    Raises:
        FrameError: if a file is missing, damaged, or does not match the schema.
    """
    content = read_table(results_path).to_pydict()
    for name in columns_of([*content]):
        del content[name]  # these columns are recomputed from `about`
    return Sweep.of_frames(
        about=about_in(results_path),
        results=typed_frame("results", content, RESULT_COLUMNS),
        curves=typed_frame("curves", read_table(curves_path).to_pydict(), CURVE_COLUMNS),
    )
