"""Scenario: checkpoints that are truncated or have a bit flipped.

A training is killed when it has written two complete checkpoints. Then the newest one is damaged,
in every file and many ways, or both are, and the trial is run again: by the same command, or, which
is faster and makes no report, by the function that every executor calls.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bakeoff.suite.events import Checkpoints
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Result, Status
from bakeoff.suite.training.checkpoint import checkpointer_for
from tools.chaos.arena import (
    KILLED,
    ablation,
    bakeoff,
    inline,
    prove_each,
    run_without_driver,
    warm_up,
)
from tools.chaos.faults import Fault, Point
from tools.chaos.figures import Figures, Scale
from tools.chaos.recorded import (
    findings_in,
    names_a_damaged_checkpoint,
    recorded,
    results_in,
    steps_resumed,
)

_SEED = 20_240_601
_KILLED_AFTER = 4  # checkpoints, of six


@dataclass(frozen=True)
class Damage:
    """The damage to one file of a checkpoint.

    Attributes:
        file: Its name.
        place: Its place as a share of the file.
        is_cut: Whether the file is cut there; else a bit is flipped there.
        num_generations: The number of newest checkpoints with this damage: one, or both.
        is_by_command: Whether the command is run again; else the trial is run without a driver.
    """

    file: str
    place: float
    is_cut: bool
    num_generations: int = 1
    is_by_command: bool = False

    def __str__(self) -> str:
        what = "cut" if self.is_cut else "a bit flipped"
        how = "by the command" if self.is_by_command else "without a driver"
        # All fields, and the place unrounded: this is also the name of a folder for each damage.
        return f"{self.file} {what} at {self.place!r}, in {self.num_generations} generations, {how}"

    def do(self, path: Path) -> None:
        """Damage the file."""
        body = bytearray(path.read_bytes())
        at = min(int(self.place * len(body)), len(body) - 1)
        if self.is_cut:
            del body[at:]
        else:
            body[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(body))


def prove(scale: Scale, folder: Path) -> Figures:
    """Damage every file of a checkpoint: cut at ten places, a hundred bits flipped."""
    warm_up()
    file = ablation(folder, "one")
    reference = bakeoff(inline(file, folder / "reference"), log=folder / "reference.log")
    fault = Fault(Point("checkpoint: publish", "after", _KILLED_AFTER))
    killed = bakeoff(inline(file, folder / "killed"), log=folder / "killed.log", faults=[fault])
    generations = generations_in(folder / "killed")
    if reference.code or killed.code != KILLED or len(generations) < 2:
        problems = [*reference.failure("the reference run"), *killed.failure("the killed run")]
        sentence = f"no two checkpoints to damage: {len(generations)} found"
        return Figures(problems=(sentence, *problems))
    files = sorted(file.name for file in generations[-1].iterdir())
    damages = damages_of(files, scale.pick(1, 10), scale.pick(2, 100, 1_000))
    return prove_each(damages, partial(_survived, file, findings_in(folder / "reference")))


def damages_of(files: list[str], num_cuts: int, num_flips: int) -> list[Damage]:
    """Return cuts of every file, flips at drawn places of all files, then damages of both."""
    chance = random.Random(_SEED)
    cuts = [Damage(file, cut / num_cuts, True) for file in files for cut in range(num_cuts)]
    flips = [Damage(files[flip % len(files)], chance.random(), False) for flip in range(num_flips)]
    both = [Damage(file, 0.5, False, num_generations=2) for file in files]
    return [Damage(files[0], 0.5, True, is_by_command=True), *cuts, *flips, *both]


def generations_in(out: Path) -> list[Path]:
    """Return the folders of the one trial's checkpoints, the oldest first."""
    return sorted((out / "checkpoints").glob("*/generation-*"))


def _run(file: Path, out: Path, *, is_by_command: bool) -> tuple[int, str, list[Result]]:
    """Run the trial again; return exit code, output and results."""
    if is_by_command:
        run = bakeoff(inline(file, out), log=out.with_name(f"{out.name}.log"))
        return run.code, run.output, results_in(out)
    planned = plan(str(file))
    (trial,) = planned.trials
    settings = Checkpoints(folder=out / "checkpoints", seconds_between=1e9)
    checkpointer = checkpointer_for(trial, settings)
    result, remarks = run_without_driver(trial, planned.resources, checkpointer)
    return int(result.status is not Status.OK), remarks, [result]


def _survived(file: Path, reference: Mapping[str, str], damage: Damage) -> Figures:
    folder = file.parent
    out = folder / str(damage).replace("/", "-").replace(" ", "_")
    shutil.copytree(folder / "killed", out)
    generations = generations_in(out)
    for generation in generations[-damage.num_generations :]:
        damage.do(generation / damage.file)
    code, output, results = _run(file, out, is_by_command=damage.is_by_command)
    steps = steps_resumed(output)
    problems = []
    if code:
        problems.append(f"{damage}: code {code}: {output[-200:]}")
    elif not names_a_damaged_checkpoint(output):
        problems.append(f"{damage}: no message names the damaged checkpoint")
    if bool(steps) != (damage.num_generations < len(generations)):
        problems.append(f"{damage}: it resumed from {steps or 'the start'}")
    figures = recorded(out, 1, results=results, reference=reference, output=output)
    figures += Figures(faults=Counter({"checkpoints damaged": 1}), problems=tuple(problems))
    if not figures.broken_promises():
        shutil.rmtree(out)
    return figures
