"""Tests for a sweep that a signal ends: its training saves its state and continues from it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from bakeoff.suite import stopping
from bakeoff.suite.commands import run as run_command
from bakeoff.suite.errors import DONE, INTERRUPTED
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.sweep import driver
from bakeoff.suite.sweep.driver import Options
from bakeoff.suite.sweep.interruption import signals_interrupt
from bakeoff.suite.training import loop
from tests.workplace import Workplace

pytestmark = pytest.mark.usefixtures("plain_figures")

STEPS, STOP = 14, 3
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def numbers(out: Path) -> dict[str, object]:
    """Return the results in the journal, by trial and without the times."""
    with Journal(out / "journal.db", read_only=True) as journal:
        trial_ids = [entry.trial_id for entry in journal.entries()]
        results = list(journal.results(trial_ids))
    return {r.trial_id: (r.measurements, r.points, r.state_sha256) for r in results}


def run(work: Workplace, file: str) -> int:
    options = Options(out=work.out, executor="inline")
    return run_command.run([file], scale="quick", seeds=1, options=options)


@pytest.fixture(autouse=True)
def _no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable MLflow, which takes most of the time, because these tests only read the journal."""
    monkeypatch.setattr(driver, "mlflow_is_installed", lambda: False)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return Workplace(tmp_path).ablation(values=[1e-2], probes=["quality"], steps=STEPS)


@pytest.mark.whole
def test_each_signal_leaves_a_checkpoint_and_the_same_command_ends_with_the_same_bits(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed = Workplace(tmp_path / "undisturbed")
    assert run(undisturbed, file) == DONE
    draw, to_send = loop.training_batch, list(SIGNALS)
    seen: list[int] = []

    def drawn(task, step, *arguments):
        seen.append(step)
        if to_send and len(seen) == STOP:
            os.kill(os.getpid(), to_send.pop(0))
        return draw(task, step, *arguments)

    monkeypatch.setattr(loop, "training_batch", drawn)
    work = Workplace(tmp_path / "disturbed")
    for done in (STOP, 2 * STOP):
        seen.clear()
        capsys.readouterr()
        assert run(work, file) == INTERRUPTED
        said = " ".join(capsys.readouterr().err.split())
        assert "interrupted; the same command continues from here: " in said
        assert f"seed 0 from step {done}" in said
    while to_send:
        seen.clear()
        assert run(work, file) == INTERRUPTED
    assert run(work, file) == DONE
    assert numbers(work.out) == numbers(undisturbed.out)
    assert not (work.out / "checkpoints").exists()


OWN = """
import os, signal
from pathlib import Path
from bakeoff.models.mixer import Mixer

class Plain(Mixer):
    calls = 0

    def forward(self, x, mask=None, context=None, context_mask=None):
        driver = Path(__file__).with_name("driver")
        if len(x) == 100 and self.training and driver.exists():
            type(self).calls += 1
            if type(self).calls == 7:
                os.kill(int(driver.read_text()), signal.SIGUSR1)
                driver.unlink()
        return x.mean(dim=1, keepdim=True).expand_as(x)
"""


@pytest.mark.slow
def test_a_training_in_a_process_of_its_own_saves_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Workplace(tmp_path)
    (tmp_path / "own_that_is_stopped.py").write_text(OWN)
    mixer = "own_that_is_stopped:Plain"
    file = work.ablation(mixer=mixer, values=[1e-2], probes=["quality"], steps=2_000)
    (tmp_path / "driver").write_text(str(os.getpid()))
    assert run(work, file) == INTERRUPTED
    said = " ".join(capsys.readouterr().err.split())
    assert "seed 0 from step " in said
    assert len(list((work.out / "checkpoints").glob("*/generation-*"))) == 1
    assert not (work.out / "checkpoints" / "stop").exists()


def test_a_training_that_never_ends_its_step_is_said_to_start_again(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def hangs(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        while True:
            signal.pause()

    monkeypatch.setattr(loop, "training_batch", hangs)
    monkeypatch.setattr("bakeoff.suite.sweep.interruption.SECONDS_TO_SAVE", 0.2)
    assert run(Workplace(tmp_path), file) == INTERRUPTED
    assert "seed 0 from its start" in " ".join(capsys.readouterr().err.split())


def test_an_ignored_signal_stays_ignored_and_a_handler_of_the_users_stays() -> None:
    heard: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        with signals_interrupt():
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(KeyboardInterrupt), signals_interrupt():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard == [signal.SIGUSR1]


def test_who_asks_waits_as_long_as_a_checkpoint_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "SECONDS_TO_SAVE", -1.0)
    waits = stopping.moments_to_wait
    assert not list(waits(tmp_path, lambda: ["a"]))
    (tmp_path / "a" / f"{stopping.UNFINISHED}1").mkdir(parents=True)
    assert next(waits(tmp_path, lambda: ["a"]), "over") is None
    assert not list(waits(tmp_path, list))
