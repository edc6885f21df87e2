"""Test image augmentations: random numbers, sources, order, errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bakeoff.models.interface import INPUTS
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Point
from bakeoff.suite.spec import Model, Recipe, Scale, SpecError, vary
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.registry import TASKS, task_class
from bakeoff.suite.tasks.task import Batch
from bakeoff.suite.training.augmentation import (
    AUGMENTATIONS,
    cropped,
    erased,
    stream_of,
    training_batch,
    why_not_augmented,
)
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.loop import Exercise, train
from tests.suite.small_ablation import make_ablation
from tests.suite.toy import training
from tests.suite.training.resumed import STEPS, STOP, Clock, checkpointer_in, run
from tests.suite.training.toy_images import CHANNELS, FlatReader, Images


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


DEIT: dict[str, Any] = {
    "flip": True,
    "crop": 2,
    "randaugment": 9.0,
    "erasing": 0.25,
    "mixup": 0.8,
    "cutmix": 1.0,
    "repeated_augmentation": 2,
    "label_smoothing": 0.1,
}
EACH: list[dict[str, Any]] = [{name: DEIT[name]} for name in AUGMENTATIONS]
TASK = Images(lambda step: None)


def _batch(step: int = 3, batch: int = 12, seed: int = 1, **recipe: Any) -> Batch:
    return training_batch(TASK, step, batch, seed, training(9, **recipe))


def _images(**changes: Any) -> Tensor:
    return _batch(**changes).inputs[INPUTS]


def _erased(count: int, chance: float, rows: int = 32, columns: int = 32) -> Tensor:
    """Return `[count, rows, columns, 3]`, zero where nothing is erased."""
    return erased(torch.zeros(count, rows, columns, 3), chance, RandomStream(0, 0))


def test_as_many_images_are_erased_as_declared() -> None:
    for chance in (0.25, 1.0):
        is_erased = (_erased(2_000, chance) != 0).flatten(1).any(dim=1)
        assert is_erased.float().mean().item() == pytest.approx(chance, abs=0.04 * (chance < 1))
    assert not _erased(100, 0.0).any()


def test_a_rectangle_of_the_papers_sizes_is_erased_and_lies_anywhere() -> None:
    rows, columns = 40, 30
    is_noise = (_erased(1_000, 1.0, rows, columns) != 0).all(dim=3)
    shares, ratios, tops = [], [], []
    for image in is_noise:
        height, width = int(image.any(dim=1).sum()), int(image.any(dim=0).sum())
        assert int(image.sum()) == height * width, "a rectangle"
        shares.append(height * width / (rows * columns))
        ratios.append(height / width)
        tops.append(int(image.any(dim=1).int().argmax()) / (rows - height))
    assert 0.015 < min(shares) < 0.03, "2 %, up to whole pixels"
    assert 0.3 < max(shares) < 0.36, "a third"
    assert np.mean(shares) == pytest.approx((0.02 + 1 / 3) / 2, abs=0.02)
    assert 0.25 < min(ratios) < 0.35
    assert 2.8 < max(ratios) < 4.0
    assert np.median(ratios) == pytest.approx(1.0, abs=0.15)
    assert np.mean(tops) == pytest.approx(0.5, abs=0.04)
    assert (min(tops), max(tops)) == (0.0, 1.0)


def test_what_is_erased_is_normal_noise_of_each_pixel_and_channel() -> None:
    noise = _erased(300, 1.0)
    found = noise[noise != 0]
    assert found.mean().item() == pytest.approx(0.0, abs=0.01)
    assert found.std().item() == pytest.approx(1.0, abs=0.01)
    assert len(found.unique()) > 0.99 * len(found)


def test_it_is_erased_after_normalising() -> None:
    """Check that the noise has deviation 1 in units of the model's input, for any data."""
    before = _images(batch=600, randaugment=9.0)
    after = _images(batch=600, randaugment=9.0, erasing=1.0)
    is_noise = ((after - before).abs() > 1e-4).all(dim=3)
    assert after[is_noise].std(dim=0).tolist() == pytest.approx([1.0] * 3, abs=0.03)
    assert after[is_noise].mean(dim=0).tolist() == pytest.approx([0.0] * 3, abs=0.03)


