"""Holds what every scenario uses: ablations, commands under faults, processes, an MLflow server.

`bakeoff` forks commands from this process, which has imported what they need: that saves four
seconds of imports each time. A fork of a process with threads would inherit their locks, so this
one must have none: torch computes with one thread, and Ray is not imported here.
"""

from __future__ import annotations

import gc
import http.client
import importlib
import multiprocessing
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import psutil

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Resources, Result, Trial
from bakeoff.suite.training.checkpoint import Checkpointer
from tools.chaos.faults import Fault, install
from tools.chaos.figures import Figures

ROOT = Path(__file__).parents[2]
SWEEPS = Path(__file__).parent / "sweeps"  # the ablations with mixers of their own
KILLED = -int(signal.SIGKILL)
TIMED_OUT = 124
MARK = "BAKEOFF_CHAOS"  # a variable in the environment of a scenario's processes
_QUIET = {"COLUMNS": "200", "OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
_NEEDED = (
    "bakeoff.suite.cli",
    "bakeoff.suite.commands.run",
    "bakeoff.suite.probes.quality",
    "bakeoff.suite.reporting.build",
    "bakeoff.suite.sweep.verify",
    "bakeoff.suite.tasks.registry",
)
_FORK = multiprocessing.get_context("fork")
_NUM_PROCESSES = 3  # one of them mostly waits for the disk
_SERVER_SECONDS = 90.0
_Item = TypeVar("_Item")


# --- Ablations ---

_ABLATION = '''"""An ablation for faults."""
from bakeoff import Ablation, Claim, Model, Scale, vary

ABLATION = Ablation(
    question="Does a sweep come through whatever is done to it?",
    baseline=Model(mixer="attention", heads={heads}),
    axes=[vary({axis!r}, {values!r})],
    tasks=[{task!r}],
    probes={probes!r},
    scales={{"quick": Scale({sizes})}},{claim}
)
'''
_SIZES = {"dim": 8, "depth": 1, "length": 49}
_SHORT = {**_SIZES, "steps": 18, "batch": 64, "num_evaluations": 6, "seeds": 1}
_RATES = [0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05]
_ABLATIONS: dict[str, dict[str, object]] = {
    "one": {"values": [0.001], **_SHORT},  # one short trial with checkpoints
    "resumable": {"values": [0.001, 0.03], **_SHORT},  # the same, two trials
    "many": {  # 200 trials of half a second
        "values": _RATES,
        **_SIZES,
        "steps": 40,
        "batch": 16,
        "num_evaluations": 3,
        "seeds": 20,
    },
    "long": {  # a trial of 20 seconds or more
        "values": [0.001],
        "heads": 4,
        "task": "shakespeare_characters",
        "dim": 128,
        "depth": 4,
        "length": 128,
        "steps": 80,
        "batch": 16,
        "num_evaluations": 4,
        "seeds": 1,
    },
}


def ablation(folder: Path, name: str, **settings: object) -> Path:
    """Write an ablation, by default the one of that name, and return its file.

    Args:
        folder: A folder; it is made if it does not exist.
        name: The name of the file and of the ablation.
        settings: The axis and its values, the task, the heads, the probes, the claim; the others
            are fields of `Scale`.
    """
    given = {**_ABLATIONS.get(name, {}), **settings}
    fields = {"axis": "learning_rate", "task": "fashion_mnist_patches", "heads": 2, "claim": ""}
    fields |= {"probes": ["quality"]}
    fields |= {key: given.pop(key) for key in (*fields, "values") if key in given}
    sizes = ", ".join(f"{key}={value!r}" for key, value in given.items())
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(_ABLATION.format(sizes=sizes, **fields))
    return file


# --- Commands ---


@dataclass(frozen=True)
class Ended:
    """The end of a command.

    Attributes:
        code: Its exit code; minus the number of a signal that ended it.
        output: Standard output and standard error together.
        seconds: The time that it took.
    """

    code: int
    output: str
    seconds: float

    def failure(self, name: str) -> list[str]:
        """Return a sentence with the exit code and the last line; nothing after success."""
        last_line = (self.output.strip().splitlines() or [""])[-1]
        return [f"{name}: exit code {self.code}: {last_line}"] if self.code else []


def warm_up() -> None:
    """Import what every command needs; once, before the first fork."""
    os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    import torch

    torch.set_num_threads(1)
    for module in _NEEDED:
        importlib.import_module(module)
    from bakeoff.suite.tracking.connect import connect

    with suppress(Exception):  # the store does not exist, but mlflow is imported then
        connect("sqlite:////nowhere/at/all.db")
    importlib.import_module("mlflow.store.tracking.sqlalchemy_store")  # opening a store imports it
    parameter = torch.nn.Parameter(torch.zeros(1))
    torch.optim.AdamW([parameter]).zero_grad()  # it imports for seconds when it is first used
    gc.freeze()  # no collection in a child touches, and so copies, these objects


def inline(file: Path, out: Path, more: str = "") -> str:
    """Return the command that runs a sweep in its own process, with a checkpoint at every point."""
    return f"run {file} --executor inline --checkpoint-every 0.001 --out {out} {more}"


def bakeoff(
    command: str,
    *,
    log: Path,
    faults: Sequence[Fault] = (),
    before: Callable[[], None] = lambda: None,
    limit_seconds: float = 120.0,
) -> Ended:
    """Run `bakeoff COMMAND` in a forked child; kill it at the limit.

    Args:
        command: The command line without the name of the program.
        log: The file for its output.
        faults: Faults to install in the child.
        before: A function that the child calls first.
        limit_seconds: The time that it may take.
    """
    began = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    child = _FORK.Process(target=_run_child, args=(shlex.split(command), log, faults, before))
    child.start()
    child.join(limit_seconds)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode is not None, "it was waited for"
    return Ended(child.exitcode, log.read_text("utf-8"), time.monotonic() - began)


def _run_child(
    arguments: Sequence[str], log: Path, faults: Sequence[Fault], before: Callable[[], None]
) -> None:
    """Run the command and exit at once, so that no clean-up of the parent runs in the child."""
    code = 70
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        before()
        install(faults)
        code = _exit_code_of(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _exit_code_of(arguments: Sequence[str]) -> int:
    from bakeoff.suite.cli import main

    sys.argv = ["bakeoff", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    return 0


def start(
    command: str, *, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start `bakeoff COMMAND` as a user does, in a session of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "bakeoff.suite.cli", *shlex.split(command)],
            cwd=ROOT,
            env={**os.environ, **_QUIET, **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def verify(out: Path, more: str = "", *, log: Path) -> list[str]:
    """Run `bakeoff verify`; return a sentence if it fails."""
    code = start(f"verify --out {out} {more}", log=log).wait()
    return [f"verify: exit code {code}: {log.read_text()[-300:]}"] if code else []


def wait(process: subprocess.Popen[bytes], limit_seconds: float) -> int:
    """Return the exit code; at the limit kill the process group and return `TIMED_OUT`."""
    try:
        return process.wait(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TIMED_OUT


def wait_until(
    is_so: Callable[[], bool], what: str, limit_seconds: float, seconds_between: float = 0.1
) -> float:
    """Wait until the function returns True; return the seconds that this took.

    Raises:
        TimeoutError: it did not return True within the limit.
    """
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > limit_seconds:
            raise TimeoutError(f"{what}: not within {limit_seconds:.0f} s")
        time.sleep(seconds_between)
    return time.monotonic() - began


# --- Checks of many cases, and undisturbed results ---


def forks(num_processes: int = _NUM_PROCESSES) -> ProcessPoolExecutor:
    """Return a pool of forked processes."""
    return ProcessPoolExecutor(num_processes, mp_context=_FORK)


def prove_each(items: Sequence[_Item], prove_one: Callable[[_Item], Figures]) -> Figures:
    """Add up the figures of all items; a check that fails is a problem."""
    figures = Figures()
    with forks() as pool:
        futures = [pool.submit(prove_one, item) for item in items]
        for item, future in zip(items, futures, strict=True):
            if error := future.exception():
                traceback.print_exception(error)
                figures += Figures(problems=(f"{item}: the check itself failed: {error!r}",))
            else:
                figures += future.result()
    return figures


def run_without_driver(
    trial: Trial, resources: Resources, checkpointer: Checkpointer | None = None
) -> tuple[Result, str]:
    """Run one trial in this process; return its result and its remarks, one on each line."""
    from bakeoff.suite.events import Finished, Remarked
    from bakeoff.suite.execution.trial import run_trial

    remarks = []
    for event in run_trial(trial, resources, "without a driver", checkpointer):
        if isinstance(event, Remarked):
            remarks.append(event.sentence)
        elif isinstance(event, Finished):
            return event.result, "\n".join(remarks)
    raise AssertionError("a trial ends with its result, whatever happens in it")


def reference_findings(file: Path, num_seeds: int) -> dict[str, str]:
    """Run all trials undisturbed; return the hash of each finding by trial id.

    The trials run in forked processes, so Ray must not be imported yet.
    """
    warm_up()
    planned = plan(str(file), seeds=num_seeds)
    with forks() as pool:
        run = partial(run_without_driver, resources=planned.resources)
        found = [result for result, _ in pool.map(run, planned.trials)]
    return {result.trial_id: result.finding_sha256 for result in found}


def make_empty_store(path: Path) -> None:
    """Make a store with tables and without runs; to make the tables takes seconds."""
    with forks(1) as pool:  # an open store must not be forked
        pool.submit(_make_store, path).result()


def _make_store(path: Path) -> None:
    from bakeoff.suite.tracking.location import Store
    from bakeoff.suite.tracking.write import RunWriter

    RunWriter(Store(uri=f"sqlite:///{path}", artifacts=None))


# --- Processes of a scenario, found by a mark in their environment ---


def marked(mark: str) -> dict[int, str]:
    """Return the command lines of all other living processes with this mark, by process id."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it has ended, or belongs to another user
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found[process.pid] = " ".join(process.cmdline())
    return {pid: line for pid, line in found.items() if line}  # that of a zombie is empty


def orphans(mark: str, limit_seconds: float = 30.0) -> dict[int, str]:
    """Return the processes that are alive after that time; empty as soon as there are none.

    Ray's two agents are left out: they hold no trial and no CPU, and end themselves after a minute
    (see tests/suite/sweep/test_kill.py).
    """
    until = time.monotonic() + limit_seconds
    while found := {pid: line for pid, line in marked(mark).items() if "agent" not in line.lower()}:
        if time.monotonic() > until:
            return found
        time.sleep(0.2)
    return {}


def end(mark: str) -> None:
    """Kill every process with the mark."""
    for pid in marked(mark):
        with suppress(psutil.Error):
            psutil.Process(pid).kill()


def count_orphans(mark: str) -> Figures:
    """Count the processes that are left, and kill them: they must not disturb the next scenario."""
    left = orphans(mark)
    end(mark)
    problems = tuple(f"left behind: {line}" for line in left.values())
    return Figures(num_orphans=len(left), problems=problems)


def own_mark(name: str) -> str:
    """Return a mark for a part of this scenario."""
    return f"{os.environ.get(MARK, 'alone')}-{name}"


# --- A real MLflow server, which can be stopped by SIGSTOP or SIGKILL and brought back ---


@dataclass
class Server:
    """An MLflow server: its folder and its port."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def uri(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = (
            f"-m mlflow server --host 127.0.0.1 --port {self.port} --workers 1"
            f" --backend-store-uri sqlite:///{self.folder}/mlflow.db"
            f" --artifacts-destination {self.folder}/artifacts"
        )
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *shlex.split(command)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.folder,
                env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            )
        self._wait()

    def _wait(self) -> None:
        wait_until(self._answers, f"the MLflow server at {self.uri}", _SERVER_SECONDS)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/health")
            return connection.getresponse().status == http.client.OK
        return False

    def stop(self, number: signal.Signals) -> None:
        """Send the signal to all of its processes."""
        os.killpg(self.process.pid, number)
        if number is signal.SIGKILL:
            self.process.wait()

    def bring_back(self) -> None:
        """Undo `stop`, and wait until it answers."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGCONT)
            self._wait()
        else:
            self.start()


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """Run a server until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Server(folder, port)
    made.start()
    try:
        yield made
    finally:
        made.stop(signal.SIGKILL)
