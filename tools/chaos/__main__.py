"""`make chaos`: inject faults, print what came of them, exit with 1 if a promise is broken.

Every scenario runs in a process of its own, which bears a mark, so that whatever it leaves behind
is found and counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from suite.provenance import commit, cpu_model, versions
from tools.chaos.command import ROOT, TIMED_OUT, wait
from tools.chaos.figures import Figures, markdown, plain
from tools.chaos.processes import MARK, count_orphans, end
from tools.chaos.scenario import FIGURES, SCENARIOS, Scale
from tools.marked_text import replace_between_marks

DOCUMENT = ROOT / "docs" / "reliability.md"
_RUN_ONE = "from tools.chaos.scenario import main; main()"


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
    """The table, with the machine, the versions and the time that it took."""
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
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what scenarios leave there")
    parser.add_argument("--write", action="store_true", help="into docs/reliability.md")
    return parser.parse_args()


def _run_all(arguments: argparse.Namespace) -> dict[str, Figures]:
    """The figures by title, in the order of the scenarios: all tracks at once, then the rest."""
    is_short = arguments.scale is Scale.SHORT
    names = arguments.only or [n for n, one in SCENARIOS.items() if one.is_short or not is_short]
    tracks: dict[str, list[str]] = {}
    for name in names:
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
    """The figures of one scenario, and of what it leaves behind."""
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
    # A mount namespace of its own, where it is root, for a scenario that mounts file systems.
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
        return FIGURES.validate_json((folder / "figures.json").read_bytes())
    except FileNotFoundError:
        return Figures(problems=(f"it ended with exit code {code} and no figures",))


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