def test_each_crop_lies_in_a_black_frame_and_every_place_comes() -> None:
    border, count = 2, 2_000
    images = torch.randn(count, 4, 5, CHANNELS, generator=torch.Generator().manual_seed(0))
    black = torch.tensor([-2.5, -1.6, -1.0])
    found = cropped(images, border, black, RandomStream(0, 0))
    places = np.zeros((5, 5))
    for own, image in zip(found, images, strict=True):
        framed = black.repeat(8, 9, 1)
        framed[2:6, 2:7] = image
        fits = [
            (i, j)
            for i in range(5)
            for j in range(5)
            if torch.equal(framed[i : i + 4, j : j + 5], own)
        ]
        assert len(fits) == 1
        places[fits[0]] += 1 / count
    assert places == pytest.approx(np.full((5, 5), 1 / 25), abs=0.02)


def test_black_is_the_pixel_of_value_zero() -> None:
    class Bright(Images):
        def training_batch(self, step: int, batch: int, seed: int) -> Batch:
            found = super().training_batch(step, batch, seed)
            return found.map(lambda tensor: torch.ones_like(tensor))

    found = training_batch(Bright(lambda step: None), 0, 50, 0, training(9, crop=8))
    corner = found.inputs[INPUTS].amin(dim=(0, 1, 2))
    wanted = -torch.tensor(Images.pixel_mean) / torch.tensor(Images.pixel_standard_deviation)
    torch.testing.assert_close(corner, wanted)


def test_half_of_the_images_are_mirrored() -> None:
    before, after = _images(batch=400), _images(batch=400, flip=True)
    is_same = (after == before).flatten(1).all(dim=1)
    is_mirror = (after == before.flip(2)).flatten(1).all(dim=1)
    assert bool((is_same ^ is_mirror).all())
    assert is_mirror.float().mean().item() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("recipe", [*EACH, DEIT], ids=str)
def test_all_is_a_pure_function_of_seed_and_step(recipe: dict[str, Any]) -> None:
    def drawn(seed: int, step: int) -> Batch:
        torch.manual_seed(seed + 7 * step + 1)
        np.random.seed(step)
        return _batch(seed=seed, step=step, batch=24, **recipe)

    first, again = drawn(1, 3), drawn(1, 3)
    assert torch.equal(first.inputs[INPUTS], again.inputs[INPUTS])
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs[INPUTS], _images(batch=24)), "it does something"


@pytest.mark.parametrize("name", AUGMENTATIONS[1:])
def test_another_step_and_another_seed_draw_anew(name: str) -> None:
    """Use equal images, so that only the random numbers can differ."""

    class Same(Images):
        def training_batch(self, step: int, batch: int, seed: int) -> Batch:
            return super().training_batch(0, batch, 0)

    task, asked = Same(lambda step: None), training(9, **{name: DEIT[name]})
    drawn = [
        training_batch(task, step, 24, seed, asked).inputs[INPUTS]
        for step, seed in ((3, 1), (4, 1), (3, 2))
    ]
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_each_has_random_numbers_of_its_own() -> None:
    """Check that variants that differ in one augmentation draw equal numbers for the others."""
    clean, noisy = _images(batch=60), _images(batch=60, erasing=0.5)
    flipped, both = _images(batch=60, flip=True), _images(batch=60, flip=True, erasing=0.5)
    assert torch.equal(clean != noisy, flipped != both)
    firsts = {tuple(stream_of(name, 1, 3).uniform(2)) for name in AUGMENTATIONS}
    firsts |= {tuple(stream_of(name, 1, 4).uniform(2)) for name in AUGMENTATIONS}
    assert len(firsts | {tuple(RandomStream(1, 3).uniform(2))}) == 2 * len(AUGMENTATIONS) + 1


