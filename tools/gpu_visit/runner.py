"""Runs the parts of a visit one after the other, each in child processes that end at its bound."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from tools.gpu_visit.child import FRESH
from tools.gpu_visit.results import ALL, LOG, PLANNED, STOPPED, Results, Row, Visit

ROOT = Path(__file__).resolve().parents[2]
_SECONDS_TO_END = 5.0  # between SIGTERM and SIGKILL
_SECONDS_TO_LOOK = 0.5  # at most between two looks at a child
_MOST_OF_A_LOG = 20_000  # characters of what one child prints

_Messages = queue.SimpleQueue[dict[str, Any] | None]


@dataclass(frozen=True)
class Part:
    """One part of a visit.

    Attributes:
        name: Its name in rows and in the table.
        seconds: Its share of a visit of twelve minutes.
        module: The module with its `items`.
        item_seconds: The longest that one item may take, in a visit of twelve minutes.
        title: A few words for the table.
    """

    name: str
    seconds: float
    module: str
    item_seconds: float
    title: str


def run_parts(parts: Sequence[Part], visit: Visit, results: Results, end: float) -> None:
    """Run what is left of the parts until `end`, a time of the monotonic clock.

    Later parts share the time that a part does not use.
    """
    for index, part in enumerate(parts):
        if results.is_complete(part.name):
            continue
        scale = (end - time.monotonic()) / sum(each.seconds for each in parts[index:])
        seconds = part.seconds * scale
        if seconds <= 0:
            return
        print(f"{part.name}: {part.title} (at most {seconds:.0f} s)", file=sys.stderr, flush=True)
        item_seconds = part.item_seconds * max(1.0, scale)
        _PartRun(part, visit, results, seconds, item_seconds).run()


class _PartRun:
    """One part, from its first child process to its last."""

    def __init__(
        self, part: Part, visit: Visit, results: Results, seconds: float, item_seconds: float
    ) -> None:
        self._part, self._results = part, results
        self._visit = replace(visit, end=time.time() + seconds)
        self._seconds, self._item_seconds = seconds, item_seconds
        self._end = time.monotonic() + seconds
        self._begun, self._began = "", 0.0

    def run(self) -> None:
        """Start children until no item is left, or the time is over."""
        while not self._one_child():
            if time.monotonic() >= self._end:
                break

    def _one_child(self) -> bool:
        """Return True if no other child is needed."""
        self._begun = ""
        with tempfile.TemporaryFile() as errors:
            child = self._started(errors)
            messages = _messages(child)
            try:
                why = self._followed(child, messages)
            finally:
                _end(child)
                self._take_last(messages)
                said = _said(errors)
        self._log(said)
        if why == "":
            code = child.returncode
            if code == 0:
                if not any(row.status == STOPPED for row in self._results.of(self._part.name)):
                    self._add(ALL, "ok", "")
                return True
            if code == FRESH and not self._begun:
                return False
            signalled = f"signal {-code}" if code < 0 else f"exit code {code}"
            last_line = (said.strip().splitlines() or [""])[-1]
            why = f"its process ended with {signalled}: {last_line}"
        is_part_over = time.monotonic() >= self._end
        if self._begun or not is_part_over:
            self._add(self._begun or "(start)", STOPPED if is_part_over else "killed", why)
        return is_part_over or not self._begun

    def _started(self, errors: IO[bytes]) -> subprocess.Popen[str]:
        done = self._results.done(self._part.name)
        given = asdict(self._visit) | {"out": str(self._visit.out), "done": done}
        threads = {"OMP_NUM_THREADS": "1"} if self._visit.is_dry else {}
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return subprocess.Popen(
            [sys.executable, "-m", "tools.gpu_visit.child", self._part.module, json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=os.environ | threads | {"PYTHONPATH": path},
            start_new_session=True,
        )

    def _followed(self, child: subprocess.Popen[str], messages: _Messages) -> str:
        """Write the child's findings until it ends; return why it must be killed, or nothing."""
        while True:
            item_end = self._began + self._item_seconds if self._begun else self._end
            left = min(item_end, self._end) - time.monotonic()
            try:
                message = messages.get(timeout=min(max(0.0, left), _SECONDS_TO_LOOK))
            except queue.Empty:
                if time.monotonic() >= self._end:
                    return f"the {self._seconds:.0f} s of this part were over"
                if time.monotonic() >= item_end:
                    return f"it took more than {self._item_seconds:.0f} s"
                if child.poll() is not None:  # and a process that it started holds the pipe
                    return ""
                continue
            if message is None:
                child.wait()
                return ""
            self._take(message)

    def _take_last(self, messages: _Messages) -> None:
        """Write findings, and the number of items, that had arrived when the child was ended."""
        with suppress(queue.Empty):
            while message := messages.get(timeout=_SECONDS_TO_LOOK):
                self._take({key: said for key, said in message.items() if key != "begins"})

    def _take(self, message: dict[str, Any]) -> None:
        num_items = {"num_items": message["num_items"]}
        if num_items["num_items"] != self._results.num_planned(self._part.name):
            self._add(PLANNED, "ok", "", {"group": "", "values": num_items})
        if "begins" in message:
            self._begun, self._began = message["begins"], time.monotonic()
        elif "found" in message:
            found = message["found"]
            self._add(message["name"], found["status"], found["text"], found)
            self._begun = ""

    def _add(self, name: str, status: str, text: str, found: dict[str, Any] | None = None) -> None:
        seconds = time.monotonic() - self._began if self._begun else 0.0
        others = {key: found[key] for key in ("group", "values")} if found else {}
        row = Row(
            part=self._part.name,
            name=name,
            status=status,
            text=text,
            seconds=round(seconds, 3),
            **others,
        )
        self._results.add(row)

    def _log(self, said: str) -> None:
        if said.strip():
            with (self._visit.out / LOG).open("a") as file:
                file.write(f"== {self._part.name}\n{said}\n")


def _messages(child: subprocess.Popen[str]) -> _Messages:
    """Read the messages of the child in a thread; the last one is None."""
    found: _Messages = queue.SimpleQueue()

    def read() -> None:
        assert child.stdout is not None
        with child.stdout as lines:
            for line in lines:
                with suppress(ValueError):  # a child that was killed leaves half a line
                    found.put(json.loads(line))
        for _ in range(2):  # `_followed` takes one, `_take_last` the other
            found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found


def _end(child: subprocess.Popen[str]) -> None:
    """End the child and what it has started."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_SECONDS_TO_END)
    with suppress(ProcessLookupError):  # also what a child that has ended left in its group
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _said(errors: IO[bytes]) -> str:
    """Return the end of what a child has printed."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _MOST_OF_A_LOG))
    return errors.read().decode(errors="replace")
