"""Check that training steps of every model, task and recipe can be captured in a CUDA graph.

They run on the device "meta", which computes nothing: an operation that reads a number or has a
data-dependent shape fails, as during a capture on a GPU. `why_eager`, which recording calls first,
names the steps that are not captured by design.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import (
    ARCHITECTURES,
    MIXERS,
    ModelSpec,
    architecture_class,
    build_model,
    mixer_class,
)
from bakeoff.models.interface import INPUTS, Interface
from bakeoff.suite.planning.loader import shipped
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.probe import exercise, initial_model
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.bases.generated import GeneratedTask
from bakeoff.suite.tasks.bases.labelled_data import LabelledData, examples_of
from bakeoff.suite.tasks.pretraining.corpora import FIRST_WORD, Passages
from bakeoff.suite.tasks.pretraining.labelled import GlossesInWords, PlaysInWords, ReviewsInWords
from bakeoff.suite.tasks.pretraining.windows import TextsWithoutLabels
from bakeoff.suite.tasks.registry import TASKS, build_task, task_class
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.training.augmentation import training_batch
from bakeoff.suite.training.engines.capturable import (
    NotCapturable,
    refusing_what_no_graph_holds,
    why_not_captured,
)
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.recording import why_eager
from tests.models.small_models import LENGTH, SYMBOLS, inputs, is_built, spec
from tests.suite.toy import FirstToken, training

META, ROWS, DIM = "meta", 2, 16
CHEAP = {"optimizer": "sgd"}  # the fewest operations; the recipes below cover the others
AT_HAND = sorted(  # tasks with generated data come first, since they cost least
    (name for name in TASKS if not task_class(name).source.is_fetched),
    key=lambda name: not issubclass(task_class(name), GeneratedTask),
)


@pytest.fixture(autouse=True)
def _autocast_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable autocast on the meta device, which torch's autocast does not support."""
    real = torch.autocast

    def autocast(device_type: str, *others: Any, **named: Any) -> Any:
        return nullcontext() if device_type == META else real(device_type, *others, **named)

    monkeypatch.setattr(torch, "autocast", autocast)


def take_a_step(
    model: nn.Module,
    asked: Training,
    task: Task,
    batch: Batch,
    teacher: nn.Module | None = None,
    *,
    is_watched: bool = False,
) -> None:
    """Fail if a graph cannot hold the step, unless `why_eager` predicts that it runs eagerly.

    The device itself refuses to return numbers. With `is_watched`, copies to the device are also
    detected, which takes several times as long.
    """
    if not any(why_eager(each, asked) for each in (model, teacher) if each is not None):
        engine = LocalEngine(model, asked, META, teacher=teacher)
        own = batch.to(META)
        with refusing_what_no_graph_holds(META) if is_watched else nullcontext():
            engine._update(own, task)


class Tagging(FirstToken):
    """A task with a target symbol at each position."""

    loss = Task.loss


# By default mixers of several kinds; the others in the battery.
BY_DEFAULT = ("attention", "gru", "fnet", "linear_transformer", "lsh_attention", "mamba2")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.battery] * (n not in BY_DEFAULT)) for n in MIXERS]
)
@pytest.mark.parametrize("is_padded", [pytest.param(False, marks=pytest.mark.battery), True])
def test_a_step_of_every_mixer(name: str, is_padded: bool) -> None:
    is_causal = mixer_class(name).supports_causal
    asked = spec("language_model" if is_causal else "tagger", name, dim=DIM, depth=1)
    tokens = inputs(asked, ROWS, 6)
    given = {INPUTS: tokens, "mask": torch.ones_like(tokens).bool()}
    if not is_padded:
        given.pop("mask")
    task = Tagging(LENGTH)
    take_a_step(build_model(asked), training(1, **CHEAP), task, Batch(inputs=given, targets=tokens))


def interface_of(task: type[Task]) -> Interface:
    return task.interface(task.fixed_length or max(10, task.lengths[0]))


def served(architecture: str, task: type[Task]) -> ModelSpec:
    """Return a model for the task, with smaller patches where the usual ones do not fit."""
    kind, interface = architecture_class(architecture), interface_of(task)
    first = interface.inputs[INPUTS]
    parts = {"mixer": "attention", "position": "learned", "dim": DIM, "depth": 1}
    asked = ModelSpec(
        architecture=architecture,
        length=first.length,
        input_kind=first.kind,
        grid=first.grid,
        input_size=first.size,
        output_size=interface.output_size,
        others={name: each for name, each in interface.inputs.items() if name != INPUTS},
        **{name: part for name, part in parts.items() if name in kind.takes},
    )
    return asked if is_built(asked) else replace(asked, settings={"patch": 2})


def pairs() -> list[Any]:
    """Return each task with its own architecture, then each other architecture with a task.

    Tasks of one architecture with equal losses have equal steps but for their inputs; only one of
    them is tested by default.
    """
    found, alike = [], set()
    for name in AT_HAND:
        task = task_class(name)
        key = (task.architecture, task.loss)
        marks = [pytest.mark.battery] if key in alike else []
        found.append(pytest.param(task.architecture, name, marks=marks))
        alike.add(key)
    own = {task_class(name).architecture for name in AT_HAND}
    for name in (name for name in ARCHITECTURES if name not in own):
        kind = architecture_class(name)
        fitting = (t for t in AT_HAND if not kind.why_not(interface_of(task_class(t))))
        found += [pytest.param(name, task) for task in fitting][:1]
    return found


