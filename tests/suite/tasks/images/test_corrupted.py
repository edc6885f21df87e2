"""Test that each corruption has its documented effect, and that each image has its own stream."""

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks.batch import joined
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.images.corrupted import FashionMnistCorrupted, OpenmojiCorrupted, corrupted
from bakeoff.suite.tasks.images.corruptions import (
    CONTRAST,
    CORRUPTIONS,
    NOISE,
    blur,
    contrast,
    noise,
    nothing,
    occlusion,
    permuted_patches,
    shift,
)
from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistImages
from bakeoff.suite.tasks.task import Task

SHAPES = [(28, 28, 1), (32, 32, 3)]


def _image(shape: tuple[int, ...] = (32, 32, 3)) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def _stream(number: int = 0) -> RandomStream:
    return RandomStream(0, number)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_pure_and_keeps_the_shape(name: str, shape: tuple[int, ...]) -> None:
    image = _image(shape)
    before = image.copy()
    once, again = (CORRUPTIONS[name](image, _stream()) for _ in range(2))
    assert (image == before).all()
    assert (once == again).all()
    assert (once.shape, once.dtype) == (shape, np.uint8)
    assert (once == image).all() == (name == "clean")


def test_the_first_part_is_clean() -> None:
    assert next(iter(CORRUPTIONS.items())) == ("clean", nothing)


def test_noise_has_the_stated_deviation_and_no_mean() -> None:
    grey = np.full((200, 200, 3), 128, dtype=np.uint8)
    added = noise(grey, _stream()).astype(float) - 128
    assert added.mean() == pytest.approx(0, abs=0.5)
    middle = np.abs(np.quantile(added, [0.1587, 0.8413]))  # one standard deviation; not clipped
    assert middle == pytest.approx([255 * NOISE] * 2, rel=0.03)
    assert (noise(grey, _stream(1)) != noise(grey, _stream(2))).mean() > 0.9


def test_blur_is_a_gaussian_in_both_directions() -> None:
    image = np.zeros((33, 33, 1), dtype=np.uint8)
    image[10:23, 10:23] = 255
    found = blur(image, _stream()).astype(float)[..., 0]
    assert (np.abs(found - found.T) <= 1).all()
    assert found.sum() == pytest.approx(image.sum(), rel=0.01)
    slope = -np.diff(found[16, 16:])  # the derivative of an edge is the kernel
    places = np.arange(len(slope)) - 6
    assert (slope * places).sum() == pytest.approx(0, abs=5)
    assert (slope * places**2).sum() / slope.sum() == pytest.approx(1.5**2, rel=0.1)
    flat = np.full((28, 28, 1), 77, dtype=np.uint8)
    assert (blur(flat, _stream()) == flat).all()


def test_a_shift_moves_all_by_the_same_step() -> None:
    image = np.zeros((28, 28, 1), dtype=np.uint8)
    image[14, 14] = 255
    steps = set()
    for number in range(100):
        ((row, column, _),) = np.argwhere(shift(image, _stream(number)))
        steps.add((int(row) - 14, int(column) - 14))
    assert steps == {(y, x) for y in (-4, 0, 4) for x in (-4, 0, 4)} - {(0, 0)}


def test_what_a_shift_uncovers_is_the_border() -> None:
    image = np.arange(32, dtype=np.uint8)[:, None, None].repeat(32, axis=1)
    found = {shift(image, _stream(number))[:, 0, 0].tobytes() for number in range(60)}
    down = np.clip(np.arange(32) - 4, 0, 31).astype(np.uint8)
    up = np.clip(np.arange(32) + 4, 0, 31).astype(np.uint8)
    assert found == {each.tobytes() for each in (down, up, image[:, 0, 0])}


def test_an_occlusion_is_one_grey_square_that_lies_inside() -> None:
    corners = set()
    for number in range(200):
        hidden = np.argwhere(occlusion(np.zeros((32, 32, 3), np.uint8), _stream(number))[..., 1])
        low, high = hidden.min(axis=0), hidden.max(axis=0)
        assert (high - low == 11).all()
        assert len(hidden) == 144
        corners.add(tuple(low))
    assert {0, 20} <= {row for row, _ in corners}
    assert {0, 20} <= {column for _, column in corners}


def test_patches_keep_their_pixels_and_change_places() -> None:
    image = np.arange(16, dtype=np.uint8).reshape(4, 4).repeat(8, 0).repeat(8, 1)[..., None]
    found = permuted_patches(image, _stream())
    patches = found.reshape(4, 8, 4, 8).swapaxes(1, 2).reshape(16, 64)
    assert (patches == patches[:, :1]).all()
    assert sorted(patches[:, 0].tolist()) == list(range(16))
    assert patches[:, 0].tolist() != list(range(16))
    # sorted within each patch
    row = np.arange(32, dtype=np.uint8)[None, :, None].repeat(32, axis=0)
    inside = permuted_patches(row, _stream())[:, :8, 0]
    assert (np.diff(inside.astype(int), axis=1) == 1).all()


