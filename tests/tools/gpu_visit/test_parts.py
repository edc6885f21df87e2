"""Test that the parts of a visit measure and compare everything that is registered."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor

from bakeoff.models.mixers.attentions.talking_heads import TalkingHeads
from bakeoff.models.registry import ARCHITECTURES, MIXERS
from bakeoff.suite.errors import UsageError
from bakeoff.suite.planning.cost_model import seconds_of
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Measurement, launched
from tests.models.kernels.fla_peer import peer
from tests.suite.timing.subjects import alone
from tests.suite.timing.subjects import trial_of as timing_trial
from tools.gpu_visit.__main__ import PARTS
from tools.gpu_visit.parts import ablations, gpu_tests, peers, places, sharing, steps, timings
from tools.gpu_visit.results import MOST_BYTES, STOPPED, Results, Visit
from tools.gpu_visit.runner import ROOT
from tools.gpu_visit.standard import baseline, of_architecture, of_mixer
from tools.gpu_visit.table import MOST_LINES


@pytest.fixture
def visit(tmp_path: Path) -> Visit:
    return Visit(device="cpu", out=tmp_path, end=time.time() + 60, ablations=("heads",))


def test_every_architecture_and_mixer_is_an_item(visit: Visit) -> None:
    names = [name for name, _ in steps.items(visit)]
    assert {*ARCHITECTURES} <= {*names}
    assert {f"{name}, causal" for name in MIXERS} <= {*names}
    assert len(names) == len({*names})


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_there_is_a_small_training_of_every_architecture(name: str) -> None:
    if name == "image_tokens":  # it starts from a trained model: a recipe covers it
        with pytest.raises(UsageError, match="give start="):
            of_architecture(name)
        return
    assert of_architecture(name).subjects[0].architecture == name


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXERS)
def test_there_is_a_small_training_of_every_mixer(name: str) -> None:
    assert of_mixer(name, is_causal=False).subjects[0].mixer == name


def test_three_steps_run_without_a_gpu_and_say_so(visit: Visit) -> None:
    measured = dict(steps.items(visit))
    found = measured["attention, causal"]()
    assert found.text == "eager steps run; recording needs a GPU"
    assert len(found.values["losses"]) == 3
    found = measured["linformer, causal"]()
    assert (found.status, found.text) == ("skipped", "it has no causal form")


@pytest.mark.parametrize(
    ("recorded", "how", "is_declared", "status", "needs_fresh"),
    [
        ([1.0, 2.0], "each one CUDA graph", False, "ok", False),
        ([1.0, 2.1], "each one CUDA graph", False, "failed", False),
        ([1.0, 2.0], "eagerly: Performer draws random numbers during training", True, "ok", False),
        ([1.0, 2.0], "eagerly: CUDA error: operation failed", False, "failed", True),
    ],
)
def test_a_recording_is_judged_by_its_losses_and_its_reason(
    monkeypatch: pytest.MonkeyPatch,
    recorded: list[float],
    how: str,
    is_declared: bool,
    status: str,
    needs_fresh: bool,
) -> None:
    def trained(trial: Any, device: str, *, is_recorded: bool) -> tuple[list[float], str, bool]:
        return (recorded, how, is_declared) if is_recorded else ([1.0, 2.0], "", is_declared)

    monkeypatch.setattr(steps, "_trained", trained)
    found = steps.compared(of_mixer("fnet", is_causal=False), "cuda")
    assert (found.status, found.needs_fresh) == (status, needs_fresh)


def test_a_baseline_is_a_training_without_search_and_evaluation() -> None:
    trial = baseline("heads", scale="smoke", steps=7, batch=3)
    assert (trial.probe, trial.batch, trial.search) == ("quality", 3, None)
    assert trial.training is not None
    assert (trial.training.steps, trial.training.num_evaluations) == (7, 0)


@pytest.mark.parametrize("kernel", peers._STATES)
def test_a_state_is_compared_with_a_kernel(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setattr(peers, "kernel_function", lambda _: peer)
    found = peers._state("cpu", {"batch": 1, "length": 16, "dim": 32}, kernel)
    assert (found.status, found.values["outputs_apart"] < 0.02) == ("ok", True), found.text
    assert "goal at most 1.1" in found.text


@pytest.mark.parametrize(
    ("apart", "auto", "status", "said"),
    [
        (0.01, 1.05, "ok", "auto takes 1.05 times as long as fla, goal at most 1.1: met"),
        (0.01, 1.2, "failed", "1.20 times as long as fla, goal at most 1.1: missed"),
        (0.2, 1.05, "failed", "outputs differ (0.2)"),
    ],
)
def test_a_kernel_chosen_by_itself_must_be_as_fast(
    apart: float, auto: float, status: str, said: str
) -> None:
    seconds = {"torch": 4e-3, "auto": auto * 1e-3, "fla": 1e-3}
    found = peers._judged(apart, seconds, "gla of flash-linear-attention", is_dry=False)
    assert found.status == status
    assert said in found.text
    assert found.text.endswith("; auto is gla of flash-linear-attention")


@pytest.mark.slow
def test_torch_layers_are_peers(visit: Visit) -> None:
    found = dict(peers.items(visit))["torch scaled_dot_product_attention"]()
    assert found.text.startswith("outputs agree")


def test_what_is_not_installed_is_skipped(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "performer_pytorch", None)
    monkeypatch.setitem(sys.modules, "fla.ops.gla", None)
    measured = dict(peers.items(visit))
    assert measured["performer-pytorch"]().status == "skipped"
    assert measured["fla gla"]().status == "skipped"
    monkeypatch.setattr(gpu_tests, "find_spec", lambda name: None)
    ((name, measure),) = gpu_tests.items(visit)
    assert (name, measure().text) == ("pytest", "pytest is missing")


def test_the_files_with_tests_for_a_gpu_are_found(visit: Visit) -> None:
    names = {name for name, _ in gpu_tests.items(visit)}
    assert {"suite/timing/test_clock.py", "suite/training/engines/test_runtime.py"} <= names
    assert not [name for name in names if "benchmarks" in name]


def test_a_test_file_is_one_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(*given: Any, plugins: Any) -> int:
        for when, outcome in (("setup", "passed"), ("call", "passed"), ("call", "failed")):
            report = SimpleNamespace(
                when=when,
                outcome=outcome,
                failed=outcome == "failed",
                nodeid="x.py::test_x",
                longrepr="assert 1 == 2",
            )
            plugins[0].pytest_runtest_logreport(report)
        return 1

    monkeypatch.setattr(pytest, "main", ran)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # monkeypatch restores it afterwards
    found = gpu_tests._run(tmp_path / "test_x.py")
    assert (found.status, found.text) == ("failed", "1 failed, 1 passed; test_x: assert 1 == 2")
    json.dumps(dataclasses.asdict(found))
    monkeypatch.setattr(pytest, "main", lambda *given, plugins: pytest.ExitCode.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        gpu_tests._run(tmp_path / "test_x.py")


@pytest.mark.parametrize("name", ["talking_heads", "hard_attention, reinforce"])
def test_chunks_are_measured_against_all_pairs(visit: Visit, name: str) -> None:
    found = dict(places.items(visit))[name]()
    assert found.status == "ok", found.text
    assert found.values["chunks_peak_bytes"] < found.values["whole_peak_bytes"]
    assert ("equal" in found.text) == (name == "talking_heads")
    json.dumps(dataclasses.asdict(found))


def test_chunks_that_differ_are_a_failure(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    right = TalkingHeads._heads

    def wrong(self: TalkingHeads, queries: Tensor, *others: Any) -> tuple[Tensor]:
        (heads,) = right(self, queries, *others)
        return (heads * queries.shape[-2],)

    monkeypatch.setattr(TalkingHeads, "_heads", wrong)
    assert dict(places.items(visit))["talking_heads"]().status == "failed"


def test_a_recurrence_is_measured_beside_that_of_torch(visit: Visit) -> None:
    found = dict(places.items(visit))["lstm, batch 4"]()
    assert found.status == "ok"
    assert {"ours_launched_seconds", "torch_peak_bytes"} <= found.values.keys()


@pytest.mark.slow
def test_a_plan_of_timings_is_an_item(visit: Visit) -> None:
    first, *others = timings.items(visit)
    assert first[1]().values["num_trials"] > 0
    assert any(name.startswith("mixer_time") for name, _ in others)


MAIN = "forward_backward_seconds"


def _measured(**values: float) -> list[Measurement]:
    return [
        Measurement(metric=metric, value=value, unit="s", better="lower", subject=subject)
        for subject in (0, 1)
        for metric, value in values.items()
    ]


@pytest.mark.parametrize(
    ("slowed", "status", "said"),
    [
        (1.047, "ok", "1.047, goal 1.05 ± 0.01: met"),
        (1.013, "failed", "1.013, goal 1.05 ± 0.01: missed"),
    ],
)
def test_a_slowed_control_is_judged_and_launches_are_compared(
    slowed: float, status: str, said: str
) -> None:
    trial = timing_trial(alone("attention"), alone("lstm"))
    ratios = {"baseline_slowed_ratio": slowed, "baseline_slowed_launched_ratio": 1.05}
    times = {MAIN: 0.5e-3, launched(MAIN): 2e-3}
    found = timings.judged(trial, _measured(**ratios, **times), "9.0 s", {"seconds": 9.0})
    assert found.status == status
    assert said in found.text
    assert found.text.endswith("launched over graph: attention (0) 4, lstm (1) 4")
    assert (found.values["slowed_graph"], found.values["seconds"]) == (slowed, 9.0)


def test_a_control_of_a_cpu_is_said_and_not_judged() -> None:
    trial = timing_trial(alone("attention"), alone("lstm"))
    measured = _measured(baseline_slowed_ratio=1.02, **{MAIN: 1e-3})
    found = timings.judged(trial, measured, "9.0 s", {})
    assert (found.status, found.values) == ("ok", {"slowed_eager": 1.02})


def test_too_little_time_for_an_ablation_is_no_result(visit: Visit) -> None:
    late = dataclasses.replace(visit, end=time.time() + 5)
    (_, measure), (_, compare) = ablations.items(late)
    assert measure().status == STOPPED
    assert compare().status == "skipped"


@pytest.mark.whole
def test_an_ablation_is_compared_with_its_plan(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check the verdict at 1.4 and 1.6 times the planned time, of the trials that ended."""
    planned = plan("heads", scale="standard")
    trials = [t for t in planned.trials if t.training is not None][:3]
    expected = {t.trial_id: seconds_of(t, planned.resources.for_trial(t)) for t in trials}
    on_gpu = dataclasses.replace(visit, device="cuda")
    for factor, status in ((1.4, "ok"), (1.6, "failed"), (0.6, "failed")):
        taken = {key: factor * seconds for key, seconds in expected.items()}
        monkeypatch.setattr(ablations, "seconds_of_trials", lambda _, taken=taken: taken)
        _, (name, measure) = ablations.items(on_gpu)
        found = measure()
        assert (name, found.status) == ("heads, time as planned", status)
        assert found.text.startswith(f"{factor:.2f} times the planned ")


