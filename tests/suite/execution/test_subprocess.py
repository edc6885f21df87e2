"""Tests for a trial in a separate process: same numbers, a result for every end, no leftovers.

See sweep/test_deadline.py for the processes left by one that is ended from outside.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from bakeoff.suite.errors import INTERRUPTED
from bakeoff.suite.events import Checkpoints, Event, Finished, Progressed, Remarked, Started
from bakeoff.suite.execution import fork_server
from bakeoff.suite.execution import subprocess as trial_subprocess
from bakeoff.suite.execution.subprocess import environment_of, run_in_subprocess
from bakeoff.suite.execution.subprocess_main import EVENT, REQUEST, TrialRequest
from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Resources, Result, Status, Trial
from tests.kept_servers import KeptServers
from tests.workplace import Workplace, code_in, is_alive

pytestmark = pytest.mark.whole

MIXERS = '''"""Mixers that use their process."""
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bakeoff.models.mixer import Mixer


class Prints(Mixer):
    def forward(self, x, mask=None, context=None, context_mask=None):
        print("to the output", flush=True)
        os.write(1, b"to the output, as C code writes\\n")
        return x.mean(dim=1, keepdim=True).expand_as(x)


class Parent(Prints):
    def forward(self, x, mask=None, context=None, context_mask=None):
        if len(x) >= 100:
            child = subprocess.Popen(["sleep", "600"])
            Path(__file__).with_name("pids").write_text(f"{os.getpid()} {child.pid}")
            time.sleep(600)
        return x


class Holds(Prints):
    """Keeps the interpreter's lock, and hears of no signal."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        if len(x) >= 100:
            Path(__file__).with_name("pids").write_text(f"{os.getpid()}")
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 60))
            ctypes.PyDLL(None).sleep(600)
        return x


