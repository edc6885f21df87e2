"""Scenario: checkpoints that are truncated or have a bit flipped.

A training is killed when it has left two whole checkpoints. Then the newest one is damaged, in
every file and many ways, or both are, and the trial is run again: by the same command, or, which
is faster and makes no report, by the very function that every executor calls.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from suite.events import Checkpoints
from suite.planning.plan import plan
from suite.schema import Result, Status
from suite.training.checkpoint import checkpointer_for
from tools.chaos.command import KILLED, SWEEPS, bakeoff, inline, prove_each, warm_up
from tools.chaos.faults import Fault, Point
from tools.chaos.figures import Figures
from tools.chaos.recorded import (
    findings_in,
    names_a_damaged_checkpoint,
    recorded,
    results_in,
    steps_resumed,
)
from tools.chaos.reference import run_without_driver
from tools.chaos.scenario import Scale

SWEEP = SWEEPS / "one.py"
_SEED = 20_240_601
_KILLED_AFTER = 4  # checkpoints, of six


@dataclass(frozen=True)
class Damage:
    """What is done to one file of a checkpoint.

    Attributes:
        file: Its name.
        place: Share of the file: where it is cut, or where the bit stands.
        is_cut: Cut there; else a bit is flipped there.
        num_generations: How many of the newest checkpoints are damaged so: one, or both.
        is_by_command: Whether the command is given again; else the trial is run without a driver.
    """

    file: str
    place: float
    is_cut: bool
    num_generations: int = 1
    is_by_command: bool = False

    def __str__(self) -> str:
        what = "cut" if self.is_cut else "a bit flipped"
        how = "by the command" if self.is_by_command else "without a driver"
        # All fields, and the place unrounded: the name is that of a folder, one for each damage.
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
    reference = bakeoff(*inline(SWEEP, folder / "reference"), log=folder / "reference.log")
    point = Point("checkpoint: publish", "after", _KILLED_AFTER)
    killed = bakeoff(
        *inline(SWEEP, folder / "killed"), log=folder / "killed.log", faults=[Fault(point)]
    )
    generations = generations_in(folder / "killed")
    if reference.code or killed.code != KILLED or len(generations) < 2:
        problems = [*reference.failure("the reference run"), *killed.failure("the killed run")]
        sentence = f"no two checkpoints to damage: {len(generations)} found"
        return Figures(problems=(sentence, *problems))
    files = sorted(file.name for file in generations[-1].iterdir())
    damages = damages_of(files, scale.pick(1, 10), scale.pick(6, 100, 1_000))
    return prove_each(damages, partial(_survived, folder, findings_in(folder / "reference")))


def damages_of(files: list[str], num_cuts: int, num_flips: int) -> list[Damage]:
    """Cuts of every file; flips shared out over the files, at drawn places; then both damaged."""
    chance = random.Random(_SEED)
    cuts = [Damage(file, cut / num_cuts, True) for file in files for cut in range(num_cuts)]
    flips = [Damage(files[flip % len(files)], chance.random(), False) for flip in range(num_flips)]
    both = [Damage(file, 0.5, False, num_generations=2) for file in files]
    return [Damage(files[0], 0.5, True, is_by_command=True), *cuts, *flips, *both]


def generations_in(out: Path) -> list[Path]:
    """The folders of the checkpoints of the one trial, the oldest first."""
    return sorted((out / "checkpoints").glob("*/generation-*"))


def _run(out: Path, *, is_by_command: bool) -> tuple[int, str, list[Result]]:
    """Exit code, output and results."""
    if is_by_command:
        run = bakeoff(*inline(SWEEP, out), log=out.with_name(f"{out.name}.log"))
        return run.code, run.output, results_in(out)
    planned = plan(str(SWEEP))
    (trial,) = planned.trials
    settings = Checkpoints(folder=out / "checkpoints", seconds_between=1e9)
    checkpointer = checkpointer_for(trial, settings)
    result, remarks = run_without_driver(trial, planned.resources, checkpointer)
    return int(result.status is not Status.OK), remarks, [result]


def _survived(folder: Path, reference: Mapping[str, str], damage: Damage) -> Figures:
    out = folder / str(damage).replace("/", "-").replace(" ", "_")
    shutil.copytree(folder / "killed", out)
    generations = generations_in(out)
    for generation in generations[-damage.num_generations :]:
        damage.do(generation / damage.file)
    code, output, results = _run(out, is_by_command=damage.is_by_command)
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
