"""Tests for trials that start from another's weights: order, kills, lost weights, failures."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import torch

from bakeoff.suite.events import Event, Finished
from bakeoff.suite.journal.journal import Journal
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.probe import started_model
from bakeoff.suite.provenance import provenance
from bakeoff.suite.schema import Plan, Resources, Result, Status
from bakeoff.suite.spec import Ablation, Model, Scale, vary
from bakeoff.suite.sweep.driver import Display, Options, run
from bakeoff.suite.sweep.pending import pending_work, topological_layers
from bakeoff.suite.sweep.starts import StartWeights
from bakeoff.suite.sweep.verify import differences
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.tensor_io import read_tensors
from bakeoff.suite.training.weights import FINAL
from tests.workplace import Workplace

pytestmark = [pytest.mark.usefixtures("plain_figures"), pytest.mark.whole]

SCALE = {
    "dim": 8,
    "depth": 1,
    "length": 49,
    "steps": 6,
    "batch": 100,
    "num_evaluations": 1,
    "learning_rate": 1e-2,
    "seeds": 1,
    "pretraining_steps": 4,
}
FILE = f'''"""Does pre-training help?"""
from bakeoff import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Does pre-training help?", baseline=Model(mixer="attention", position="none"),
    axes=[vary("start", ["none", "parity"])], tasks=["fashion_mnist_patches"],
    probes=["quality"], scales={{"quick": Scale(**{SCALE!r})}},
)
'''
ABLATION = Ablation(
    name="own",
    question="Does pre-training help?",
    baseline=Model(mixer="attention", position="none"),
    axes=[vary("start", ["none", "parity"])],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={"quick": Scale(**SCALE)},  # type: ignore[arg-type]
)


@pytest.fixture
def _no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable MLflow, because creating a store takes seconds."""
    monkeypatch.setattr("bakeoff.suite.sweep.driver.mlflow_is_installed", lambda: False)


@pytest.fixture
def planned() -> Plan:
    return plan(ABLATION)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the hash of each trial's result in an undisturbed sweep, by trial id."""
    out = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bakeoff.suite.sweep.driver.mlflow_is_installed", lambda: False)
        run(ABLATION, options=_options(out))
    return {trial_id: sha256 for trial_id, (_, sha256) in _numbers(out).items()}


def _options(out: Path, **changes: object) -> Options:
    return Options(out=out, executor="inline", **changes)  # type: ignore[arg-type]


def _numbers(out: Path) -> dict[str, tuple[int, str]]:
    """Return each trial's number of attempts and the hash of its result, by trial id."""
    with Journal(out / "journal.db", read_only=True) as journal:
        attempts = {each.trial_id: each.attempt for each in journal.attempts()}
        return {
            found.trial_id: (attempts[found.trial_id], found.finding_sha256)
            for found in journal.results(attempts)
        }


class Killed(BaseException):
    """An exception that simulates a kill."""


def _run_until_the_parent_is_done(out: Path, ablation: Ablation = ABLATION) -> Path:
    """Run until the parent is finished; return the folder of its final weights."""
    (parent,) = {t.start.trial_id for t in plan(ablation).trials if t.start}

    class Watching(Display):
        def show(self, event: Event) -> None:
            if isinstance(event, Finished) and event.trial_id == parent:
                raise Killed

    with pytest.raises(Killed):
        run(ablation, options=_options(out), display_for=lambda *_: Watching())
    return out / "checkpoints" / parent / FINAL


def test_a_parent_runs_first_is_shared_and_its_weights_go_at_the_end(work: Workplace) -> None:
    outcome = run(ABLATION, options=_options(work.out), seeds=2)
    assert (outcome.by_status, outcome.error) == ({Status.OK: 6}, "")
    assert not (work.out / "checkpoints").exists()
    assert {attempts for attempts, _ in _numbers(work.out).values()} == {1}
    assert run(ABLATION, options=_options(work.out), seeds=2).num_run == 0
    rows = (work.out / "reports" / "own" / "results.csv").read_text()
    assert "start=parity" in rows
    assert "pre-training" not in rows
    assert differences(work.out, None).differences == ()


def _nothing(weights: Path) -> None:
    assert (weights / "model.safetensors").exists()


def _remove(weights: Path) -> None:
    for file in weights.iterdir():
        file.unlink()
    weights.rmdir()


def _flip_a_bit(weights: Path) -> None:
    body = bytearray((weights / "model.safetensors").read_bytes())
    body[-1] ^= 1
    (weights / "model.safetensors").write_bytes(body)