class Dies(Prints):
    def forward(self, x, mask=None, context=None, context_mask=None):
        if len(x) >= 100:
            print("the last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return x


class CannotBeCaptured(Prints):
    """As where a GPU cannot capture a step; in a process that records nothing, it trains."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        from bakeoff.suite.errors import CaptureFailed
        from bakeoff.suite.training.engines import recording

        if len(x) >= 100 and not recording._why_nothing:
            raise CaptureFailed("the stream was waited for")
        return super().forward(x)


class LeavesHelper(Prints):
    """It dies, and what it has forked lives on with the pipe of its events."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        if len(x) >= 100:
            helper = os.fork()
            if not helper:
                self.help()
            Path(__file__).with_name("helper").write_text(f"{helper}")
            os.kill(os.getpid(), signal.SIGSEGV)
        return x

    def help(self):
        time.sleep(60)
        os._exit(0)


class LeavesStranger(LeavesHelper):
    def help(self):
        os.setsid()
        super().help()
'''


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(tmp_path_factory.mktemp("fresh"))
    (place.path / "fresh_mixers.py").write_text(MIXERS)
    torch.set_num_threads(1)
    return place


def trial(work: Workplace, mixer: str) -> Trial:
    return plan(work.ablation(mixer=mixer, probes=["quality"], seeds=1)).trials[0]


def forked(
    work: Workplace, servers: KeptServers, mixer: str, limit: float | None = None
) -> list[Event]:
    """Run the trial of a mixer in a fork of a server that is kept."""
    wanted, resources, code = trial(work, f"fresh_mixers:{mixer}"), Resources(), code_in(work.path)
    with servers.one_with(environment_of(resources)) as server:
        return list(run_in_subprocess(wanted, resources, limit, server=server, code=code))


def ended(events: list[Event]) -> Result:
    assert isinstance(events[-1], Finished)
    return events[-1].result


def test_the_numbers_are_those_of_this_process_whatever_is_printed(work: Workplace) -> None:
    wanted, resources = trial(work, "fresh_mixers:Prints"), Resources()
    events = list(run_in_subprocess(wanted, resources))
    here = ended(list(run_trial(wanted, resources, "here")))
    assert isinstance(events[0], Started)
    assert events[0].place not in (f"process {os.getpid()}", "here")
    assert {type(event) for event in events[1:-1]} <= {Progressed}
    found = ended(events)
    assert found.status is Status.OK
    assert found.measurements == here.measurements
    assert found.points == here.points
    assert found.provenance.environment_id == provenance(resources).environment_id
    assert found.provenance.commit == here.provenance.commit


@pytest.mark.slow
def test_a_trial_whose_steps_cannot_be_captured_begins_again_in_another_process(
    work: Workplace, kept_servers: KeptServers
) -> None:
    first, remark, second, *_, last = forked(work, kept_servers, "CannotBeCaptured")
    assert isinstance(first, Started)
    assert isinstance(second, Started)
    assert first.place != second.place
    assert remark == Remarked(
        first.trial_id,
        "its steps could not be captured (the stream was waited for); it runs again, eagerly",
    )
    assert ended([last]).status is Status.OK, ended([last]).reason


def test_what_cannot_even_begin_is_a_result_that_says_why(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = trial(work, "fresh_mixers:Prints")
    # This removes the paths of Python's modules and of the project's.
    monkeypatch.setattr(sys, "path", [str(work.path)])
    result = ended(list(run_in_subprocess(wanted, Resources())))
    assert result.status is Status.CRASHED
    assert "exit code 1" in result.reason
    assert "ModuleNotFoundError" in result.output


SCRIPT = """
from pathlib import Path

from bakeoff.suite.execution.subprocess import run_in_subprocess
from bakeoff.suite.execution.subprocess_main import EVENT, REQUEST

with open("imported", "a") as file:
    file.write("once\\n")
order = REQUEST.validate_json(Path("order.json").read_bytes())
*_, finished = run_in_subprocess(order.trial, order.resources)
print(EVENT.dump_json(finished).decode())
"""


def test_the_death_of_the_process_is_a_result_and_the_program_is_not_run_again(
    work: Workplace, tmp_path: Path
) -> None:
    """Run the trial from a script without a main guard."""
    wanted, resources = trial(work, "fresh_mixers:Dies"), Resources(num_cpus=2, num_threads=2)
    order = TrialRequest(trial=wanted, resources=resources)
    (tmp_path / "order.json").write_bytes(REQUEST.dump_json(order))
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = os.pathsep.join([str(work.path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "script.py"],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "imported").read_text() == "once\n"
    result = ended([EVENT.validate_json(done.stdout)])
    assert (result.trial_id, result.status) == (wanted.trial_id, Status.CRASHED)
    assert result.reason == "its process was ended by signal 9 (Killed)"
    assert result.output.endswith("the last words\n")
    assert result.measurements == result.points == ()
    assert result.provenance.environment_id == provenance(resources).environment_id


@pytest.mark.parametrize("mixer", [pytest.param("Parent", marks=pytest.mark.slow), "Holds"])
def test_a_trial_that_never_ends_is_a_time_out_and_leaves_nothing(
    work: Workplace, mixer: str, kept_servers: KeptServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_subprocess, "SECONDS_OF_GRACE", 1.0)
    pids = work.path / "pids"
    pids.unlink(missing_ok=True)
    for limit in (2.0, 6.0, 16.0, 60.0):  # a process starts slowly on a busy machine
        result = ended(forked(work, kept_servers, mixer, limit))
        assert result.status is Status.TIMEOUT, result.reason
        assert "--trial-limit" in result.reason
        if pids.exists():  # the mixer was called
            break
    _wait_for_the_end_of(pids.read_text().split())


def _wait_for_the_end_of(pids: Sequence[str]) -> None:
    """Wait up to 5 s for the end of killed processes, which the system may delay."""
    until = time.monotonic() + 5
    while any(is_alive(int(pid)) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("mixer", "trial_seconds"),
    [
        pytest.param("LeavesHelper", 40.0, marks=pytest.mark.slow),
        pytest.param("LeavesStranger", None, marks=pytest.mark.slow),
    ],
)
def test_a_process_that_died_is_a_crash_though_its_helper_lives_on(
    work: Workplace, mixer: str, trial_seconds: float | None, kept_servers: KeptServers
) -> None:
    begun = time.monotonic()
    result = ended(forked(work, kept_servers, mixer, trial_seconds))
    assert time.monotonic() - begun < 40, "it waited for the helper"
    assert result.status is Status.CRASHED
    assert "signal 11" in result.reason
    helper = int((work.path / "helper").read_text())
    if mixer == "LeavesStranger":
        os.kill(helper, signal.SIGKILL)
    _wait_for_the_end_of([str(helper)])


def test_a_process_that_died_before_the_limit_is_no_time_out_however_late_it_is_asked(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_subprocess, "SECONDS_OF_GRACE", 0.0)
    monkeypatch.setattr(fork_server, "_START", "import sys; sys.exit(3); ")
    lines = trial_subprocess._lines

    def late(process: fork_server.FreshProcess, is_stopped: threading.Event) -> Iterator[bytes]:
        time.sleep(3.0)  # the reader of the events is busy
        return lines(process, is_stopped)

    monkeypatch.setattr(trial_subprocess, "_lines", late)
    result = ended(list(run_in_subprocess(trial(work, "fresh_mixers:Prints"), Resources(), 2.0)))
    assert result.status is Status.CRASHED, result.reason
    assert "exit code 3" in result.reason


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """Open files until the numbers below 1,024, which `select.select` accepts, are taken."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    while opened[-1] < 1100:
        opened.append(os.dup(opened[0]))
    yield
    for number in opened:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_trial_is_ended_early_by_a_program_with_many_open_files(
    work: Workplace, tmp_path: Path, many_open_files: None
) -> None:
    """Check that an ended sweep waits for checkpoints in a program with 1,100 open files."""
    wanted = trial(work, "fresh_mixers:Prints")
    events = run_in_subprocess(
        wanted, Resources(), checkpoints=Checkpoints(folder=tmp_path), code=code_in(work.path)
    )
    assert isinstance(next(events), Started)
    events.close()


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trial, str]:
    """Return a trial of five minutes, and the folder of its mixer."""
    work = Workplace(tmp_path_factory.mktemp("slow"))
    mixers = work.mixers("slow_one_trial", pause=60.0)
    file = work.ablation(mixer=f"{mixers}:Slow", probes=["quality"], seeds=1)
    return plan(file).trials[0], str(work.path)


def test_a_trial_is_the_same_on_the_other_side(slow: tuple[Trial, str]) -> None:
    order = TrialRequest(
        trial=slow[0], resources=Resources(num_cpus=2, memory_bytes=7, gpu_model="L4")
    )
    read = REQUEST.validate_json(REQUEST.dump_json(order))
    assert read == order
    assert read.trial.trial_id == slow[0].trial_id


@pytest.mark.slow
def test_it_dies_with_its_input_in_the_middle_of_its_work(slow: tuple[Trial, str]) -> None:
    """Check that the process ends when its input is closed, as by a killed driver."""
    trial, folder = slow
    paths = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        [sys.executable, "-m", "bakeoff.suite.execution.subprocess_main"],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(
            REQUEST.dump_json(TrialRequest(trial=trial, resources=Resources())) + b"\n"
        )
        process.stdin.flush()
        begun = EVENT.validate_json(process.stdout.readline())
        assert begun == Started(trial.trial_id, f"process {process.pid}")
        process.stdin.close()
        closed = time.monotonic()
        assert process.wait(10) == 1
        assert time.monotonic() - closed < 2.0
        assert process.stdout.read() == b""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_sweep_and_the_process_of_its_timing(
    tmp_path: Path, number: signal.Signals
) -> None:
    work = Workplace(tmp_path)
    (tmp_path / "fresh_mixers.py").write_text(MIXERS)
    file = work.ablation(
        mixer="fresh_mixers:Prints",
        axis="mixer",
        values=["fresh_mixers:Parent", "fresh_mixers:Prints"],
        probes=["step_time"],
        seeds=1,
    )
    driver = work.start("run", file, "--executor", "inline")
    pids, until = tmp_path / "pids", time.monotonic() + 120
    while not (pids.exists() and pids.read_text()):
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < until, "the mixer was never called"
        time.sleep(0.02)
    os.killpg(driver.pid, number)  # a terminal also signals all processes of the group
    said = driver.communicate(timeout=60)[0]
    assert driver.returncode == INTERRUPTED, said
    assert "the same command continues from here" in said
    assert "Traceback" not in said
    assert not any(is_alive(int(pid)) for pid in pids.read_text().split())
