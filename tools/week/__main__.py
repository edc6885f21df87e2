"""`make week`: a week of use, and after each day every number that is shown against the journals.

Ten editions of one file, three copies of its output folder that are used on, a folder that moves
and stays reachable by a link, two users of one MLflow server, and a driver killed every day.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from suite.tracking.location import Store
from tools.chaos import mlflow_server
from tools.chaos.command import KILLED, Ended, bakeoff, forks, start, wait, warm_up
from tools.chaos.faults import Fault, Point
from tools.week.numbers import (
    ABLATION,
    differences_of_editions,
    differences_of_pages,
    differences_of_store,
    editions_in,
)

_FILE = '''"""A question that changes from day to day."""
from suite import Ablation, Claim, Model, Scale, vary

ABLATION = Ablation(
    question="Which way of mixing is best?",
    baseline=Model(mixer="attention", heads=2),
    axes=[vary({axis!r}, {values!r})],
    tasks=["fashion_mnist_patches"],
    probes=["quality", "parameters"],{claim}
    scales={{
        "quick": Scale(
            dim=8, depth=1, length=49, steps={steps}, batch=4, num_evaluations=1, seeds={seeds},
        )
    }},
)
'''
_CLAIM = """
    claim=Claim(
        "attention beats fnet", metric="accuracy", a="mixer=attention", b="mixer=fnet", by=0.01,
        source="this project 2026",
    ),"""
_MIXER = '''"""A mixer of the user's own."""
from models.mixer import Mixer


class Mine(Mixer):
    """The mean over the sequence."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        return {factor} * x.mean(dim=1, keepdim=True).expand_as(x)
'''
_LIMIT_SECONDS = 120.0
_SECONDS_APART = 2.0  # of the starts of two users who run at once


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user's two files say."""

    steps: int = 3
    axis: str = "mixer"
    values: tuple[object, ...] = ("attention", "mine:Mine")
    seeds: int = 2
    factor: float = 1.0
    has_claim: bool = False

    def write(self, folder: Path) -> str:
        """Write the files; returns the path of the ablation."""
        claim = _CLAIM if self.has_claim else ""
        text = _FILE.format(
            axis=self.axis,
            values=list(self.values),
            seeds=self.seeds,
            steps=self.steps,
            claim=claim,
        )
        folder.mkdir(exist_ok=True)
        (folder / "mine.py").write_text(_MIXER.format(factor=self.factor))
        (folder / f"{ABLATION}.py").write_text(text)
        return str(folder / f"{ABLATION}.py")


# What each edit changes of the edition before; the last goes back to an earlier one.
_EDITS: tuple[Mapping[str, object], ...] = (
    {},
    {"steps": 5},
    {"factor": 2.0},
    {"values": ("attention", "mine:Mine", "fnet")},
    {"seeds": 3},
    {"steps": 4, "factor": 0.5},
    {"values": ("attention", "fnet")},
    {"has_claim": True},
    {"axis": "heads", "values": (1, 2, 4), "has_claim": False},
    {"steps": 6},
    {"steps": 4},
)


def _editions() -> Iterator[Settings]:
    return itertools.accumulate(
        _EDITS[1:],
        lambda before, edit: replace(before, **edit),
        initial=Settings(),  # type: ignore[arg-type]
    )


# Where the driver is killed, one a day.
_DEATHS = (
    ("journal: commit", "after", 2),
    ("findings are published", "before", 1),
    ("the result is shown", "before", 2),
    ("the report is published", "after", 1),
    ("store: create run", "after", 2),
    ("the plan is noted", "after", 1),
    ("frames are published", "before", 1),
)


