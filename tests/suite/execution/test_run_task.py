"""Tests for `run_task`, which trains and scores a module without an ablation."""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable, Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import bakeoff
from bakeoff.models.interface import ANSWERS, Outputs
from bakeoff.suite.errors import Diverged
from bakeoff.suite.execution.run_task import ModuleError, TaskResult
from bakeoff.suite.schema import Point, Training
from bakeoff.suite.spec import Recipe, Scale
from bakeoff.suite.tasks.bases.generated import GeneratedTask
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.emoji.emoji_pairs import EmojiPairs
from bakeoff.suite.tasks.registry import TASKS, task_class
from bakeoff.suite.tasks.task import Batch, TaskError
from bakeoff.suite.training.loop import Exercise
from tests.suite.writers import GruPair


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class Linear(nn.Module):
    """A linear map of flattened images: 10 x 785 parameters."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(784, 10)
        self.factor = factor

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.map(inputs.flatten(1))
        return logits * self.factor


def run(module: nn.Module, **changes: object) -> object:
    wanted = {"task": "fashion_mnist_patches", "steps": 40, "batch": 100, "learning_rate": 1e-2}
    return bakeoff.run_task(module, **(wanted | changes))  # type: ignore[arg-type]


def test_a_linear_map_learns_the_clothes() -> None:
    found = bakeoff.run_task(
        Linear(), task="fashion_mnist_patches", steps=60, batch=100, learning_rate=1e-2
    )
    assert (found.metric, found.unit) == ("accuracy", "1")
    assert 0.7 < found.value < 0.9
    assert found.num_parameters == 10 * 785
    assert found.seconds > 0
    losses = [point.value for point in found.points if point.metric == "training_loss"]
    assert losses[-1] < losses[0] / 2
    assert {point.flops for point in found.points} == {None}
    assert [p.step for p in found.points if p.metric == "validation_accuracy"][-1] == 60


def test_the_module_is_trained_in_place_and_the_same_seed_gives_the_same() -> None:
    first, second = Linear(), Linear()
    before = first.map.weight.detach().clone()
    assert run(first).value == run(second).value  # type: ignore[attr-defined]
    assert torch.equal(first.map.weight, second.map.weight)
    assert not torch.equal(first.map.weight, before)
    other = Linear()
    run(other, seed=1)
    assert not torch.equal(other.map.weight, first.map.weight)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_it_shows_how_far_it_is_unless_told_otherwise(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(Linear(), progress=False)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    run(Linear())
    said = capsys.readouterr().err
    lines = said.split("\r")[1:] if is_terminal else said.splitlines()
    assert len(lines) == (48 if is_terminal else 8)
    assert lines[-1].startswith("fashion_mnist_patches: step 40 of 40, validation_accuracy 0.")


def test_a_language_model_takes_the_length_that_is_asked_for() -> None:
    lengths = set()

    class Bigram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(81, 81)

        def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
            lengths.add(inputs.shape[1])
            logits: Tensor = self.table(inputs)
            return logits

    found = bakeoff.run_task(
        Bigram(), task="shakespeare_characters", steps=30, length=256, batch=64, learning_rate=0.3
    )
    assert lengths == {256}
    assert found.metric == "bits_per_character"
    assert found.value < 4.5  # a uniform guess is log2(81) = 6.3


@pytest.mark.parametrize("steps", [1, 5, 60, 300, 900])
def test_it_trains_as_an_ablation_with_the_same_scale(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a user's module trains with the defaults of an ablation."""
    seen: list[Training] = []

    def noted(module: nn.Module, exercise: Exercise, device: str) -> Iterator[Point]:
        seen.append(exercise.training)
        return iter(())

    monkeypatch.setattr("bakeoff.suite.execution.run_task.train", noted)
    run(Linear(), steps=steps)
    scale = Scale(dim=8, depth=1, length=49, steps=steps, batch=100, learning_rate=1e-2)
    wanted = {field.name: getattr(scale, field.name) for field in fields(Training)}
    assert seen == [Training(**wanted)]


