"""`make chaos`: inject faults, print the figures, exit with 1 if a promise is broken.

Every scenario runs in a process of its own, whose environment has a mark, so that whatever it
leaves behind is found and counted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from bakeoff.suite.provenance import commit, cpu_model, versions
from tools.chaos.arena import MARK, ROOT, TIMED_OUT, count_orphans, end, wait
from tools.chaos.figures import Figures, Scale, markdown, plain
from tools.marked_text import replace_between_marks

DOCUMENT = ROOT / "docs" / "reliability.md"
_FIGURES = TypeAdapter(Figures)
_RUN_ONE = "from tools.chaos.__main__ import run_scenario; run_scenario()"


@dataclass(frozen=True)
class Scenario:
    """A kind of fault; the module of the same name has `prove(scale, folder)`.

    Attributes:
        title: A few words for the row of the table.
        limits_seconds: When it is ended, at each scale; far above the time that it takes.
        is_short: Whether it belongs to the short form.
        track: Scenarios of one track run one after the other, tracks at once. All that start a Ray
            are in one track, since two on one machine disturb each other. Scenarios that measure
            times have no track; they run alone, at the end.
        can_mount: Whether it may mount a file system.
        is_chaos: Whether it runs, and is in the table, unless others are named.
    """

    title: str
    limits_seconds: tuple[float, float, float] = (600, 1_800, 14_400)
    is_short: bool = True
    track: str = ""
    can_mount: bool = False
    is_chaos: bool = True


SCENARIOS = {
    "points": Scenario("driver killed at every named point", track="forks"),
    "cluster": Scenario("workers, nodes, driver killed", track="rays"),
    "disk": Scenario("disk full at every page", track="forks", can_mount=True),
    "checkpoints": Scenario("checkpoints damaged", (600, 1_800, 7_200), track="forks"),
    "trials": Scenario(
        "trials that fail by themselves", (600, 600, 600), is_short=False, track="rays"
    ),
    "paused": Scenario("workers paused", (600, 600, 600), is_short=False, track="rays"),
    "store": Scenario("MLflow stopped", (600, 1_800, 7_200), track="forks"),
    "cost": Scenario("what safety costs", (600, 600, 600), is_short=False),
    "week": Scenario("a week of use", (600, 1_800, 1_800), is_chaos=False),
}


def main() -> None:
    """Run the scenarios that the command line names, and print their figures."""
    arguments = _arguments()
    start = time.monotonic()
    figures = _run_all(arguments)
    minutes = (time.monotonic() - start) / 60
    _print(figures, minutes)
    if arguments.write:
        replace_between_marks(DOCUMENT, "chaos", text(figures, arguments.scale, minutes))
    sys.exit(any(of_one.broken_promises() for of_one in figures.values()))


def text(figures: Mapping[str, Figures], scale: Scale, minutes: float) -> str:
    """Return the table with the machine, the versions and the time that it took."""
    named = ", ".join(f"{package} {number}" for package, number in versions().items())
    return (
        f"Measured at commit {commit()} in {minutes:.0f} minutes, the {scale} form, on "
        f"{os.cpu_count()} cores of {cpu_model()}; {named}.\n\n{markdown(figures)}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    form = parser.add_mutually_exclusive_group()
    for scale, text in ((Scale.SHORT, "at most 4 minutes on two cores"), (Scale.LONG, "hours")):
        form.add_argument(f"--{scale}", dest="scale", action="store_const", const=scale, help=text)
    parser.set_defaults(scale=Scale.FULL)
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="may be repeated")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the scenarios' files there")
    parser.add_argument("--write", action="store_true", help="into docs/reliability.md")
    return parser.parse_args()


def _run_all(arguments: argparse.Namespace) -> dict[str, Figures]:
    """Run all tracks at once, then the rest; return the figures by title."""
    is_short = arguments.scale is Scale.SHORT
    usual = [n for n, one in SCENARIOS.items() if one.is_chaos and (one.is_short or not is_short)]
    tracks: dict[str, list[str]] = {}
    for name in arguments.only or usual:
        tracks.setdefault(SCENARIOS[name].track, []).append(name)
    alone = tracks.pop("", [])
    by_name: dict[str, Figures] = {}

    def run_in_turn(track: Sequence[str]) -> None:
        for name in track:
            by_name[name] = _run_one(name, arguments.scale, arguments.keep)

    with ThreadPoolExecutor() as pool:
        list(pool.map(run_in_turn, tracks.values()))
    run_in_turn(alone)
    return {one.title: by_name[name] for name, one in SCENARIOS.items() if name in by_name}


def _run_one(name: str, scale: Scale, keep: Path | None) -> Figures:
    """Run one scenario; return its figures, with those of the processes that it leaves."""
    began = time.monotonic()
    print(f"{name}: {SCENARIOS[name].title} ...\n", end="", flush=True)  # tracks print at once
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{name}-", dir=keep))
    mark = f"{name}-{os.getpid()}"
    try:
        return _figures_of(name, scale, folder, mark) + count_orphans(mark)
    finally:
        end(mark)
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


def _figures_of(name: str, scale: Scale, folder: Path, mark: str) -> Figures:
    scenario = SCENARIOS[name]
    limit = scale.pick(*scenario.limits_seconds)
    # A scenario that mounts file systems has a mount namespace of its own, in which it is root.
    as_root = () if os.geteuid() == 0 else ("--map-root-user",)
    namespace = ("unshare", *as_root, "--mount") if scenario.can_mount else ()
    process = subprocess.Popen(
        [*namespace, sys.executable, "-c", _RUN_ONE, name, scale, str(folder)],
        cwd=ROOT,
        env={**os.environ, MARK: mark, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    code = wait(process, limit)
    if code == TIMED_OUT:
        return Figures(problems=(f"it was not over after {limit} s",))
    try:
        return _FIGURES.validate_json((folder / "figures.json").read_bytes())
    except FileNotFoundError:
        return Figures(problems=(f"it ended with exit code {code} and no figures",))


def run_scenario() -> None:
    """Run a scenario and write FOLDER/figures.json; arguments are its name, the scale, FOLDER."""
    name, scale, folder = sys.argv[1], Scale(sys.argv[2]), Path(sys.argv[3])
    try:
        figures = importlib.import_module(f"tools.chaos.{name}").prove(scale, folder)
    except Exception as error:  # an error of the scenario itself is reported like a broken promise
        traceback.print_exc()
        figures = Figures(problems=(f"the scenario itself failed: {error!r}",))
    (folder / "figures.json").write_bytes(_FIGURES.dump_json(figures))


def _print(figures: Mapping[str, Figures], minutes: float) -> None:
    notes = [f"{title}: {note}" for title, one in figures.items() for note in one.notes]
    broken = [
        f"BROKEN: {title}: {line}"
        for title, one in figures.items()
        for line in one.broken_promises()
    ]
    print("", plain(figures), "", *notes, *broken, f"{minutes:.1f} minutes", sep="\n")


if __name__ == "__main__":
    main()