@dataclass(kw_only=True)
class Week:
    """The folders of one simulated week.

    Attributes:
        folder: Holds everything.
        server: Address of the MLflow server that two users share.
        outs: Output folder -> address of its store; of each user's too.
        last_user: The user's folder whose journal the server shows.
        seconds: By what was done.
    """

    folder: Path
    server: str = ""
    outs: dict[Path, str] = field(default_factory=dict)
    last_user: Path | None = None
    num_runs: int = 0
    problems: list[str] = field(default_factory=list)

    def run(self, out: Path, settings: Settings, *more: str, dies: int | None = None) -> None:
        """Run the files as they are now; if the driver is to die, run again after it."""
        uri = self.outs.setdefault(out, "")
        file = settings.write(self.folder / "own")
        options = ["--executor", "inline", *(["--tracking-uri", uri] if uri else []), *more]
        if dies is not None:
            step, when, number = _DEATHS[dies % len(_DEATHS)]
            fault = Fault(Point(step, when, number))  # type: ignore[arg-type]
            ended = self._bakeoff("run", file, "--out", str(out), *options, faults=[fault])
            if ended.code != KILLED:
                self.problems.append(f"{out.name}: the driver was to die at {fault.point}")
        ended = self._bakeoff("run", file, "--out", str(out), *options)
        self.problems += ended.failure(f"run of {out.name}")
        if uri:
            self.last_user = out

    def run_on_ray(self, out: Path, settings: Settings) -> None:
        """The same on an embedded Ray, in a process of its own."""
        file, log = settings.write(self.folder / "own"), self.folder / "ray.log"
        process = start("run", file, "--out", str(out), log=log)
        if code := wait(process, _LIMIT_SECONDS):
            self.problems.append(f"run on Ray: exit code {code}: {log.read_text()[-300:]}")

    def run_at_once(self, settings: Mapping[Path, Settings]) -> None:
        """Several users start within seconds, each with files of its own."""
        processes = []
        for out, of_user in settings.items():
            file = of_user.write(self.folder / f"of-{out.name}")
            options = ("--executor", "inline", "--tracking-uri", self.outs[out])
            log = self.folder / f"{out.name}.log"
            processes.append(start("run", file, "--out", str(out), *options, log=log))
            time.sleep(_SECONDS_APART)
        codes = [wait(process, _LIMIT_SECONDS) for process in processes]
        self.problems += [f"users at once: exit codes {codes}"] if any(codes) else []
        # The server shows the one that ended last.
        self.last_user = next((out for out in settings if not self._of_store(out)), None)
        if self.last_user is None:
            self.problems += self._of_store(next(iter(settings)))

    def _of_store(self, out: Path) -> list[str]:
        with forks(1) as pool:
            return pool.submit(differences, out, self.outs[out]).result()

    def copy(self, out: Path, name: str) -> Path:
        """Copy an output folder with `cp -r`."""
        new = self.folder / name
        subprocess.run(["cp", "-r", str(out), str(new)], check=True)
        self.outs[new] = ""
        return new

    def move(self, out: Path, name: str) -> Path:
        """Rename an output folder, leave a link to it, and use it by the link from now on."""
        moved = out.rename(self.folder / name)
        out.symlink_to(moved)
        return out

    def check(self) -> list[str]:
        """Everything that is shown now and differs from the journals."""
        found = self.problems
        self.problems = []
        for out, uri in self.outs.items():
            if (out / "journal.db").exists():
                found += [f"{out.name}: {line}" for line in self._differences(out, uri)]
        return found

    def _differences(self, out: Path, uri: str) -> list[str]:
        if (
            uri and out != self.last_user and self.last_user is not None
        ):  # the server shows the other user's journal
            return list(differences_of_pages(editions_in(out)[0], out / "reports"))
        options = ["--out", str(out), *(["--tracking-uri", uri] if uri else [])]
        made = self._bakeoff("report", ABLATION, *options)
        table = self._bakeoff("report", ABLATION, "--editions", *options)
        if failed := [*made.failure("report"), *table.failure("report --editions")]:
            return failed
        shown, editions = editions_in(out)
        return [
            *differences_of_pages(shown, out / "reports"),
            *differences_of_editions(table.output, shown, editions.values()),
            *self._of_store(out),
        ]

    def _bakeoff(self, *arguments: str, faults: Sequence[Fault] = ()) -> Ended:
        self.num_runs += 1
        log = self.folder / "logs" / f"{self.num_runs}.log"
        return bakeoff(*arguments, log=log, faults=faults, limit_seconds=_LIMIT_SECONDS)


