"""Compare how a model plays with a loop over single episodes, and test the scoring."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bakeoff.models.interface import ACTIONS, INPUTS, RETURNS, TIMES
from bakeoff.suite.probes.probe import task_metric
from bakeoff.suite.probes.quality import Quality
from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.registry import build_task
from bakeoff.suite.tasks.task import Batch
from bakeoff.suite.tasks.worlds import playing
from bakeoff.suite.tasks.worlds.playing import AskedAndGot, ReturnGot, WorldMetric, play
from bakeoff.suite.tasks.worlds.windy_grid import WEST
from bakeoff.suite.tasks.worlds.world import World
from bakeoff.suite.tasks.worlds.world_task import LEVELS, WorldTask
from bakeoff.suite.training.engines.engine import evaluate, evaluate_in_parts, score_batch

LENGTH = 5


class Reader(nn.Module):
    """A model whose answer depends on all inputs, each within its own window."""

    def __init__(self, task: WorldTask) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.states = nn.Linear(task.input_size, task.output_size)
        self.actions = nn.Embedding(task.output_size, task.output_size)
        self.states.bias.data = torch.tensor([-0.3, 1.0, 0.4, 0.2])[: task.output_size]
        self.shapes: list[int] = []

    def forward(
        self, inputs: Tensor, actions: Tensor, returns: Tensor, times: Tensor, mask: Tensor
    ) -> Tensor:
        assert mask.all()
        self.shapes.append(inputs.shape[1])
        known = self.actions(actions).roll(1, dims=1)
        known[:, 0] = 0
        turns = 2 * torch.arange(known.shape[-1])
        found = self.states(inputs) + known + torch.sin(9 * returns + times[..., None] / 2 + turns)
        logits: Tensor = found + 0.05 * found.cumsum(dim=1)
        return logits


def task_of(world: str, length: int = LENGTH) -> WorldTask:
    found = build_task(f"{world}_mixed", length)
    assert isinstance(found, WorldTask)
    return found


def by_hand(model: nn.Module, task: WorldTask, batch: Batch, row: int) -> float:
    """Return the return of one episode by Algorithm 1."""
    world, chances = task.world, batch.chances[row : row + 1].numpy()
    asked = [float(batch.inputs[RETURNS][row, 0, 0])]
    situation, total = world.start(chances[:, 0]), 0.0
    states, actions = [], []
    for time in range(world.limit):
        states.append(world.seen(situation)[0])
        kept = range(max(0, time + 1 - task.length), time + 1)
        logits = model(
            torch.tensor(np.array([[states[t] for t in kept]])),
            torch.tensor([[*actions, 0][t] for t in kept])[None],
            torch.tensor([[[asked[t]] for t in kept]]),
            torch.tensor([list(kept)]),
            torch.ones(1, len(kept)).bool(),
        )[0, -1]
        action = int(logits.argmax())
        situation, rewards, ended = world.step(
            situation, np.array([action]), time, chances[:, time + 1]
        )
        actions.append(action)
        total += float(rewards[0])
        asked.append(asked[-1] - float(rewards[0]))
        if ended[0]:
            break
    return total


@pytest.mark.parametrize("world", ["corridor", "windy_grid", "cart_pole"])
@torch.no_grad()
def test_playing_is_a_loop_over_episodes(world: str) -> None:
    task = task_of(world)
    model, batch = Reader(task), next(task.held_out("test", 12))
    found = play(model, task.world, batch)
    wanted = [by_hand(model, task, batch, row) for row in range(12)]
    assert found.tolist() == pytest.approx(wanted, abs=1e-6)
    assert len(set(found.tolist())) > 1 or world == "corridor"  # this model does not solve it


@torch.no_grad()
def test_a_window_is_never_longer_than_in_training() -> None:
    task = task_of("corridor")
    model = Reader(task)
    play(model, task.world, next(task.held_out("validation", 3)))
    assert model.shapes[:7] == [1, 2, 3, 4, 5, 5, 5]


class Noted(Reader):
    """A `Reader` that stores its inputs."""

    def forward(self, inputs: Tensor, **others: Tensor) -> Tensor:  # type: ignore[override]
        self.given = {INPUTS: inputs, **others}
        self.asked = [*getattr(self, "asked", []), others[RETURNS][0, :, 0].tolist()]
        return super().forward(inputs, **others)


@torch.no_grad()
def test_what_was_got_is_asked_for_no_more() -> None:
    """Use the grid, where each step costs 0.01, so that the remaining return grows."""
    task = task_of("windy_grid")
    model, batch = Noted(task), next(task.held_out("test", 1))
    model.states.bias.data[WEST] = 99.0  # stays at the left edge
    play(model, task.world, batch)
    first = float(batch.inputs[RETURNS][0, 0, 0])
    assert model.asked[3] == pytest.approx([first, first + 0.01, first + 0.02, first + 0.03])
    assert model.given[TIMES].shape == model.given[ACTIONS].shape


def scored(batch_size: int, metric: WorldMetric, kind: type[Reader] = Reader) -> float:
    task = task_of("windy_grid")
    return evaluate(kind(task), task, "test", batch_size, "cpu", metric)


@pytest.mark.parametrize("which", [0, 1])
def test_scores_add_up_whatever_the_batch(which: int) -> None:
    task = task_of("windy_grid")
    metric = (task.metric, *task.also_scored)[which]
    assert isinstance(metric, WorldMetric)
    assert scored(7, metric) == pytest.approx(scored(128, metric), rel=1e-9)


@torch.no_grad()
def test_the_score_is_of_the_best_return_asked_for_and_each_part_of_its_own() -> None:
    task = task_of("windy_grid")
    model = Reader(task)
    found = evaluate_in_parts(model, task, "test", 100, "cpu")
    whole = joined(list(task.held_out("test", 512)))
    got = play(model, task.world, whole).view(-1, len(LEVELS))
    assert [*found] == ["", *task.parts()]
    assert found[""] == found[task.parts()[-1]] == pytest.approx(got[:, -1].mean().item())
    for column, part in enumerate(task.parts()):
        assert found[part] == pytest.approx(got[:, column].mean().item())


@pytest.mark.parametrize("world", ["corridor", "windy_grid", "cart_pole"])
def test_parts_are_named_by_exactly_what_is_asked_for(world: str) -> None:
    task = task_of(world)
    asked = next(task.held_out("test", len(LEVELS))).inputs[RETURNS][:, 0, 0]
    named = [float(part.removeprefix("asked=")) for part in task.parts()]
    assert asked.tolist() == torch.tensor(named).tolist()
    assert named == sorted(set(named))


def test_what_is_asked_for_is_to_be_met_and_not_to_be_surpassed() -> None:
    task = task_of("windy_grid")
    better = {spec.at: spec.better for spec in Quality().metrics(type(task), LENGTH)}
    assert {at: better.pop(at) for at in task.parts()} == dict.fromkeys(task.parts(), "none")
    assert better == {"": "higher"}
    assert task_metric(type(task), "length=9").better == "higher"


def test_all_metrics_are_of_the_same_episodes_which_are_played_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = task_of("windy_grid")
    model, (other,) = Reader(task), task.also_scored
    apart = evaluate_in_parts(model, task, "test", 100, "cpu")
    apart |= {other.name: evaluate(model, task, "test", 100, "cpu", other)}
    times: list[int] = []

    def noted(model: nn.Module, world: World, batch: Batch) -> Tensor:
        times.append(len(batch.targets))
        return play(model, world, batch)

    monkeypatch.setattr(playing, "play", noted)
    assert evaluate_in_parts(model, task, "test", 100, "cpu", [other]) == apart
    assert times == [100, 100, 56]


def test_the_correlation_is_pearsons() -> None:
    task = task_of("corridor")
    metric = AskedAndGot(world=task.world)
    batch = next(task.held_out("test", 40))
    got = torch.randn(40, generator=torch.Generator().manual_seed(0)).double()
    asked = batch.inputs[RETURNS][:, 0, 0].double()
    wanted = np.corrcoef(asked.numpy(), got.numpy())[0, 1]
    assert metric.value(metric.sums_of(got, batch)) == pytest.approx(wanted, rel=1e-6)
    assert metric.value(metric.sums_of(2 * asked - 1, batch)) == pytest.approx(1)
    assert metric.value(metric.sums_of(torch.ones(40), batch)) == 0


def test_who_reads_no_return_has_no_correlation() -> None:
    task = task_of("windy_grid")

    class Blind(Reader):
        def forward(self, inputs: Tensor, **others: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(inputs, **{**others, RETURNS: torch.zeros_like(others[RETURNS])})

    assert scored(512, AskedAndGot(world=task.world), Blind) == pytest.approx(0, abs=1e-6)


@torch.no_grad()
def test_a_probability_that_is_no_number_is_no_return() -> None:
    task = task_of("corridor")
    model, batch = Reader(task), next(task.held_out("test", 4))
    model.states.bias.data[1] = torch.nan
    metric = task.metric
    assert isinstance(metric, ReturnGot)
    value = metric.value(score_batch(model, metric, batch)(batch))
    assert value != value