@pytest.mark.parametrize(
    ("module", "changes", "why"),
    [
        (Linear(), {"steps": -1}, "run_task: steps=-1"),
        (Linear(), {"learning_rate": "1e-2"}, "run_task: learning_rate='1e-2'"),
        (Linear(), {"learning_rate": "tuned"}, "run_task: learning_rate='tuned' must be a number"),
        (Linear(), {"seed": 0.5}, "seed=0.5"),
        (Linear, {}, "Linear is a class"),
        (Linear().forward, {}, "not of type method"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    module: nn.Module, changes: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        run(module, **changes)


class Named(NamedTuple):
    """The outputs of a model of another library."""

    logits: Tensor
    hidden: Tensor


@pytest.mark.parametrize(
    "wrap",
    [
        lambda logits: {"loss": None, "logits": logits},
        lambda logits: (logits, logits.new_zeros(3)),
        lambda logits: Named(logits, logits),
        lambda logits: SimpleNamespace(logits=logits),
        lambda logits: Outputs(logits),
    ],
    ids=["dict", "tuple", "named", "object", "ours"],
)
def test_logits_are_found_in_what_a_module_returns(wrap: Callable[[Tensor], object]) -> None:
    class Wrapped(Linear):
        def forward(self, inputs: Tensor) -> object:  # type: ignore[override]
            return wrap(super().forward(inputs))

    torch.manual_seed(0)
    plain, wrapped = Linear(), Wrapped()
    wrapped.load_state_dict(plain.state_dict())
    found = [run(module, steps=2).value for module in (plain, wrapped)]  # type: ignore[attr-defined]
    assert found[0] == found[1]


def test_no_steps_score_a_trained_module_as_it_is() -> None:
    module = Linear()
    trained = run(module)
    before = module.map.weight.detach().clone()
    scored = run(module.requires_grad_(requires_grad=False), steps=0)
    assert scored.value == trained.value  # type: ignore[attr-defined]
    assert scored.points == ()  # type: ignore[attr-defined]
    assert torch.equal(module.map.weight, before)


class Nothing(Linear):
    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return None  # type: ignore[return-value]


class Detached(Linear):
    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(inputs).detach()


class Rounded(Linear):
    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(inputs).long()


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (
            Linear().requires_grad_(requires_grad=False),
            r"Linear cannot be trained: all its parameters are frozen; steps=0 scores it as it is",
        ),
        (nn.Identity(), r"Identity cannot be trained: it has no parameters"),
        (Linear().to("meta"), r"Linear is on the device meta, where tensors have no values"),
        (Linear().double(), r"its parameters are torch.float64, and module.float\(\) makes them"),
        (Linear().half(), r"its parameters are torch.float16, and module.float\(\) makes them"),
        (Nothing(), r"Nothing returns None; fashion_mnist_patches needs logits"),
        (Rounded(), r"Rounded returns torch.int64 of shape"),
        (Detached(), r"Detached cannot be trained and scored on fashion_mnist_patches: Runtime"),
    ],
    ids=["frozen", "empty", "meta", "float64", "half", "none", "integers", "detached"],
)
def test_a_module_that_cannot_be_trained_is_one_sentence(module: nn.Module, sentence: str) -> None:
    with pytest.raises(ModuleError, match=sentence) as refused:
        run(module)
    assert "\n" not in str(refused.value)


def test_one_step_is_enough() -> None:
    assert len(run(Linear(), steps=1).points) == 2  # type: ignore[attr-defined]


def test_a_loss_that_is_no_number_is_said() -> None:
    with pytest.raises(Diverged, match="training loss is nan"):
        run(Linear(factor=math.nan))


def test_a_length_that_the_task_cannot_have_is_refused() -> None:
    with pytest.raises(TaskError, match="length must be 49, not 64"):
        run(Linear(), length=64)


def test_a_task_with_parts_is_scored_by_part() -> None:
    found = bakeoff.run_task(Symbols(256), task="mqar_small", steps=1)
    assert list(found.parts) == ["pairs=4", "pairs=8"]
    low, high = sorted(found.parts.values())
    assert low <= found.value <= high
    assert run(Linear(), steps=1).parts == {}  # type: ignore[attr-defined]


class Symbols(nn.Module):
    """A table with a row of logits per token; by default one logit per symbol."""

    def __init__(self, num_symbols: int, num_logits: int | None = None) -> None:
        super().__init__()
        self.table = nn.Embedding(num_symbols, num_logits or num_symbols)

    def forward(self, inputs: Tensor) -> object:
        return self.table(inputs)


class Pooled(Symbols):
    """One row of logits for the whole sequence."""

    def forward(self, inputs: Tensor) -> object:
        return self.table(inputs).mean(dim=1)


class Recurrent(nn.Module):
    """A GRU whose output wrongly includes its state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(16, 10, batch_first=True)

    def forward(self, inputs: Tensor) -> object:
        return self.gru(inputs)


@pytest.mark.parametrize(
    ("module", "task", "sentence"),
    [
        (
            Symbols(256, 7),
            "mqar_small",
            "the module Symbols returns torch.float32 of shape [16, 64, 7]; mqar_small needs logits"
            " of shape [16, 64, 256], [batch, time, symbols]",
        ),
        (
            Symbols(128, 38),
            "shakespeare_plays",
            "the module Symbols returns torch.float32 of shape [16, 64, 38]; shakespeare_plays"
            " needs logits of shape [16, 38], [batch, classes]",
        ),
        (
            Recurrent(),
            "fashion_mnist_patches",
            "the module Recurrent returns torch.float32 of shape [16, 49, 10];"
            " fashion_mnist_patches needs logits of shape [16, 10], [batch, classes]",
        ),
        (
            Symbols(100),
            "mqar_small",
            "the module Symbols cannot be called with a batch of mqar_small, integers of 0 to 255,"
            " shape [16, 64]: IndexError: index out of range in self",
        ),
        (
            Pooled(16, 10),
            "listops",
            "the module Pooled must take mask=, [batch, time], True at real tokens: the sequences "
            "of listops differ in length and are padded",
        ),
    ],
    ids=["width", "sequence", "tuple", "symbols", "mask"],
)
def test_a_module_that_does_not_suit_is_one_sentence(
    module: nn.Module, task: str, sentence: str
) -> None:
    with pytest.raises(ModuleError) as refused:
        bakeoff.run_task(module, task=task)
    assert str(refused.value) == sentence


@pytest.mark.whole
def test_a_module_with_a_source_writes_by_itself() -> None:
    found = bakeoff.run_task(
        GruPair(64), task="reversal", length=3, steps=200, batch=64, learning_rate=1e-2
    )
    assert (found.metric, found.unit) == ("exact_match", "1")
    assert list(found.parts) == ["digits=1", "digits=2"]
    assert found.value > 0.95


class NoSource(GruPair):
    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.head(self.embedding(inputs))


class NoMask(GruPair):
    def forward(self, inputs: Tensor, mask: Tensor, context: Tensor) -> Tensor:  # type: ignore[override]
        return self.head(self.embedding(inputs))


class NoSteps(GruPair):
    step = encode = None  # type: ignore[assignment]


class WrongState(GruPair):
    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        raise TypeError("no state")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            NoSource,
            "the module NoSource must take context=, integers of shape [16, 63]: reversal has more"
            " than one input",
        ),
        (
            NoMask,
            "the module NoMask must take context_mask=, [batch, time], True at real tokens: the "
            "sequences of reversal differ in length and are padded",
        ),
        (
            NoSteps,
            "the module NoSteps must have encode and step: exact_match of reversal judges what it"
            " writes by itself; bakeoff.models.decoding.Writer describes them",
        ),
        (
            WrongState,
            "the module WrongState cannot be called with a batch of reversal, integers of 0 to 12,"
            " shape [16, 64]: TypeError: no state",
        ),
    ],
)
def test_a_module_that_cannot_serve_a_source_is_one_sentence(
    kind: type[GruPair], sentence: str
) -> None:
    with pytest.raises(ModuleError) as refused:
        bakeoff.run_task(kind(8), task="reversal")
    assert str(refused.value) == sentence


@pytest.mark.whole
def test_the_examples_of_the_documentation_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one example for each interface that a task can require, on few examples."""
    monkeypatch.setattr(GeneratedTask, "num_held_out", {"validation": 4, "test": 8})
    monkeypatch.setitem(TASKS, "same_first", f"{__name__}:SameFirst")
    asked: set[str] = set()
    trained = bakeoff.run_task

    def noted(module: nn.Module, *, task: str, **settings: Any) -> TaskResult:
        asked.add(task_class(task).asks_for)
        return trained(module, task=task, **settings)

    monkeypatch.setattr(bakeoff, "run_task", noted)
    runner = doctest.DocTestRunner()
    (examples,) = doctest.DocTestFinder().find(trained, "run_task", globs={})
    assert not runner.run(examples, clear_globs=False).failed
    pair = bakeoff.run_task(examples.globs["Difference"](), task="same_first", length=4, steps=2)
    assert pair.metric == "accuracy"
    monkeypatch.setattr(EmojiPairs, "num_held_out", {"validation": 20, "test": 40})
    choice = bakeoff.run_task(Towers(), task="emoji_pairs", steps=2, batch=4)
    assert choice.metric == "recall_at_1"
    words = nn.Sequential(nn.Embedding(8192, 4), nn.Linear(4, 8192))
    behind = bakeoff.run_task(words, task="definitions_prefix", length=8, steps=2, batch=4)
    assert behind.metric == "bits_per_word"
    picture = bakeoff.run_task(nn.Linear(3, 3), task="emoji_pictures", steps=2, batch=4)
    assert picture.metric == "pixel_error"
    drawn = bakeoff.run_task(Painter(), task="emoji_tokens", steps=2, batch=4)
    assert drawn.metric == "pictures_right"
    acted = bakeoff.run_task(Player(), task="corridor_mixed", length=3, steps=2, batch=4)
    assert (acted.metric, len(acted.parts)) == ("return_got", 4)
    assert list(acted.parts.values())[-1] == acted.value
    assert asked == set(ANSWERS)


class Player(nn.Module):
    """A policy that depends on the state alone."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(10, 3)

    def forward(
        self, inputs: Tensor, actions: Tensor, returns: Tensor, times: Tensor, mask: Tensor
    ) -> Tensor:
        assert inputs.shape[:2] == actions.shape == returns.shape[:2] == times.shape == mask.shape
        logits: Tensor = self.head(inputs)
        return logits


class Painter(nn.Module):
    """A model with two image tokens: the upper and the lower half are black or white."""

    num_image_tokens = 2

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(46, 4)

    def forward(self, inputs: Tensor, mask: Tensor, context: Tensor) -> Outputs:
        halves = context.unflatten(1, (2, 24)).mean(dim=(2, 3, 4))
        tokens = {"image_tokens": (halves > 0).long()}
        read = self.words(inputs.masked_fill(~mask, 0)).mean(dim=1)
        return Outputs(read.unflatten(1, (2, 2)), tokens)

    def draw(self, inputs: Tensor, mask: Tensor, *, chances: Tensor) -> Tensor:
        found = (chances > 0.5).float()[:, :, None, None, None]
        return found.expand(-1, -1, 24, 48, 3).flatten(1, 2)


class Speechless(Painter):
    draw = None  # type: ignore[assignment]


def test_a_module_that_cannot_draw_is_one_sentence() -> None:
    with pytest.raises(ModuleError) as refused:
        bakeoff.run_task(Speechless(), task="emoji_tokens")
    assert str(refused.value) == (
        "the module Speechless must have draw: pictures_right of emoji_tokens judges what it draws "
        "by itself; bakeoff.models.interface describes them"
    )


class Towers(nn.Module):
    """Two towers: a linear map of images, and a table for texts."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.pixels = nn.Embedding(46, 8), nn.Linear(48 * 48 * 3, 8)

    def forward(self, inputs: Tensor, mask: Tensor, context: Tensor) -> Outputs:
        texts = self.words(inputs.masked_fill(~mask, 0)).mean(dim=2)
        image = self.pixels(context.flatten(1))
        vectors = {
            "image_vector": image,
            "text_vector": texts,
            "scale": image.new_ones(len(image)),
        }
        return Outputs(torch.einsum("bd,bcd->bc", image, texts), vectors)


class SameFirst(GeneratedTask):
    """Classify whether two sequences begin with the same symbol."""

    name = "same_first"
    asks_for = "pair"
    input_size, output_size = 16, 2

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        tokens = torch.from_numpy(stream.integers(count, 2, self.length, low=0, high=16))
        targets = (tokens[:, 0, 0] == tokens[:, 1, 0]).long()
        return Batch(inputs={"inputs": tokens}, targets=targets)


RECIPES: list[dict[str, Any]] = [
    {"optimizer": "sgd"},
    {"schedule": "linear"},
    {"clip_norm": 1e-3},
    {"ema": 0.9},
    {"label_smoothing": 0.2},
    {"precision": "bf16"},
    {"weight_decay": 5.0},
    {"learning_rate": 0.1},
]


@pytest.mark.whole
def test_any_recipe_trains_a_module_and_the_default_is_that_of_an_ablation() -> None:
    def weights(**changes: Any) -> bytes:
        module = Linear()
        run(module, steps=8, **{"learning_rate": None, **changes})
        return module.map.weight.detach().numpy().tobytes()

    default = weights()
    assert default == weights(recipe=Recipe()) == weights(learning_rate=1e-3)
    assert len({default, *(weights(recipe=Recipe(**each)) for each in RECIPES)}) == 9
    whole, parts = Linear(), Linear()
    run(whole, steps=8)
    run(parts, steps=8, recipe=Recipe(accumulation=4))
    torch.testing.assert_close(parts.map.weight, whole.map.weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"start": "parity"}, "run_task: start='parity' needs an ablation"),
        ({"precision": "tf32"}, "run_task: precision='tf32' needs a GPU"),
        ({"learning_rate": "tuned"}, "run_task: learning_rate='tuned' must be a number"),
        ({"mixup": 0.8}, "run_task: mixup=0.8 is impossible: the input of .* is not one image"),
    ],
)
def test_a_recipe_that_needs_more_than_a_module_is_refused(
    fields: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match=why):
        run(Linear(), recipe=Recipe(**fields), learning_rate=None)
    with pytest.raises(ValueError, match="must be a Recipe"):
        run(Linear(), recipe="sgd")


