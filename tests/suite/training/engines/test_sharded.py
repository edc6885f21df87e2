"""Compare DeepSpeed on two CPU processes, at every ZeRO stage and resumed, with one process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from bakeoff.models import ModelSpec, build_model
from bakeoff.suite.events import TrainedState, TrialRemark
from bakeoff.suite.schema import Parallel, Point
from bakeoff.suite.tasks.shakespeare_characters import ShakespeareCharacters
from bakeoff.suite.tasks.task import Batch, Split
from bakeoff.suite.training import loop as training_module
from bakeoff.suite.training import tensor_io as atomic_files
from bakeoff.suite.training.checkpoint import MANIFEST, Checkpointer, write_manifest
from bakeoff.suite.training.engines import sharded
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.sharded import NoDeepSpeed, ShardedEngine
from bakeoff.suite.training.loop import Exercise, train, train_resuming
from tests.suite.toy import training
from tests.suite.training.engines.pair import no_pickle, on_two_workers

pytestmark = pytest.mark.cluster

RTOL = {"float32": 1e-5, "bf16": 1e-2}  # measured: 2e-7 and 7e-4
STEPS, BATCH, LENGTH = 12, 8, 32
NUM_LOSSES = 4  # per curve: after steps 3, 6, 9, 12; scores after 4, 8, 12
SPEC = ModelSpec(
    architecture="language_model",
    mixer="attention",
    knobs={"heads": 4},
    position="learned",
    dim=128,
    depth=1,
    length=LENGTH,
    input_kind="tokens",
    input_size=81,
    output_size=81,
)
# At width 128 a matrix is large enough for stage 3 to shard it.
CASES = {
    "zero 0": Parallel(workers=2, zero=0, precision="float32", accumulation=1),
    "zero 1": Parallel(workers=2, zero=1, precision="float32", accumulation=1),
    "zero 2": Parallel(workers=2, zero=2, precision="float32", accumulation=1),
    "zero 3": Parallel(workers=2, zero=3, precision="float32", accumulation=1),
    "accumulated, zero 0": Parallel(workers=2, zero=0, precision="float32", accumulation=4),
    "accumulated, zero 3": Parallel(workers=2, zero=3, precision="float32", accumulation=2),
    "bf16, zero 2": Parallel(workers=2, zero=2, precision="bf16", accumulation=1),
}


class Short(ShakespeareCharacters):
    """Three held-out batches, the last with one sequence: fewer rows than workers."""

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        first, second, third = itertools.islice(super().held_out(split, batch), 3)
        yield from (first, second)
        yield third.rows(slice(1))


def exercise() -> Exercise:
    return Exercise(
        task=Short(LENGTH),
        batch=BATCH,
        seed=0,
        training=training(STEPS, learning_rate=3e-3, warmup_steps=3, num_evaluations=3),
    )


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return build_model(SPEC)


class Twice(Checkpointer):
    """A checkpointer that saves after steps 4 and 8, with losses since the last point."""

    num_asked = 0

    def is_due(self) -> bool:
        self.num_asked += 1
        return self.num_asked in (2, 4)


def checkpointer_in(folder: Path, kind: type[Checkpointer] = Checkpointer) -> Checkpointer:
    return kind(folder, 1e9, is_first=dist.get_rank() == 0)


@dataclass(frozen=True)
class Said:
    """Output of one run of a training; `files` are those of its last checkpoint."""

    points: list[Point]
    states: list[TrainedState]
    remarks: list[str]
    num_steps: int
    score: float
    files: list[str]

    @property
    def numbers(self) -> tuple[object, ...]:
        return self.points, self.states, self.score


@dataclass(frozen=True)
class Lives:
    """The undisturbed and the resumed run of one case."""

    first: Said
    resumed: Said


def lived(parallel: Parallel, checkpointer: Checkpointer, seed: int = 0) -> Said:
    """Train on a worker from the newest checkpoint; initial weights may differ by seed."""
    torch.manual_seed(seed)
    engine = ShardedEngine(build_model(SPEC), exercise().training, parallel, "cpu")
    num_steps = 0

    def counted(*arguments: Any) -> Any:
        nonlocal num_steps
        num_steps += 1
        # recipes draw random numbers by the step, also when resumed
        begun.append(engine.model.global_steps)
        return original(*arguments)

    begun: list[int] = []

    original, engine.step = engine.step, counted  # type: ignore[method-assign]
    said = list(train_resuming(engine, exercise(), checkpointer))
    assert begun == list(range(STEPS - num_steps, STEPS))
    return Said(
        points=[s for s in said if isinstance(s, Point)],
        states=[s for s in said if isinstance(s, TrainedState)],
        remarks=[s.sentence for s in said if isinstance(s, TrialRemark)],
        num_steps=num_steps,
        score=engine.evaluate(exercise().task, "test", BATCH),
        files=sorted(p.name for p in checkpointer._folder.glob("generation-000002/*")),
    )


def lives(parallel: Parallel, folder: Path) -> Lives:
    first = lived(parallel, checkpointer_in(folder, Twice))
    return Lives(first, lived(parallel, checkpointer_in(folder), seed=1))


def after_a_flipped_bit(folder: Path) -> Said:
    """Resume on a worker after damaging a checkpoint of the first case."""
    if dist.get_rank() == 1:
        largest = max(folder.glob("generation-000002/*"), key=lambda file: file.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
    dist.barrier()
    return lived(SPOILT, checkpointer_in(folder))


def unfit_for_one(folder: Path) -> Said:
    """Resume where the second worker cannot read its part and reports it to the first."""
    if dist.get_rank() == 1:
        part = folder / "generation-000001" / "worker-1.json"
        part.write_text("[]")
        (part.parent / MANIFEST).unlink()
        write_manifest(part.parent, folder.name, 4)
    dist.barrier()
    return lived(SPOILT, checkpointer_in(folder))


def with_a_full_disk(folder: Path) -> list[Said]:
    """Fill the disk of the second worker: from its first file on, or from DeepSpeed's on."""
    create, found = atomic_files.create, []
    for num_written in (0, 3):
        left = num_written

        def full(path: Path, body: bytes) -> None:
            nonlocal left
            left -= 1
            if dist.get_rank() == 1 and left < 0:
                raise OSError(28, "No space left on device")
            create(path, body)

        atomic_files.create = full
        parallel = CASES["zero 2"]
        found.append(lived(parallel, checkpointer_in(folder / str(num_written) / "trial", Twice)))
        atomic_files.create = create
        assert list((folder / str(num_written)).rglob("*")) == [folder / str(num_written) / "trial"]
    return found


