"""Test scheduled sampling: which tokens are replaced, by what, how many, and its errors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bakeoff.suite.planning.plan import plan
from bakeoff.suite.spec import SpecError, vary
from bakeoff.suite.tasks.registry import TASKS, task_class
from bakeoff.suite.tasks.sequence_to_sequence.digits import PADDING, START
from bakeoff.suite.tasks.task import Batch
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.sampling import share_at, why_no_sampling, with_own_answers
from tests.suite.small_ablation import make_ablation
from tests.suite.toy import training
from tests.suite.writers import GruPair, Reversal


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


TASK = Reversal(9)
BATCH = TASK.training_batch(0, 512, 0)


def _sevens(batch: Batch) -> Tensor:
    """Return the output of a model that predicts 7 at even positions and 8 at odd ones."""
    return (7 + torch.arange(batch.targets.shape[1]) % 2).expand(batch.targets.shape)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_as_many_are_replaced_as_declared_and_nothing_else_is(share: float) -> None:
    found = with_own_answers(BATCH, _sevens, share, seed=1, step=5)
    before, after = BATCH.inputs["inputs"], found.inputs["inputs"]
    answers = _sevens(BATCH)
    differs = after != before
    assert torch.equal(after[differs], answers.roll(1, dims=1)[differs]), "of the place before it"
    is_digit = BATCH.inputs["mask"] & (before != START)
    assert not differs[~is_digit].any(), "start symbols and fillers stay"
    could = is_digit & (before != answers.roll(1, dims=1))
    deviation = (share * (1 - share) / int(could.sum())) ** 0.5
    assert differs[could].float().mean().item() == pytest.approx(share, abs=4 * deviation)
    assert torch.equal(found.targets, BATCH.targets)
    for name in ("mask", "context", "context_mask"):
        assert found.inputs[name] is BATCH.inputs[name]
    assert set(before[~is_digit].unique().tolist()) <= {PADDING, START}


def test_the_draw_is_of_seed_and_step_alone() -> None:
    def drawn(seed: int, step: int) -> Tensor:
        torch.manual_seed(seed + 7 * step + 1)
        return with_own_answers(BATCH, _sevens, 0.5, seed=seed, step=step).inputs["inputs"]

    torch.manual_seed(123)
    assert torch.equal(drawn(0, 3), drawn(0, 3))
    assert not torch.equal(drawn(0, 3), drawn(0, 4))
    assert not torch.equal(drawn(0, 3), drawn(1, 3))


def test_the_share_grows_in_a_line_from_nothing() -> None:
    shares = [share_at(step, training(5, scheduled_sampling=0.8)) for step in range(5)]
    assert shares == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    assert share_at(0, training(1, scheduled_sampling=0.8)) == 0.0


def test_the_first_step_is_that_without_and_the_pass_before_leaves_no_trace() -> None:
    class Watched(GruPair):
        def forward(self, inputs: Tensor, **others: Tensor) -> object:  # type: ignore[override]
            called.append((self.training, torch.is_grad_enabled(), inputs))
            return super().forward(inputs, **others)

    called: list[tuple[bool, bool, Tensor]] = []
    model = Watched(8)
    engine = LocalEngine(model, training(2, scheduled_sampling=1.0), "cpu")
    plain = LocalEngine(GruPair(8), training(2), "cpu")
    first = TASK.training_batch(0, 8, 0)
    assert engine.step(first, TASK).item() == plain.step(first, TASK).item()
    assert [(mode, gradient) for mode, gradient, _ in called] == [(True, True)]
    engine.step(TASK.training_batch(1, 8, 0), TASK)
    assert [(mode, gradient) for mode, gradient, _ in called[1:]] == [(False, False), (True, True)]
    assert not torch.equal(called[1][2], called[2][2])


@pytest.mark.parametrize(
    "name",  # the two translations differ only in their texts, which take seconds to read
    [pytest.param(n, marks=pytest.mark.battery) if n == "bible_en_fr" else n for n in TASKS],
)
def test_a_task_that_reads_its_answers_says_so(name: str) -> None:
    kind = task_class(name)
    if kind.asks_for not in ("next_symbols", "sequence"):
        assert not kind.reads_answers
        return
    if kind.source.is_fetched:
        return  # its data are not available
    batch = kind(kind.fixed_length or max(32, kind.lengths[0])).training_batch(0, 16, 0)
    is_real = batch.inputs.get("mask", torch.ones_like(batch.targets, dtype=torch.bool))
    reads = batch.inputs["inputs"][:, 1:] == batch.targets[:, :-1]
    assert kind.reads_answers == bool(reads[is_real[:, 1:]].all())


def test_where_no_answer_is_read_it_is_refused() -> None:
    assert "parity are not the answers" in why_no_sampling(task_class("parity"))
    axis = vary("scheduled_sampling", [0.0, 0.5])
    for task in ("parity", "mqar_small", "listops", "shakespeare_masked"):
        with pytest.raises(SpecError, match=f"inputs of {task} are not the answers"):
            plan(
                make_ablation(
                    axes=[vary("heads", [4, 2])],
                    tasks=[task],
                    scale={"scheduled_sampling": 0.5, "length": 64},
                )
            )
    planned = plan(make_ablation(axes=[axis]), seeds=1)
    found = {t.training.scheduled_sampling for t in planned.trials if t.training}
    assert found == {0.0, 0.5}