@pytest.mark.usefixtures("_no_store")
@pytest.mark.parametrize(
    ("happens", "attempts"),
    [(_nothing, 1), pytest.param(_remove, 2, marks=pytest.mark.slow), (_flip_a_bit, 2)],
)
def test_killed_between_parent_and_child_it_ends_with_the_same_numbers(
    happens: Callable[[Path], None], attempts: int, tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    """Lose or damage the weights, or leave them; the next test kills a whole process."""
    weights = _run_until_the_parent_is_done(tmp_path / "killed")
    happens(weights)
    run(ABLATION, options=_options(tmp_path / "killed"))
    found = _numbers(tmp_path / "killed")
    assert {trial_id: sha256 for trial_id, (_, sha256) in found.items()} == undisturbed
    assert found[weights.parent.name][0] == attempts
    assert not weights.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_no_store")
def test_another_ablation_that_shares_the_parent_leaves_its_weights_to_who_is_not_done(
    tmp_path: Path,
) -> None:
    weights = _run_until_the_parent_is_done(tmp_path / "out")
    other = tmp_path / "other.py"
    other.write_text(FILE.replace("'steps': 6", "'steps': 7"))
    assert weights.parent.name in {t.start.trial_id for t in plan(str(other)).trials if t.start}
    run(str(other), options=_options(tmp_path / "out"))
    assert weights.exists()
    run(ABLATION, options=_options(tmp_path / "out"))
    assert {attempts for attempts, _ in _numbers(tmp_path / "out").values()} == {1}
    assert not (tmp_path / "out" / "checkpoints").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_no_store")
@pytest.mark.parametrize(("happens", "attempts"), [(_nothing, 1), (_remove, 2), (_flip_a_bit, 2)])
def test_a_process_that_is_killed_between_parent_and_child_ends_with_the_same_numbers(
    happens: Callable[[Path], None],
    attempts: int,
    tmp_path: Path,
    undisturbed: dict[str, str],
    work: Workplace,
) -> None:
    """Kill the process after the second result, when no child has one."""
    file, killed = tmp_path / "own.py", work.out
    file.write_text(FILE)
    _, parent, child = plan(str(file)).trials
    fault = "kill:after:journal: commit:2"
    command = [sys.executable, "-m", "tools.chaos.faults", fault, "--", "run", str(file)]
    ended = subprocess.run(
        [*command, "--executor", "inline", "--out", str(killed)],
        cwd=Path(__file__).parents[3],
        check=False,
        timeout=240,
    )
    assert ended.returncode == -signal.SIGKILL
    assert parent.trial_id in _numbers(killed)
    assert child.trial_id not in _numbers(killed)
    happens(killed / "checkpoints" / parent.trial_id / FINAL)
    run(str(file), options=_options(killed))
    found = _numbers(killed)
    assert {trial_id: sha256 for trial_id, (_, sha256) in found.items()} == undisturbed
    assert (found[parent.trial_id][0], found[child.trial_id][0]) == (attempts, 1)
    assert not (killed / "checkpoints").exists()


@pytest.mark.usefixtures("_no_store")
@pytest.mark.parametrize(
    ("position", "tables"),
    [
        ("learned", "position.table"),
        pytest.param(
            "learned_2d", "position.row_table, trunk.position.column", marks=pytest.mark.slow
        ),
    ],
)
def test_a_vision_transformer_begins_at_half_the_resolution_and_keeps_its_positions(
    position: str, tables: str, tmp_path: Path
) -> None:
    small, large = "fashion_mnist_14", "fashion_mnist_images"
    scale = Scale(**{**SCALE, "steps": 2, "pretraining_steps": 2, "length": 784, "batch": 10})  # type: ignore[arg-type]
    ablation = ABLATION.model_copy(
        update={
            "baseline": Model("vit", mixer="fnet", position=position, patch=2),
            "axes": (vary("start", ["none", small]),),
            "tasks": (large,),
            "scales": {"quick": scale},
        }
    )
    weights = _run_until_the_parent_is_done(tmp_path, ablation)
    learned = read_tensors(weights / "model.safetensors")
    (child,) = [t for t in plan(ablation).trials if t.start]
    assert child.start is not None
    assert (child.start.task, child.start.subjects[0].grid) == (small, (14, 14))
    checkpointer = Checkpointer(tmp_path / "checkpoints" / child.trial_id, 1e9)
    model, (remark,) = _returned(started_model(child, checkpointer))
    assert f"interpolated (trunk.{tables}" in remark.sentence
    assert "drawn" not in remark.sentence
    for name, tensor in model.state_dict().items():
        before = learned[name]
        if "position" in name:
            moved = model.trunk.position.resampled(name.rpartition(".")[2], before)
            assert len(before) < len(tensor)
            assert torch.equal(tensor, moved)
        else:
            assert torch.equal(tensor, before)
    outcome = run(ablation, options=_options(tmp_path))
    assert outcome.by_status == {Status.OK: 3}


def _returned(generator: Generator[Any, None, Any]) -> tuple[Any, list[Any]]:
    """Return the generator's return value and the values that it yielded."""
    yielded = []
    while True:
        try:
            yielded.append(next(generator))
        except StopIteration as stop:
            return stop.value, yielded


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.ray
@pytest.mark.usefixtures("_no_store")
def test_on_ray_the_numbers_are_those_of_one_process(
    tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    outcome = run(ABLATION, options=Options(out=tmp_path / "ray", executor="ray"))
    assert outcome.by_status == {Status.OK: 3}
    found = _numbers(tmp_path / "ray")
    assert {trial_id: sha256 for trial_id, (_, sha256) in found.items()} == undisturbed
    assert not (tmp_path / "ray" / "checkpoints").exists()


def test_layers_follow_the_graph(planned: Plan) -> None:
    alone, parent, child = planned.trials
    assert child.start == parent
    packed = pending_work([planned], {}).packed
    assert [[t.task for t, _ in layer] for layer in topological_layers(packed)] == [
        ["parity", "fashion_mnist_patches"],
        ["fashion_mnist_patches"],
    ]
    done = {parent.trial_id: {"here"}, alone.trial_id: {"here"}}
    left = pending_work([planned], done)
    assert [t.trial_id for t, _ in left.packed] == [child.trial_id]
    assert (left.num_done, len(topological_layers(left.packed))) == (2, 1)


def test_a_lost_parent_runs_again_only_for_a_child_that_is_left(planned: Plan) -> None:
    alone, parent, child = planned.trials
    done = {each.trial_id: {"here"} for each in (alone, parent)}
    left = pending_work([planned], done, has_weights=lambda trial_id: False)
    assert {t.trial_id for t, _ in left.packed} == {parent.trial_id, child.trial_id}
    assert left.num_done == 1
    done[child.trial_id] = {"here"}
    assert not pending_work([planned], done, has_weights=lambda trial_id: False).num_trials


def test_weights_stay_until_the_last_child_has_a_result(tmp_path: Path) -> None:
    planned = plan(
        ABLATION.model_copy(
            update={"axes": (vary("start", ["none", "parity"]), vary("batch", [100, 50]))}
        )
    )
    assert len({t.start.trial_id for t in planned.trials if t.start}) == 1
    both = plan(
        ABLATION.model_copy(
            update={
                "combine": "cross",
                "axes": (
                    vary("start", ["none", "parity"]),
                    vary("batch", [100, 50]),
                ),
            }
        )
    )
    children = [t for t in both.trials if t.start]
    (parent,) = {t.start.trial_id for t in children if t.start}
    starts = StartWeights([both], {}, tmp_path)
    assert starts.needed == {parent}
    assert starts.after(parent) == []
    assert starts.after(children[0].trial_id) == [children[0].trial_id]
    assert starts.after(children[1].trial_id) == [parent, children[1].trial_id]
    assert not starts.needed


@pytest.mark.parametrize(
    ("ended", "status", "reason"),
    [
        (Status.DIVERGED, Status.SKIPPED, "ended as diverged: it was so"),
        (Status.OUT_OF_MEMORY, Status.SKIPPED, "ended as out_of_memory: it was so"),
        (Status.CRASHED, Status.ERROR, "ended as crashed: it was so"),
        (Status.OK, Status.ERROR, "has left no weights in the output folder"),
    ],
)
def test_a_child_of_a_failed_parent_is_a_row_that_says_so(
    ended: Status, status: Status, reason: str, planned: Plan, tmp_path: Path
) -> None:
    _, parent, child = planned.trials
    with Journal(tmp_path / "journal.db") as journal:
        journal.keep_plan(planned)
        result = Result(
            trial_id=parent.trial_id,
            status=ended,
            reason="it was so",
            seconds=1.0,
            provenance=provenance(Resources()),
        )
        journal.commit(result, journal.begin(parent.trial_id, "here"))
        starts = StartWeights([planned], journal.done(), tmp_path)
        works = [(trial, planned.resources) for trial in planned.trials]
        ready, (finished,) = starts.partition_ready(works, journal)
    assert [t.trial_id for t, _ in ready] == [t.trial_id for t in planned.trials if t != child]
    assert (finished.trial_id, finished.result.status) == (child.trial_id, status)
    assert reason in finished.result.reason
    assert parent.trial_id[:8] in finished.result.reason