def test_a_batch_has_few_images_each_several_times_augmented_anew() -> None:
    few = TASK.training_batch(3, 4, 1)
    found = _batch(repeated_augmentation=3)
    for copy in range(3):
        assert torch.equal(found.inputs[INPUTS][4 * copy : 4 * copy + 4], few.inputs[INPUTS])
        assert torch.equal(found.targets[4 * copy : 4 * copy + 4], few.targets)
    noisy = _images(repeated_augmentation=3, erasing=1.0)
    is_noise = (noisy != found.inputs[INPUTS]).any(dim=3)
    assert all(not torch.equal(is_noise[i], is_noise[i + 4]) for i in range(8))


def test_an_epoch_of_repeated_images_sees_each_as_often_as_it_should() -> None:
    task = task_class("fashion_mnist_images")(784)
    seen = [
        training_batch(task, step, 30, 0, training(9, repeated_augmentation=3)) for step in range(2)
    ]
    plain = task.training_batch(0, 20, 0)
    firsts = torch.cat([each.inputs[INPUTS][:10] for each in seen])
    assert torch.equal(firsts, plain.inputs[INPUTS]), "the next batch goes on after ten images"


def test_without_augmentation_the_batch_is_the_tasks_own() -> None:
    found, own = _batch(), TASK.training_batch(3, 12, 1)
    assert torch.equal(found.inputs[INPUTS], own.inputs[INPUTS])
    assert torch.equal(found.targets, own.targets)


def test_targets_stay_classes_until_they_are_mixed_and_then_sum_to_one() -> None:
    unmixed = {name: value for name, value in DEIT.items() if name not in ("mixup", "cutmix")}
    assert torch.equal(_batch(**unmixed).targets, TASK.training_batch(3, 6, 1).targets.repeat(2))
    targets = _batch(**DEIT).targets
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(12))
    assert targets.min() >= 0