def differences(out: Path, uri: str) -> list[str]:
    """A sentence for each number in the store that is not what the journal of the folder says."""
    shown, _ = editions_in(out)
    uri = uri or f"sqlite:///{out / 'mlflow.db'}"
    return list(differences_of_store(Store(uri=uri, artifacts=None, out=out), shown))


def simulate(
    folder: Path, num_days: int, *, is_short: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Yield what was done on each day, and what was wrong at its end."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        starting = pool.submit(stack.enter_context, mlflow_server.server(folder / "server"))
        warm_up()
        week = Week(folder=folder, server=starting.result().uri)
        pool.shutdown()  # commands are forked from this process, which has no threads then
        days = _short_days(week) if is_short else _days(week)
        for _, done in zip(range(num_days), days, strict=False):
            yield done, week.check()


def _days(week: Week) -> Iterator[str]:
    """Go through the week; yields what was done after each day."""
    first, *edits = _editions()
    out, user, other = (week.folder / name for name in ("out", "user", "other"))
    week.outs |= {user: week.server, other: week.server}
    week.run(out, first, dies=0)
    week.run(out, edits[0])
    week.run(user, first)
    yield "two editions; a user of the server"
    copy = week.copy(out, "copy-1")
    week.run(out, edits[1], dies=1)
    week.run(copy, edits[1], "--set", "steps=7")
    week.run(other, edits[0], dies=4)
    yield "a copy with an edition of its own; another user of the server"
    week.run(out, edits[2], dies=2)
    second = week.copy(out, "copy-2")
    week.run(second, edits[3], dies=1)
    week.run(out, edits[3])
    week.run(user, edits[1])
    yield "two editions; a second copy"
    week.move(out, "moved")
    week.run(out, edits[4], dies=3)
    week.run(other, edits[2])
    yield "the folder was renamed, with a link to it"
    third = week.copy(out.resolve(), "copy-3")
    week.run(third, edits[5], dies=5)
    week.run(out, edits[5], dies=4)
    week.run_at_once({user: edits[3], other: edits[4]})
    yield "a third copy; both users at once"
    week.run(out, edits[6], dies=5)
    week.run(out, edits[7])
    week.run_on_ray(copy, edits[7])
    week.run(other, edits[5], dies=6)
    yield "two editions; a copy on Ray"
    week.run(out, edits[8], dies=6)
    week.run(out, edits[0])
    week.run(second, edits[7])
    week.run(user, edits[6], dies=1)
    yield "the tenth edition, and an earlier one again"


def _short_days(week: Week) -> Iterator[str]:
    """Two days with most of what a week has."""
    first = Settings(values=("attention", "fnet"))
    longer = replace(first, steps=5)
    out, user, other = (week.folder / name for name in ("out", "user", "other"))
    week.outs |= {user: week.server, other: week.server}
    week.run(out, first, dies=0)
    week.run(user, first)
    yield "an edition; a user of the server"
    copy = week.copy(out, "copy-1")
    week.move(out, "moved")
    week.run(out, longer, dies=1)
    week.run(copy, longer, "--set", "seeds=1")
    week.run(other, longer)
    yield "a copy with an edition of its own; a move; another user of the server"


def main() -> None:
    """Print a line a day and each number that differs; exit with 1 if one does."""
    arguments = _arguments()
    is_wrong = False
    with tempfile.TemporaryDirectory(prefix="week-") as made:
        began = time.monotonic()
        days = simulate(arguments.keep or Path(made), arguments.days, is_short=arguments.short)
        for day, (done, problems) in enumerate(days, 1):
            seconds = time.monotonic() - began
            said = f"{len(problems)} differences" if problems else "all numbers are the journals'"
            print(f"day {day} ({seconds:.0f} s): {done}: {said}", *problems, sep="\n  ", flush=True)
            is_wrong |= bool(problems)
    sys.exit(is_wrong)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.week", description=__doc__)
    parser.add_argument("--days", type=int, default=7, help="how many of them; 7 by default")
    parser.add_argument("--short", action="store_true", help="two days, in less than a minute")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and keep all of it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
