"""A finished sweep without training: the plan of a small ablation, and invented results."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.loader import LoadedAblation
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.reporting.frames import by_trial, sweep_files, with_history
from bakeoff.suite.schema import FLOORS, Measurement, Plan, Point, Result, Sample, Status, Trial
from bakeoff.suite.spec import Ablation, Claim, Model, Scale, vary
from bakeoff.suite.tracking.write import RunWriter
from tests.suite.heads_sweep import HEADS

PENALTY = {1: 0.2, 2: 0.05, 8: 0.0}  # bits, by the number of heads
TASK = "shakespeare_characters"
METRIC = "bits_per_character"


@dataclass(frozen=True)
class FinishedSweep:
    """A sweep over the number of heads, by default with three seeds, and a result of every trial.

    Fewer steps make another edition, with worse scores.
    """

    name: str
    scale: str = "quick"
    num_seeds: int = 3
    steps: int = 40

    @cached_property
    def plan(self) -> Plan:
        ablation = Ablation(
            question="How many attention heads at a fixed width?",
            baseline=Model(mixer="attention", heads=8),
            axes=[vary("heads", list(PENALTY))],
            tasks=[TASK],
            probes=["quality"],
            claim=Claim(
                "8 heads beat one",
                metric=METRIC,
                a="heads=8",
                b="heads=1",
                by=0.02,
                source="Vaswani et al. 2017, Table 3",
                published="0.9 BLEU apart",
            ),
            scales={
                self.scale: Scale(
                    dim=16, depth=1, length=8, steps=self.steps, batch=2, num_evaluations=4
                )
            },
        )
        entry = LoadedAblation(
            name=self.name, ablation=ablation, note="A note.", file=Path("own.py")
        )
        return _of_models(plan(entry, scale=self.scale, seeds=self.num_seeds))

    @property
    def results(self) -> list[Result]:
        return [self.result(trial) for trial in self.plan.trials]

    def result(self, trial: Trial) -> Result:
        heads = trial.subjects[0].knobs["heads"]
        assert isinstance(heads, int)
        value = 2.5 + PENALTY[heads] + 0.01 * trial.seed + 0.1 * (40 - self.steps)
        points = [
            Point(
                metric=f"validation_{METRIC}",
                step=step,
                flops=1e6 * step,
                value=value + 20 / (step + 10),
                unit="bit",
                better="lower",
            )
            for step in (10, 20, 30, 40)
        ]
        measured = Measurement(metric=METRIC, value=value, unit="bit", better="lower")
        return Result(
            trial_id=trial.trial_id,
            status=Status.OK,
            provenance=HEADS.place,
            seconds=12.5,
            measurements=(measured,),
            points=tuple(points),
            samples=_samples() if trial.seed == 0 else (),
        )

    def recorded(self, writer: RunWriter, journal: Journal) -> Plan:
        """Record the sweep in journal and store, as a driver does before it renders the reports."""
        planned = journal.keep_plan(self.plan)
        writer.open_sweep(planned.about)
        for result in self.results:
            trial = next(t for t in planned.trials if t.trial_id == result.trial_id)
            cells = [cell for cell in planned.cells if cell.trial_id == trial.trial_id]
            journal.commit(result, journal.begin(trial.trial_id, "here"))
            writer.finish_trial(planned.key, trial, cells, result)
        shown = with_history(planned, journal)
        writer.publish(planned.key, sweep_files(shown, by_trial(self.results)))
        return planned


def _of_models(planned: Plan) -> Plan:
    """Return the plan without the floors that planning adds to a claim on a score."""
    probes = {name: of for name, of in planned.about.metrics[TASK].items() if name != FLOORS}
    about = replace(planned.about, probes=("quality",), floors={}, metrics={TASK: probes})
    return replace(
        planned,
        about=about,
        cells=tuple(c for c in planned.cells if c.probe != FLOORS),
        trials=tuple(trial for trial in planned.trials if trial.probe != FLOORS),
    )


def _samples() -> tuple[Sample, ...]:
    levels = base64.b64encode(bytes([255, 0, 128, 128])).decode()
    weights = Sample(
        kind="attention",
        title="layer 1, head 1",
        text="to",
        num_rows=2,
        num_columns=2,
        levels=levels,
    )
    return weights, Sample(kind="text", title="continuation", text="To be, or not to be")
