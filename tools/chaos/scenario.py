"""Lists the scenarios, and runs one of them in a process of its own."""

from __future__ import annotations

import importlib
import sys
import traceback
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from tools.chaos.figures import Figures

FIGURES = TypeAdapter(Figures)
_Value = TypeVar("_Value")


class Scale(StrEnum):
    """How much is run: short is at most 4 minutes on two cores, full at most 20, long is hours."""

    SHORT = "short"
    FULL = "full"
    LONG = "long"

    def pick(self, short: _Value, full: _Value, long: _Value | None = None) -> _Value:
        """The value for this scale; long takes that of full if it has none."""
        if self is Scale.LONG and long is not None:
            return long
        return short if self is Scale.SHORT else full


@dataclass(frozen=True)
class Scenario:
    """What is done to a sweep; the module of the same name has `prove(scale, folder)`.

    Attributes:
        title: In a few words; the row of the table.
        limits_seconds: When it is ended: in the short form, in full, in the long one. Far above
            what it takes.
        is_short: Whether it belongs to the short form.
        track: Scenarios of the same track follow each other, beside those of the others; what
            starts a Ray is in one track, since two on one machine disturb each other. Those
            without a track run alone, at the end, since they measure times.
        can_mount: Whether it is started where it may mount a file system.
    """

    title: str
    limits_seconds: tuple[float, float, float] = (600, 1_800, 14_400)
    is_short: bool = True
    track: str = ""
    can_mount: bool = False


SCENARIOS = {
    "points": Scenario("driver killed at every named point", track="forks"),
    "cluster": Scenario("workers, nodes, driver killed", track="rays"),
    "disk": Scenario("disk full at every page", track="forks", can_mount=True),
    "checkpoints": Scenario("checkpoints damaged", (600, 1_800, 7_200), track="forks"),
    "trials": Scenario("trials that fail by themselves", (600, 600, 600), track="rays"),
    "paused": Scenario("workers paused", (600, 600, 600), is_short=False, track="rays"),
    "store": Scenario("MLflow stopped", (600, 1_800, 7_200), track="forks"),
    "cost": Scenario("what safety costs", (600, 600, 600), is_short=False),
}


def main() -> None:
    """Run a scenario and write FOLDER/figures.json; arguments are its name, the scale, FOLDER."""
    name, scale, folder = sys.argv[1], Scale(sys.argv[2]), Path(sys.argv[3])
    try:
        figures = importlib.import_module(f"tools.chaos.{name}").prove(scale, folder)
    except Exception as error:  # an error of the scenario itself is reported like a broken promise
        traceback.print_exc()
        figures = Figures(problems=(f"the scenario itself failed: {error!r}",))
    (folder / "figures.json").write_bytes(FIGURES.dump_json(figures))
