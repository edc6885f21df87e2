"""`make chaos`: inject faults on purpose, print what came of them, end with 1 where it is not zero.

Every scenario runs in a process of its own, which bears a mark, so that whatever it leaves behind
is found and counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.chaos.command import ROOT
from tools.chaos.document import text, write
from tools.chaos.figures import Figures
from tools.chaos.lanes import FIGURES
from tools.chaos.processes import MARK, end, orphans
from tools.chaos.scale import Scale
from tools.chaos.scenario import SCENARIOS, Scenario
from tools.chaos.table import plain


def main() -> None:
    """Parse, run, tell."""
    asked = _arguments()
    start = time.monotonic()
    figures = _all(asked.only or _names(asked.scale), asked)
    minutes = (time.monotonic() - start) / 60
    _tell(figures, minutes)
    if asked.write:
        write(text(figures, asked.scale, minutes))
    sys.exit(any(of_one.broken_promises() for of_one in figures.values()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    form = parser.add_mutually_exclusive_group()
    for scale, words in (("short", "at most 4 minutes on two cores"), ("long", "many hours")):
        form.add_argument(
            f"--{scale}", dest="scale", action="store_const", const=Scale(scale), help=words
        )
    parser.set_defaults(scale=Scale.FULL)
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="may be repeated")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what scenarios leave there")
    parser.add_argument("--write", action="store_true", help="into docs/reliability.md")
    return parser.parse_args()


def _names(scale: Scale) -> list[str]:
    return [name for name, one in SCENARIOS.items() if one.is_short or scale is not Scale.SHORT]


def _all(names: Sequence[str], asked: argparse.Namespace) -> dict[str, Figures]:
    """The figures by title, in the order of the scenarios: all tracks at once, then the rest."""
    tracks: dict[str, list[str]] = {}
    for name in names:
        tracks.setdefault(SCENARIOS[name].track, []).append(name)
    alone = tracks.pop("", [])
    with ThreadPoolExecutor() as pool:
        found = [*pool.map(lambda track: _in_turn(track, asked), tracks.values())]
    found.append(_in_turn(alone, asked))
    by_name = {name: figures for of_track in found for name, figures in of_track.items()}
    return {one.title: by_name[name] for name, one in SCENARIOS.items() if name in by_name}


def _in_turn(names: Sequence[str], asked: argparse.Namespace) -> dict[str, Figures]:
    figures = {}
    for name in names:
        began = time.monotonic()
        print(f"{name}: {SCENARIOS[name].title} ...\n", end="", flush=True)  # tracks print at once
        figures[name] = _proved(name, SCENARIOS[name], asked.scale, asked.keep)
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    return figures


def _proved(name: str, scenario: Scenario, scale: Scale, keep: Path | None) -> Figures:
    """The figures of one scenario, and of what it leaves behind."""
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{name}-", dir=keep and _made(keep)))
    mark = f"{name}-{os.getpid()}"
    try:
        figures = _figures_of(name, scenario, scale, folder, mark)
        left = orphans(mark)
    finally:
        end(mark)
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return figures + Figures(
        num_orphans=len(left), troubles=tuple(f"left behind: {line}" for line in left.values())
    )


def _figures_of(name: str, scenario: Scenario, scale: Scale, folder: Path, mark: str) -> Figures:
    limit = scale.pick(*scenario.limits_seconds)
    process = subprocess.Popen(
        [*_where(scenario), sys.executable, "-m", "tools.chaos.scenario", name, scale, str(folder)],
        cwd=ROOT, env={**os.environ, MARK: mark, "PYTHONPATH": str(ROOT)}, start_new_session=True,
    )  # fmt: skip
    try:
        process.wait(timeout=limit)
        return FIGURES.validate_json((folder / "figures.json").read_bytes())
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return Figures(troubles=(f"it was not over after {limit} s",))
    except FileNotFoundError:
        return Figures(troubles=(f"it ended with exit code {process.returncode} and no figures",))


def _where(scenario: Scenario) -> Sequence[str]:
    """In a mount namespace of its own, where it is root, if it mounts file systems."""
    if not scenario.can_mount:
        return ()
    return (
        ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
    )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _tell(figures: Mapping[str, Figures], minutes: float) -> None:
    print(f"\n{plain(figures)}\n")
    for title, of_one in figures.items():
        for note in of_one.notes:
            print(f"{title}: {note}")
    for title, of_one in figures.items():
        for line in of_one.broken_promises():
            print(f"BROKEN: {title}: {line}")
    print(f"{minutes:.1f} minutes")


if __name__ == "__main__":
    main()