@pytest.mark.parametrize("recipe", [*EACH, DEIT, {"adversarial_steps": 3}], ids=str)
def test_a_resumed_training_ends_with_the_bits_of_an_uninterrupted_one(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    undisturbed = run(FlatReader(), None, kind=Images, recipe=recipe)
    assert undisturbed.states != run(FlatReader(), None, kind=Images).states
    clock = Clock()

    def on_step(num_done: int) -> None:
        if num_done == STOP:
            raise KeyboardInterrupt
        clock.now += num_done >= STOP - 2

    with pytest.raises(KeyboardInterrupt):
        run(FlatReader(), checkpointer_in(tmp_path, clock), on_step, kind=Images, recipe=recipe)
    resumed = run(FlatReader(), checkpointer_in(tmp_path, Clock()), kind=Images, recipe=recipe)
    assert resumed.numbers == undisturbed.numbers
    assert resumed.num_steps == STEPS - STOP


def test_only_training_is_augmented_and_the_teacher_sees_what_its_student_sees() -> None:
    teacher, student = FlatReader(seed=1), FlatReader()
    asked = training(4, num_evaluations=1, distillation="hard", **DEIT)
    engine = LocalEngine(student, asked, "cpu", teacher=teacher)
    for step in range(4):
        engine.step(training_batch(TASK, step, 12, 0, asked), TASK)
    engine.evaluate(TASK, "validation", 12)
    read = [inputs for is_training, inputs in student.read if is_training]
    assert len(read) == len(teacher.read) == 4
    for (is_training, taught), own in zip(teacher.read, read, strict=True):
        assert not is_training
        assert torch.equal(taught, own)
    scored = [inputs for is_training, inputs in student.read if not is_training]
    held_out = [batch.inputs[INPUTS] for batch in TASK.held_out("validation", 12)]
    assert all(map(torch.equal, scored, held_out))


def test_the_loop_trains_on_augmented_batches() -> None:
    model, asked = FlatReader(), training(3, num_evaluations=1, **DEIT)
    points = [*train(model, Exercise(task=TASK, training=asked, batch=12, seed=5), "cpu")]
    assert all(isinstance(point, Point) and math.isfinite(point.value) for point in points)
    read = [inputs for is_training, inputs in model.read if is_training]
    wanted = [training_batch(TASK, step, 12, 5, asked).inputs[INPUTS] for step in range(3)]
    assert all(map(torch.equal, read, wanted))


@pytest.mark.parametrize("name", [n for n in TASKS if task_class(n).input_kind == "image"])
def test_a_task_of_images_says_how_they_were_normalised(name: str) -> None:
    kind = task_class(name)
    if kind.source.is_fetched:
        return  # its data are not available
    task = kind(kind.fixed_length or 0)
    images = task.training_batch(0, 64, 0).inputs[INPUTS]
    assert images.shape[-1] == len(kind.pixel_mean) == len(kind.pixel_standard_deviation)
    pixels = images * torch.tensor(kind.pixel_standard_deviation) + torch.tensor(kind.pixel_mean)
    assert pixels.min().item() == pytest.approx(0.0, abs=0.05)
    assert pixels.max().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("recipe", [*EACH, {"adversarial_steps": 3}], ids=str)
def test_what_is_no_image_or_has_no_class_is_refused(recipe: dict[str, Any]) -> None:
    (name,) = recipe
    with pytest.raises(SpecError, match=f"{name}=.* the input of parity is not one image"):
        plan(make_ablation(tasks=["parity"], scale=recipe))


class Unclear(Images):
    pixel_mean = ()


class Numbered(Images):
    asks_for = "number"


class Deep(Images):
    input_size = 2
    pixel_mean = (0.5, 0.5)


@pytest.mark.parametrize(
    ("task", "recipe", "reason"),
    [
        (Unclear, {"flip": True}, "does not say how its pixels are normalised"),
        (Numbered, {"erasing": 0.5}, "does not ask for the class of an image"),
        (Deep, {"randaugment": 9.0}, "neither grey nor coloured"),
        (Images, {"repeated_augmentation": 5}, "a batch of 12 is not a multiple of it"),
    ],
)
def test_what_cannot_be_augmented_is_one_clause(
    task: type[Images], recipe: dict[str, Any], reason: str
) -> None:
    asked = Recipe(**recipe).in_training()
    assert reason in why_not_augmented(task, asked, 12)
    assert not why_not_augmented(task, Recipe().in_training(), 12)


@pytest.mark.parametrize(
    "fields",
    [
        {"mixup": -0.1},
        {"cutmix": math.nan},
        {"erasing": 1.5},
        {"randaugment": 11.0},
        {"repeated_augmentation": 0},
        {"crop": -1},
        {"crop": 1.5},
        {"flip": 1},
        {"mixup": "0.8"},
        {"adversarial_steps": 1},
    ],
    ids=str,
)
def test_values_out_of_range_are_one_sentence(fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises(SpecError, match=f"Recipe: {name}"):
        Recipe(**fields)


@pytest.mark.parametrize("recipe", [*EACH, {"adversarial_steps": 3}], ids=str)
def test_every_field_is_an_axis_and_idle_at_its_default(recipe: dict[str, Any]) -> None:
    ((name, value),) = recipe.items()
    vit = {
        "baseline": Model("vit", mixer="attention", heads=2, patch=7),
        "tasks": ["fashion_mnist_images"],
    }
    before = getattr(Recipe(), name)
    varied = plan(make_ablation(axes=[vary(name, [before, value])], **vit), seeds=1)
    assert {getattr(trial.training, name) for trial in varied.trials} == {before, value}
    axes = [vary("heads", [1, 2])]
    plain, written_out, changed = (
        {t.trial_id for t in plan(make_ablation(axes=axes, scale=scale, **vit), seeds=1).trials}
        for scale in ({}, {name: before}, {name: value})
    )
    assert plain == written_out
    assert not plain & changed
    assert getattr(Scale(dim=1, depth=1, length=1, steps=1, batch=1, **recipe), name) == value
