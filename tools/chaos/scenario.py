"""`python -m tools.chaos.scenario NAME SCALE FOLDER`: one scenario, in a process of its own.

Its figures are written to FOLDER/figures.json. Its parent counts what processes it leaves.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from tools.chaos.figures import Figures
from tools.chaos.lanes import FIGURES
from tools.chaos.scale import Scale


@dataclass(frozen=True)
class Scenario:
    """What is done to a sweep.

    Attributes:
        title: In a few words; the row of the table.
        module: In this package; it has `prove(scale, folder)`.
        limits_seconds: After which it hangs and is ended: in the short form, in full, in the long
            one. Far above what it takes.
        is_short: Whether it belongs to the short form.
        track: Scenarios of the same track follow each other, beside those of the others; what
            starts a Ray is in one track, since two on one machine disturb each other. Those of
            none run alone, at the end, since they measure times.
        can_mount: Whether it is started where it may mount a file system.
    """

    title: str
    module: str
    limits_seconds: tuple[float, float, float]
    is_short: bool = True
    track: str = ""
    can_mount: bool = False


SCENARIOS = {
    "points": Scenario(
        "driver killed at every named point", "points", (600, 1_800, 14_400), track="forks"
    ),
    "cluster": Scenario(
        "workers, nodes, driver killed", "cluster", (600, 1_800, 14_400), track="rays"
    ),
    "disk": Scenario(
        "disk full at every page", "disk", (600, 1_800, 14_400), track="forks", can_mount=True
    ),
    "checkpoints": Scenario(
        "checkpoints damaged", "checkpoints", (600, 1_800, 7_200), track="forks"
    ),
    "trials": Scenario("trials that fail by themselves", "trials", (600, 600, 600), track="rays"),
    "paused": Scenario("workers paused", "paused", (600, 600, 600), is_short=False, track="rays"),
    "store": Scenario("MLflow stopped", "store", (600, 1_800, 7_200), track="forks"),
    "cost": Scenario("what safety costs", "cost", (600, 600, 600), is_short=False),
}


def main() -> None:
    """Run it; a fault of the harness is a trouble too."""
    name, scale, folder = sys.argv[1], Scale(sys.argv[2]), Path(sys.argv[3])
    try:
        figures = importlib.import_module(f"tools.chaos.{name}").prove(scale, folder)
    except Exception as error:
        traceback.print_exc()
        figures = Figures(troubles=(f"the scenario itself failed: {error!r}",))
    (folder / "figures.json").write_bytes(FIGURES.dump_json(figures))


if __name__ == "__main__":
    main()
