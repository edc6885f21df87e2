"""Scenario: a week of use; after each day every number that is shown is compared with the journals.

Ten editions of one file, three copies of its output folder that are used on, a folder that moves
and stays reachable by a link, two users of one MLflow server, and a driver killed every day.
"""

from __future__ import annotations

import itertools
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bakeoff.suite.tracking.location import Store
from tools.chaos.arena import (
    KILLED,
    Ended,
    ablation,
    bakeoff,
    forks,
    server,
    start,
    wait,
    warm_up,
)
from tools.chaos.faults import Fault, Point
from tools.chaos.figures import Figures, Scale
from tools.chaos.numbers import (
    ABLATION,
    differences_of_editions,
    differences_of_pages,
    differences_of_store,
    editions_in,
)

_MIXER = '''"""A mixer of the user's own."""
from bakeoff.models.mixer import Mixer


class Mine(Mixer):
    """The mean over the sequence."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        return {factor} * x.mean(dim=1, keepdim=True).expand_as(x)
'''
_CLAIM = """
    claim=Claim(
        "attention beats fnet", metric="accuracy", a="mixer=attention", b="mixer=fnet", by=0.01,
        source="this project 2026",
    ),"""
_LIMIT_SECONDS = 120.0
_SECONDS_APART = 2.0  # between the starts of two users at once

# The fields of the first edition; `factor` is that of the mixer, the others are for `ablation`.
Settings = Mapping[str, object]
_FIRST: Settings = {
    "axis": "mixer",
    "values": ["attention", "mine:Mine"],
    "probes": ["quality", "parameters"],
    "claim": "",
    "factor": 1.0,
    "dim": 8,
    "depth": 1,
    "length": 49,
    "steps": 3,
    "batch": 4,
    "num_evaluations": 1,
    "seeds": 2,
}
# The changes of each edition to the one before; the last goes back to an earlier one.
_EDITS: tuple[Settings, ...] = (
    {"steps": 5},
    {"factor": 2.0},
    {"values": ["attention", "mine:Mine", "fnet"]},
    {"seeds": 3},
    {"steps": 4, "factor": 0.5},
    {"values": ["attention", "fnet"]},
    {"claim": _CLAIM},
    {"axis": "heads", "values": [1, 2, 4], "claim": ""},
    {"steps": 6},
    {"steps": 4},
)
EDITIONS = tuple(itertools.accumulate(_EDITS, lambda a, b: {**a, **b}, initial=_FIRST))
# The driver is killed at one of these each day.
_DEATHS = (
    Point("journal: commit", "after", 2),
    Point("findings are published", "before", 1),
    Point("the result is shown", "before", 2),
    Point("the report is published", "after", 1),
    Point("store: create run", "after", 2),
    Point("the plan is noted", "after", 1),
    Point("frames are published", "before", 1),
)


def prove(scale: Scale, folder: Path) -> Figures:
    """Go through the days, seven or two, and print what was wrong after each."""
    began = time.monotonic()
    with server(folder / "server") as store:
        warm_up()
        week = Week(folder=folder, server=store.uri)
        for day, done in enumerate(scale.pick(_short_days, _days)(week), 1):
            problems = week.check()
            seconds = time.monotonic() - began
            said = f"{len(problems)} differences" if problems else "all numbers are the journals'"
            print(f"day {day} ({seconds:.0f} s): {done}: {said}", *problems, sep="\n  ", flush=True)
            week.figures += Figures(problems=tuple(problems))
    return week.figures


