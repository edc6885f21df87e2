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
from suite.schema import Status
from suite.training.checkpoint import checkpointer_for
from tools.chaos.alone import run_alone
from tools.chaos.books import Key, findings_in, num_amiss, num_differing
from tools.chaos.command import KILLED, bakeoff, inline, warm_up
from tools.chaos.faults import Fault, Point
from tools.chaos.figures import Figures
from tools.chaos.lanes import in_lanes
from tools.chaos.remarks import names_a_damaged_one, steps_resumed
from tools.chaos.scale import Scale

SWEEP = Path(__file__).parent / "sweeps" / "one.py"
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
        return f"{self.file} {what} at {self.place:.3f}, in {self.num_generations} generations"

    def do(self, path: Path) -> None:
        """Damage the file."""
        body = bytearray(path.read_bytes())
        at = min(int(self.place * len(body)), len(body) - 1)
        if self.is_cut:
            del body[at:]
        else:
            body[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(body))


@dataclass(frozen=True)
class Bench:
    """What all damages have in common: the folder of the killed run, and what it should find."""

    folder: Path
    killed: Path
    reference: Mapping[Key, str]


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
        return Figures(
            troubles=(
                f"no two checkpoints to damage: {len(generations)} found; exit codes "
                f"{reference.code} and {killed.code}: {killed.last_line}",
            )
        )
    files = sorted(file.name for file in generations[-1].iterdir())
    bench = Bench(folder, folder / "killed", findings_in(folder / "reference"))
    damages = damages_of(files, scale.pick(1, 10), scale.pick(6, 100, 1_000))
    return in_lanes(damages, partial(_survived, bench))


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


@dataclass(frozen=True)
class _Ran:
    """How the trial ended, what was said of it, and what it found."""

    code: int
    said: str
    findings: Mapping[Key, str]


def _by_command(out: Path, log: Path) -> _Ran:
    run = bakeoff(*inline(SWEEP, out), log=log)
    return _Ran(run.code, run.said, findings_in(out))


def _alone(out: Path) -> _Ran:
    planned = plan(str(SWEEP))
    (trial,) = planned.trials
    checkpointer = checkpointer_for(
        trial, Checkpoints(folder=out / "checkpoints", seconds_between=1e9)
    )
    ran = run_alone(trial, planned.resources, checkpointer)
    found = ran.result
    key = (found.trial_id, found.provenance.environment_id)
    return _Ran(int(found.status is not Status.OK), ran.said, {key: found.finding_sha256})


def _survived(bench: Bench, damage: Damage) -> Figures:
    name = str(damage).replace("/", "-").replace(" ", "_")
    out = bench.folder / name
    shutil.copytree(bench.killed, out)
    generations = generations_in(out)
    for generation in generations[-damage.num_generations :]:
        damage.do(generation / damage.file)
    run = _by_command(out, bench.folder / f"{name}.log") if damage.is_by_command else _alone(out)
    findings, steps = run.findings, steps_resumed(run.said)
    num_wrong = num_differing(bench.reference, findings)
    is_right = not run.code and not num_amiss(len(bench.reference), findings) and not num_wrong
    should_resume = damage.num_generations < len(generations)
    troubles = []
    if run.code:
        troubles.append(f"{damage}: code {run.code}: {run.said[-200:]}")
    elif not names_a_damaged_one(run.said):
        troubles.append(f"{damage}: nobody was told")
    if should_resume != bool(steps):
        troubles.append(f"{damage}: it went on from {steps or 'the start'}")
    if not troubles and is_right:
        shutil.rmtree(out)
    return Figures(
        faults=Counter({"checkpoints damaged": 1}),
        num_submitted=1,
        num_acknowledged=len(findings),
        num_lost=num_amiss(1, findings),
        num_resumed=len(steps),
        num_resumed_equal=len(steps) if is_right else 0,
        num_repeated=len(findings),
        num_alarms=num_wrong,
        troubles=tuple(troubles),
    )