SPOILT = next(iter(CASES.values()))


def every_case(folder: Path) -> tuple[Mapping[str, Lives], list[Said], list[Said]]:
    """Run all cases on a worker; bf16 is last, since DeepSpeed keeps it for the process."""
    torch.save = torch.load = no_pickle
    training_module._TRAINING_LOSSES_PER_CURVE = NUM_LOSSES
    spoilt, *_ = CASES
    found = {spoilt: lives(SPOILT, folder / spoilt)}
    damaged = [after_a_flipped_bit(folder / spoilt), unfit_for_one(folder / spoilt)]
    full = with_a_full_disk(folder / "full")
    found |= {name: lives(case, folder / name) for name, case in CASES.items() if name != spoilt}
    return found, damaged, full


Found = tuple[Mapping[str, Lives], list[Said], list[Said]]


@pytest.fixture(scope="module")
def of_workers(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("sharded")
    found: Found = on_two_workers(every_case, folder, folder)
    return found


@pytest.fixture(scope="module")
def said(of_workers: Found) -> Mapping[str, Lives]:
    return of_workers[0]


@pytest.fixture(scope="module")
def here() -> tuple[list[Point], float]:
    """Return the result of the same training in this process, with the local engine."""
    torch.set_num_threads(1)
    kept = model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_module, "_TRAINING_LOSSES_PER_CURVE", NUM_LOSSES)
        points = list(train(kept, exercise(), "cpu"))
    engine = LocalEngine(kept, exercise().training, "cpu")
    return points, engine.evaluate(exercise().task, "test", BATCH)


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_one_process(
    case: str, said: Mapping[str, Lives], here: tuple[list[Point], float]
) -> None:
    wanted, score = here
    rtol = RTOL[CASES[case].precision]
    found = said[case].first
    assert [(p.metric, p.step) for p in found.points] == [(p.metric, p.step) for p in wanted]
    assert [p.value for p in found.points] == pytest.approx([p.value for p in wanted], rel=rtol)
    assert found.score == pytest.approx(score, rel=rtol)
    assert wanted[-2].value < 0.9 * wanted[0].value, "nothing was learnt"
    assert found.remarks == []


@pytest.mark.parametrize("case", CASES)
def test_what_resumes_ends_with_the_bits_of_what_was_not_disturbed(
    case: str, said: Mapping[str, Lives]
) -> None:
    assert said[case].resumed.numbers == said[case].first.numbers
    assert len(said[case].first.states) == 1
    assert said[case].resumed.num_steps == STEPS - 8
    assert said[case].resumed.remarks == ["it resumes from step 8 of 12"]


@pytest.mark.parametrize("case", CASES)
def test_its_files_are_safetensors_and_json(case: str, said: Mapping[str, Lives]) -> None:
    names = said[case].first.files
    assert {"manifest.json", "worker-0.json", "worker-1.safetensors"} <= {*names}
    assert {Path(name).suffix for name in names} == {".json", ".safetensors"}
    assert len(names) >= 7


def test_the_states_of_workers_tell_numbers_apart(said: Mapping[str, Lives]) -> None:
    states = {name: lives.first.states[0].sha256 for name, lives in said.items()}
    assert states["zero 2"] != states["bf16, zero 2"]
    assert states["zero 0"] != states["accumulated, zero 0"]


def test_after_a_flipped_bit_the_one_before_is_used(
    of_workers: Found, said: Mapping[str, Lives]
) -> None:
    flipped = of_workers[1][0]
    assert flipped.numbers == said["zero 0"].first.numbers
    assert flipped.num_steps == STEPS - 4
    assert "is damaged: its SHA-256" in flipped.remarks[0]
    assert flipped.remarks[1:] == ["it resumes from step 4 of 12"]


def test_what_one_worker_cannot_read_none_goes_on_from(
    of_workers: Found, said: Mapping[str, Lives]
) -> None:
    unfit = of_workers[1][1]
    assert unfit.numbers == said["zero 0"].first.numbers
    assert unfit.num_steps == STEPS
    assert unfit.remarks[1] == (
        "its checkpoint 1 is skipped: another worker cannot write or read it"
    )
    assert unfit.remarks[2].endswith("it has no other checkpoint and starts from the beginning")


def test_a_full_disk_of_one_worker_costs_a_checkpoint_and_nothing_else(
    of_workers: Found, said: Mapping[str, Lives]
) -> None:
    for full in of_workers[2]:
        assert full.numbers == said["zero 2"].first.numbers
        assert full.files == []
        assert full.remarks == [
            "a checkpoint could not be written, and training continues without it: "
            "another worker cannot write or read it"
        ]


def test_without_deepspeed_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deepspeed", None)
    for name in ("DS_ACCELERATOR", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    with pytest.raises(NoDeepSpeed, match=r"needs DeepSpeed, which is not installed here \("):
        sharded._deepspeed("cpu")