@dataclass(kw_only=True)
class Week:
    """The folders of one simulated week.

    Attributes:
        folder: The folder of all others.
        server: The address of the MLflow server that two users share.
        outs: The address of the store of each output folder; empty for a store in the folder.
        num_runs: The number of commands so far.
        problems: Sentences about commands that failed since the last check.
        figures: The faults and the problems of the week.
    """

    folder: Path
    server: str
    outs: dict[Path, str] = field(default_factory=dict)
    num_runs: int = 0
    problems: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)

    def run(
        self, out: Path, settings: Settings, more: str = "", *, dies: Point | None = None
    ) -> None:
        """Run an edition; if the driver is killed at a point, run it again."""
        self.outs.setdefault(out, "")
        command = f"run {self._write(settings, 'own')} --executor inline {self._options(out)}"
        if dies is not None:
            if self._bakeoff(f"{command} {more}", Fault(dies)).code != KILLED:
                self.problems.append(f"{out.name}: the driver was not killed {dies}")
            self.figures += Figures(faults=Counter({"driver killed at a named point": 1}))
        self.problems += self._bakeoff(f"{command} {more}").failure(f"run of {out.name}")

    def run_on_ray(self, out: Path, settings: Settings) -> None:
        """Run an edition on a Ray of this machine."""
        log = self.folder / "ray.log"
        process = start(f"run {self._write(settings, 'own')} --out {out}", log=log)
        if code := wait(process, _LIMIT_SECONDS):
            self.problems.append(f"run on Ray: exit code {code}: {log.read_text()[-300:]}")

    def run_at_once(self, settings: Mapping[Path, Settings]) -> None:
        """Start the runs of several users within seconds, each with files of its own."""
        processes = []
        for out, of_user in settings.items():
            file, log = self._write(of_user, f"of-{out.name}"), self.folder / f"{out.name}.log"
            command = f"run {file} --executor inline {self._options(out)}"
            processes.append(start(command, log=log))
            time.sleep(_SECONDS_APART)
        codes = [wait(process, _LIMIT_SECONDS) for process in processes]
        self.problems += [f"users at once: exit codes {codes}"] if any(codes) else []

    def copy(self, out: Path, name: str) -> Path:
        """Copy an output folder with `cp -r`."""
        new = self.folder / name
        subprocess.run(["cp", "-r", str(out), str(new)], check=True)
        self.outs[new] = ""
        return new

    def move(self, out: Path, name: str) -> None:
        """Rename an output folder, and leave a link to it, which is used from now on."""
        out.symlink_to(out.rename(self.folder / name))

    def check(self) -> list[str]:
        """Return a sentence for each failed command and each number that is not the journal's."""
        found, self.problems = self.problems, []
        for out, uri in self.outs.items():
            if (out / "journal.db").exists():
                found += [f"{out.name}: {line}" for line in self._differences(out, uri)]
        return found

    def _differences(self, out: Path, uri: str) -> list[str]:
        made = self._bakeoff(f"report {ABLATION} {self._options(out)}")
        table = self._bakeoff(f"report {ABLATION} --editions {self._options(out)}")
        if failed := [*made.failure("report"), *table.failure("report --editions")]:
            return failed
        shown, editions = editions_in(out)
        with forks(1) as pool:  # an open store must not be forked by the next command
            of_store = pool.submit(_differences_of_store, out, uri).result()
        return [
            *differences_of_pages(shown, out / "reports"),
            *differences_of_editions(table.output, shown, editions.values()),
            *of_store,
        ]

    def _write(self, settings: Settings, folder: str) -> Path:
        """Write the user's two files; return that of the ablation."""
        fields = dict(settings)
        mixer = _MIXER.format(factor=fields.pop("factor"))
        file = ablation(self.folder / folder, ABLATION, **fields)
        (file.parent / "mine.py").write_text(mixer)
        return file

    def _options(self, out: Path) -> str:
        uri = self.outs[out]
        return f"--out {out} --tracking-uri {uri}" if uri else f"--out {out}"

    def _bakeoff(self, command: str, *faults: Fault) -> Ended:
        self.num_runs += 1
        log = self.folder / "logs" / f"{self.num_runs}.log"
        return bakeoff(command, log=log, faults=faults, limit_seconds=_LIMIT_SECONDS)


def _differences_of_store(out: Path, uri: str) -> list[str]:
    shown, _ = editions_in(out)
    uri = uri or f"sqlite:///{out / 'mlflow.db'}"
    return list(differences_of_store(Store(uri=uri, artifacts=None, out=out), shown))


def _days(week: Week) -> Iterator[str]:
    """Go through the week; yield a description of each day."""
    first, *edits = EDITIONS
    out, user, other = (week.folder / name for name in ("out", "user", "other"))
    week.outs |= {user: week.server, other: week.server}
    week.run(out, first, dies=_DEATHS[0])
    week.run(out, edits[0])
    week.run(user, first)
    yield "two editions; a user of the server"
    copy = week.copy(out, "copy-1")
    week.run(out, edits[1], dies=_DEATHS[1])
    week.run(copy, edits[1], "--set steps=7")
    week.run(other, edits[0], dies=_DEATHS[4])
    yield "a copy with an edition of its own; another user of the server"
    week.run(out, edits[2], dies=_DEATHS[2])
    second = week.copy(out, "copy-2")
    week.run(second, edits[3], dies=_DEATHS[1])
    week.run(out, edits[3])
    week.run(user, edits[1])
    yield "two editions; a second copy"
    week.move(out, "moved")
    week.run(out, edits[4], dies=_DEATHS[3])
    week.run(other, edits[2])
    yield "the folder was renamed, with a link to it"
    third = week.copy(out.resolve(), "copy-3")
    week.run(third, edits[5], dies=_DEATHS[5])
    week.run(out, edits[5], dies=_DEATHS[4])
    week.run_at_once({user: edits[3], other: edits[4]})
    yield "a third copy; both users at once"
    week.run(out, edits[6], dies=_DEATHS[5])
    week.run(out, edits[7])
    week.run_on_ray(copy, edits[7])
    week.run(other, edits[5], dies=_DEATHS[6])
    yield "two editions; a copy on Ray"
    week.run(out, edits[8], dies=_DEATHS[6])
    week.run(out, edits[0])
    week.run(second, edits[7])
    week.run(user, edits[6], dies=_DEATHS[1])
    yield "the tenth edition, and an earlier one again"


def _short_days(week: Week) -> Iterator[str]:
    """Go through two days with most of what a week has."""
    first = {**_FIRST, "values": ["attention", "fnet"]}
    longer = {**first, "steps": 5}
    out, user, other = (week.folder / name for name in ("out", "user", "other"))
    week.outs |= {user: week.server, other: week.server}
    week.run(out, first, dies=_DEATHS[0])
    week.run(user, first)
    yield "an edition; a user of the server"
    copy = week.copy(out, "copy-1")
    week.move(out, "moved")
    week.run(out, longer, dies=_DEATHS[1])
    week.run(copy, longer, "--set seeds=1")
    week.run(other, longer)
    yield "a copy with an edition of its own; a move; another user of the server"