@pytest.fixture
def _little_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace corpora that take seconds to read, since a step depends on shapes only."""
    words = np.arange(FIRST_WORD, FIRST_WORD + 200)
    passages = Passages(symbols=words, starts=np.arange(0, 100, 10))
    monkeypatch.setattr(TextsWithoutLabels, "_passages", lambda task, part: passages)
    examples = examples_of([words[:length] for length in (3, 6, 12, 24)], [0, 1, 0, 1])
    data = LabelledData(training=examples, held_out={})
    for kind in (GlossesInWords, PlaysInWords, ReviewsInWords):
        monkeypatch.setattr(kind, "data", staticmethod(lambda: data))


@pytest.mark.usefixtures("_little_text")
@pytest.mark.parametrize(("architecture", "name"), pairs())
def test_a_step_of_every_architecture_and_task(architecture: str, name: str) -> None:
    asked = served(architecture, task_class(name))
    task = build_task(name, asked.length)
    take_a_step(build_model(asked), training(1, **CHEAP), task, task.training_batch(0, ROWS, 0))


RECIPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bf16": {"precision": "bf16"},
    "sgd": {"optimizer": "sgd", "momentum": 0.9},
    "smoothed": {"label_smoothing": 0.1, "clip_norm": None},
    "mixed": {"mixup": 0.8, "cutmix": 1.0, "label_smoothing": 0.1},
    "augmented": {
        "flip": True,
        "crop": 4,
        "randaugment": 9.0,
        "erasing": 0.25,
        "repeated_augmentation": 2,
    },
    "averaged": {"ema": 0.9},
    "in parts": {"accumulation": 2},
    "adversarial": {"adversarial_steps": 3},
    "adafactor": {"optimizer": "adafactor"},
    "soft teacher": {"distillation": "soft", "distillation_temperature": 3.0},
    "hard teacher": {"distillation": "hard", "mixup": 0.8},
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_step_of_every_recipe(recipe: str) -> None:
    settings = RECIPES[recipe]
    asked = served("vit", task_class("fashion_mnist_images"))
    task = build_task("fashion_mnist_images", asked.length)
    made = training(1, **settings)
    teacher = build_model(asked) if "distillation" in settings else None
    batch = training_batch(task, 0, ROWS, 0, made)
    take_a_step(build_model(asked), made, task, batch, teacher, is_watched=True)


@pytest.mark.battery
@pytest.mark.parametrize("ablation", shipped())
def test_a_step_of_every_shipped_training(ablation: str) -> None:
    done = set()
    for trial in plan(ablation, scale="smoke").trials:
        key = (trial.subjects[:1], trial.task, trial.settled_training, trial.teacher is None)
        if trial.training is None or trial.parallel or not trial.subjects or key in done:
            continue
        done.add(key)
        teacher = initial_model(trial.teacher) if trial.teacher else None
        model = initial_model(trial)
        todo = exercise(trial, model, teacher)
        batch = training_batch(todo.task, 0, max(ROWS, trial.batch // 16), 0, todo.training)
        take_a_step(model, todo.training, todo.task, batch, teacher, is_watched=True)


class Mean(nn.Module):
    """Logits plus a term that a given function computes from them."""

    def __init__(self, added: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.added, self.table = added, nn.Embedding(SYMBOLS, SYMBOLS)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.table(inputs).mean(dim=1)
        return logits + self.added(logits)


def on_a_mask(logits: Tensor) -> Tensor:
    """Return a sum over a selection whose shape depends on the data."""
    return logits[logits > 0].sum()


@pytest.mark.parametrize(
    ("added", "why"),
    [
        (lambda logits: logits.sum().item(), "waits for a number"),
        (lambda logits: 1.0 if (logits > 0).any() else 2.0, "waits for a number"),
        (lambda logits: logits.nonzero().sum(), "shape that depends on data"),
        (on_a_mask, "indexes by a mask"),
        (lambda logits: logits.detach().cpu().sum(), "copies between the CPU and the device"),
        (lambda logits: torch.ones(SYMBOLS).to(logits.device), "copies between the CPU"),
        (lambda logits: logits[:, torch.arange(SYMBOLS)], "reads a tensor of the CPU"),
        (lambda logits: logits[:, [0] * SYMBOLS], "copies numbers of Python"),
        (lambda logits: logits[:, np.zeros(SYMBOLS, dtype=int)], "copies between the CPU"),
        (lambda logits: torch.tensor(1.0, device=logits.device), "copies numbers of Python"),
        (lambda logits: logits.new_tensor([1.0]), "copies numbers of Python"),
        (lambda logits: float(torch.rand(())), "draws on the CPU"),
    ],
)
def test_what_a_graph_cannot_hold_is_refused_with_the_reason(
    added: Callable[[Tensor], Any], why: str
) -> None:
    model, tokens = Mean(added).to(META), torch.zeros(2, 3, dtype=torch.long, device=META)
    assert why in why_not_captured(lambda: model(tokens).sum().backward(), META)
    with pytest.raises(NotCapturable), refusing_what_no_graph_holds(META):
        model(tokens)


@pytest.mark.parametrize(
    "added",
    [
        lambda logits: torch.where(logits > 0, logits, 0.0),
        lambda logits: torch.full_like(logits, 2.0),
        lambda logits: nn.functional.dropout(logits, 0.5),
        lambda logits: logits[:, torch.arange(SYMBOLS, device=logits.device)],
        lambda logits: logits * torch.tensor(2.0),  # a scalar tensor acts like a Python number
    ],
)
def test_what_a_graph_holds_is_not_refused(added: Callable[[Tensor], Any]) -> None:
    model, tokens = Mean(added).to(META), torch.zeros(2, 3, dtype=torch.long, device=META)
    assert why_not_captured(lambda: model(tokens).sum().backward(), META) == ""


def test_an_error_of_the_step_itself_is_left_to_it() -> None:
    def step() -> None:
        raise ValueError("a mistake")

    assert why_not_captured(step, META) == ""