def test_a_journal_comes_home_while_it_is_written(tmp_path: Path) -> None:
    import sqlite3

    out, work = tmp_path / "visit", tmp_path / "visit.work"
    out.mkdir()
    work.mkdir()
    assert ablations.keep_journal(out) == ""
    with sqlite3.connect(work / "journal.db") as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE results (status TEXT)")
        db.execute("INSERT INTO results VALUES ('ok')")
        db.commit()
        assert ablations.keep_journal(out) == ""
    db.close()
    assert ablations.counts_of(out / "journal.db") == {"ok": 1}
    assert [path.name for path in out.iterdir()] == ["journal.db"]


def test_trainings_side_by_side_are_counted(monkeypatch: pytest.MonkeyPatch, visit: Visit) -> None:
    rates = {16: {1: 10.0, 2: 15.0}}
    monkeypatch.setattr(sharing, "_rates", lambda *given: rates)
    found = dict(sharing.items(visit))["time slices"]()
    assert found.text == "width 16, steps/s of 1: 10 (1.00 x), 2: 15 (1.50 x): sharing pays"


@pytest.mark.slow
def test_a_dry_visit_ends_in_time_with_its_table(tmp_path: Path) -> None:
    out = tmp_path / "visit"
    command = [sys.executable, "-m", "tools.gpu_visit", "--device", "cpu", "--out", str(out)]
    begun = time.monotonic()
    done = subprocess.run(
        [*command, "--minutes", "2"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun <= 2 * 60
    assert done.stdout == (out / "table.txt").read_text()
    assert len(done.stdout.splitlines()) <= MOST_LINES
    for part in PARTS:
        assert f"\n{part.name} ({part.title}): " in done.stdout
    files = list(out.iterdir())
    assert len(files) <= 8
    assert max(file.stat().st_size for file in files) <= MOST_BYTES
    before = {part.name: Results(out).done(part.name) for part in PARTS}
    assert sum(map(len, before.values())) > 0
    done = subprocess.run(
        [*command, "--minutes", "1", "--resume"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = Results(out)
    final = [(row.part, row.name) for row in results.rows if row.status != STOPPED]
    assert len(final) == len({*final})
    for part in PARTS:
        assert {*before[part.name]} <= {*results.done(part.name)}