def test_a_module_that_mixes_rows_is_not_trained_in_parts_of_a_batch() -> None:
    def clothes(*between: nn.Module) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 8), *between, nn.Linear(8, 10))

    def trained(module: nn.Module, accumulation: int) -> None:
        recipe = Recipe(accumulation=accumulation)
        run(module, steps=1, batch=16, recipe=recipe)

    norm = clothes(nn.BatchNorm1d(8))
    with pytest.raises(
        ModuleError, match=r"Sequential mixes the rows of a batch in training, .* 4"
    ):
        trained(norm, accumulation=4)
    assert norm[2].num_batches_tracked == 0  # type: ignore[index]
    trained(norm, accumulation=1)
    trained(clothes(nn.LayerNorm(8), nn.Dropout(0.5)), accumulation=4)


def test_a_score_that_is_no_number_is_said() -> None:
    class FailsAtTest(Linear):
        """A module with finite outputs in training and validation, and NaN in the test."""

        num_scored = 0

        def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
            self.num_scored += 0 if self.training else len(inputs)
            return super().forward(inputs) * (math.nan if self.num_scored > 1_100 else 1)

    with pytest.raises(Diverged, match="the test accuracy is nan"):
        run(FailsAtTest(), steps=1)


def test_trying_the_module_moves_nothing() -> None:
    """Check that dropout draws the same numbers afterwards, and stays on."""

    class Dropped(Linear):
        def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
            modes.append(self.training)
            drawn.append(torch.rand(1).item())
            return super().forward(inputs)

    modes: list[bool] = []
    drawn: list[float] = []
    module = Dropped()
    torch.manual_seed(7)
    run(module, steps=1)
    assert modes[:2] == [False, True]
    assert drawn[0] == drawn[1]
