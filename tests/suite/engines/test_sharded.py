"""DeepSpeed on two CPU processes: at every ZeRO stage the numbers of one process, also resumed."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from models import ModelSpec, build_model
from suite.engines import sharded
from suite.engines.local import LocalEngine
from suite.engines.sharded import NoDeepSpeed, ShardedEngine
from suite.resuming import train_resuming
from suite.schema import Parallel, Point
from suite.tasks.shakespeare_characters import ShakespeareCharacters
from suite.tasks.task import Batch, Split
from suite.training import Exercise, train
from tests.suite.engines.pair import on_two_workers
from tests.suite.toy import training

RTOL = {"float32": 1e-5, "bf16": 1e-2}  # measured: 2e-7 and 7e-4
STEPS, BATCH, LENGTH = 12, 8, 32
SPEC = ModelSpec(
    skeleton="language_model", mixer="attention", knobs={"heads": 4}, position="learned", dim=128,
    depth=1, length=LENGTH, input_kind="tokens", input_size=81, output_size=81,
)  # fmt: skip
# At width 128 a matrix is large enough that stage 3 divides it.
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
    """Three held-out batches, the last of one sequence: fewer than there are workers."""

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        first, second, third = itertools.islice(super().held_out(split, batch), 3)
        yield from (first, second)
        yield Batch(inputs=third.inputs[:1], targets=third.targets[:1])


def exercise() -> Exercise:
    return Exercise(
        task=Short(LENGTH), batch=BATCH, seed=0,
        training=training(STEPS, learning_rate=3e-3, warmup_steps=3, num_evaluations=3),
    )  # fmt: skip


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return build_model(SPEC)


@dataclass
class FolderKeeper:
    """Keeps the first checkpoint that it is asked for, as Ray Train would."""

    folder: Path
    is_kept: bool = False

    def latest(self) -> Path | None:
        return self.folder if self.is_kept else None

    def is_due(self) -> bool:
        return not self.is_kept

    def keep(self, write: Callable[[Path], None]) -> None:
        own = self.folder.with_name(f"{self.folder.name} of worker {dist.get_rank()}")
        write(own)
        shutil.copytree(own, self.folder, dirs_exist_ok=True)
        dist.barrier()
        self.is_kept = True


@dataclass(frozen=True)
class Said:
    """Of one case: the curve, how far it held when it was resumed, what was spoilt."""

    points: list[Point]
    score: float
    resumed: list[Point]
    num_steps_again: int


def trained(parallel: Parallel, folder: Path) -> Said:
    """On a worker: train, then go on from the checkpoint."""
    keeper = FolderKeeper(folder)
    engine = ShardedEngine(model(), exercise().training, parallel, "cpu")
    points = list(train_resuming(engine, exercise(), keeper))
    score = engine.evaluate(exercise().task, "test", BATCH)
    resumed, again = resuming(parallel, keeper)
    return Said(points, score, resumed, again)


def num_steps_after_a_flipped_bit(folder: Path) -> int:
    """On a worker, of a checkpoint of the first case."""
    parallel = next(iter(CASES.values()))
    if dist.get_rank() == 1:
        largest = max(folder.rglob("*.pt"), key=lambda file: file.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[len(content) // 2] ^= 1
        largest.write_bytes(content)
    dist.barrier()
    return resuming(parallel, FolderKeeper(folder, is_kept=True))[1]


def resuming(parallel: Parallel, keeper: FolderKeeper) -> tuple[list[Point], int]:
    """The curve, and how many steps were made for it; weights are others than at the start."""
    torch.manual_seed(1)
    engine = ShardedEngine(build_model(SPEC), exercise().training, parallel, "cpu")
    steps = 0

    def counted(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return original(*arguments)

    original, engine.step = engine.step, counted  # type: ignore[method-assign]
    return list(train_resuming(engine, exercise(), keeper)), steps


def every_case(folder: Path) -> tuple[Mapping[str, Said], int]:
    """On a worker; bf16 last, since DeepSpeed remembers it for the whole process."""
    spoilt, *_ = CASES
    first = {spoilt: trained(CASES[spoilt], folder / spoilt)}
    num_steps = num_steps_after_a_flipped_bit(folder / spoilt)
    others = {name: trained(case, folder / name) for name, case in CASES.items() if name != spoilt}
    return first | others, num_steps


@pytest.fixture(scope="module")
def of_workers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, Said], int]:
    folder = tmp_path_factory.mktemp("sharded")
    found: tuple[Mapping[str, Said], int] = on_two_workers(every_case, folder, folder)
    return found


@pytest.fixture(scope="module")
def said(of_workers: tuple[Mapping[str, Said], int]) -> Mapping[str, Said]:
    return of_workers[0]


@pytest.fixture(scope="module")
def here() -> tuple[list[Point], float]:
    """The same training in this process, by the local engine."""
    torch.set_num_threads(1)
    kept = model()
    points = list(train(kept, exercise(), "cpu"))
    engine = LocalEngine(kept, exercise().training, "cpu")
    return points, engine.evaluate(exercise().task, "test", BATCH)


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_one_process(
    case: str, said: Mapping[str, Said], here: tuple[list[Point], float]
) -> None:
    wanted, score = here
    rtol = RTOL[CASES[case].precision]
    found = said[case].points
    assert [(p.metric, p.step) for p in found] == [(p.metric, p.step) for p in wanted]
    assert [p.value for p in found] == pytest.approx([p.value for p in wanted], rel=rtol)
    assert said[case].score == pytest.approx(score, rel=rtol)
    assert wanted[-2].value < 0.9 * wanted[0].value, "nothing was learnt"


@pytest.mark.parametrize("case", CASES)
def test_what_resumes_ends_with_the_numbers_of_what_was_not_disturbed(
    case: str, said: Mapping[str, Said]
) -> None:
    assert said[case].resumed == said[case].points
    first_evaluation = -(-STEPS // 3)
    assert said[case].num_steps_again == STEPS - first_evaluation


def test_a_checkpoint_with_a_flipped_bit_counts_as_none(
    of_workers: tuple[Mapping[str, Said], int],
) -> None:
    assert of_workers[1] == STEPS


def test_without_deepspeed_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "deepspeed", None)
    for name in ("DS_ACCELERATOR", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    with pytest.raises(NoDeepSpeed, match=r"needs DeepSpeed, which is not installed here \("):
        sharded._deepspeed("cpu")