def test_contrast_shrinks_towards_the_mean_of_each_channel() -> None:
    image = _image()
    found = contrast(image, _stream()).astype(float)
    assert found.mean(axis=(0, 1)) == pytest.approx(image.mean(axis=(0, 1)), abs=0.1)
    assert found.std(axis=(0, 1)) == pytest.approx(CONTRAST * image.std(axis=(0, 1)), rel=0.01)


@pytest.mark.parametrize(
    "task",
    [pytest.param(FashionMnistCorrupted(784), marks=pytest.mark.slow), OpenmojiCorrupted(1_024)],
)
def test_each_test_image_has_each_corruption_and_its_label(task: Task) -> None:
    examples, kinds = corrupted(type(task), "test")  # type: ignore[arg-type]
    clean = task.data().held_out["test"]  # type: ignore[attr-defined]
    count = len(clean.labels)
    assert kinds.tolist() == [kind for kind in range(7) for _ in range(count)]
    assert (examples.labels == np.tile(clean.labels, 7)).all()
    assert (examples.inputs[:count] == clean.inputs).all()
    changed = (examples.inputs.reshape(7, *clean.inputs.shape) != clean.inputs).any(axis=2)
    assert changed.reshape(7, count, -1).any(axis=2)[1:].mean() > 0.99


def test_each_validation_image_stands_once_with_the_corruptions_in_turn() -> None:
    examples, kinds = corrupted(FashionMnistCorrupted, "validation")
    clean = FashionMnistImages.data().held_out["validation"]
    assert kinds.tolist() == [place % 7 for place in range(1_000)]
    assert (examples.inputs[::7] == clean.inputs[::7]).all()
    assert (examples.labels == clean.labels).all()


def test_training_images_are_clean() -> None:
    tasks = (FashionMnistCorrupted(784), FashionMnistImages(784))
    a, b = (task.training_batch(3, 50, 1) for task in tasks)
    assert torch.equal(a.inputs["inputs"], b.inputs["inputs"])
    assert a.part is None
    inside = FashionMnistCorrupted(784).in_parts(a)
    assert [int(part.sum()) for part in inside.values()] == [50, 0, 0, 0, 0, 0, 0]


@pytest.mark.whole
def test_the_clean_part_is_the_task_on_clean_images() -> None:
    task = FashionMnistCorrupted(784)
    batches = list(task.held_out("test", 300))
    part = torch.cat([task.in_parts(batch)["corruption=1"] for batch in batches])
    inputs = torch.cat([batch.inputs["inputs"] for batch in batches])[part]
    (clean,) = FashionMnistImages(784).held_out("test", 2_000)
    assert torch.equal(inputs, clean.inputs["inputs"])
    assert int(part.sum()) == 2_000


@pytest.mark.whole
def test_splits_draw_apart() -> None:
    """Compare the noise of one position and corruption in two splits."""
    task = FashionMnistCorrupted
    added = {
        split: corrupted(task, split)[0].inputs[place].astype(int) - clean[1].astype(int)  # type: ignore[arg-type]
        for split, place in (("validation", 1), ("test", 2_001))
        for clean in [task.data().held_out[split].inputs]  # type: ignore[index]
    }
    ours = added["validation"]
    assert ours.any()
    assert (ours != added["test"]).mean() > 0.5


def test_images_draw_apart() -> None:
    """Compare the noise of two images where both are black."""
    noisy = corrupted(FashionMnistCorrupted, "test")[0].inputs[2_000:2_002]
    clean = FashionMnistImages.data().held_out["test"].inputs[:2]
    is_black = (clean == 0).all(axis=0)
    assert is_black.sum() > 100
    assert (noisy[0] != noisy[1])[is_black].mean() > 0.5


def test_a_page_names_each_part() -> None:
    titles = FashionMnistCorrupted.part_titles
    assert titles["corruption=1"] == "clean"
    assert titles["corruption=6"] == "patches"
    assert {*FashionMnistCorrupted(784).parts()} < {*titles}


def test_the_part_of_an_example_goes_where_the_example_goes() -> None:
    batch = next(FashionMnistCorrupted(784).held_out("validation", 9))
    assert batch.part is not None
    assert batch.part.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1]
    third = batch.rows(slice(2, 3))
    assert third.part is not None
    assert third.part.tolist() == [2]
    assert batch.only(batch.part == 1).part is batch.part
    both = joined([third, batch]).part
    assert both is not None
    assert both.tolist() == [2, *batch.part.tolist()]
