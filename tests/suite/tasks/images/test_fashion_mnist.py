"""Test that the images are the announced ones and that a sequence restores its image."""

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks.images.fashion_mnist import (
    PIXEL_MEAN,
    PIXEL_STANDARD_DEVIATION,
    FashionMnistPatches,
    FashionMnistPixels,
    cut_into_patches,
)
from bakeoff.suite.tasks.task import Split

CLASS_COUNTS = {
    "training": [841, 937, 912, 908, 879, 882, 918, 920, 895, 908],
    "validation": [101, 90, 104, 111, 95, 107, 103, 102, 95, 92],
    "test": [200, 203, 214, 190, 219, 195, 197, 200, 194, 188],
}
# First labels of the original files: ankle boot, T-shirt, T-shirt, dress, ...
FIRST_LABELS = {"training": [9, 0, 0, 3, 0, 2, 7, 2], "test": [9, 2, 1, 1, 6, 1, 4, 6]}


def _images() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    data = FashionMnistPatches.data()
    splits = {"training": data.training, **data.held_out}
    return {name: (images.inputs, images.labels) for name, images in splits.items()}


def test_the_counts_per_class_are_the_recorded_ones() -> None:
    for name, (pixels, labels) in _images().items():
        assert np.bincount(labels).tolist() == CLASS_COUNTS[name]
        assert pixels.shape == (sum(CLASS_COUNTS[name]), 28, 28)
        assert (pixels.min(), pixels.max()) == (0, 255)


def test_labels_are_those_of_the_original_in_its_order() -> None:
    for name, labels in FIRST_LABELS.items():
        assert _images()[name][1][:8].tolist() == labels


def test_labels_belong_to_their_images() -> None:
    """Check that the nearest class mean is right for about 2/3; shifted labels give 1/10."""
    images, labels = (_images()["training"][i].astype(np.float32) for i in (0, 1))
    test_images, test_labels = _images()["test"]
    means = np.stack([images[labels == c].mean(axis=0).ravel() for c in range(10)])
    distances = ((test_images.reshape(-1, 1, 784).astype(np.float32) - means) ** 2).sum(axis=2)
    accuracy = (distances.argmin(axis=1) == test_labels).mean()
    assert 0.6 < accuracy < 0.75


def test_no_image_stands_twice() -> None:
    all_pixels = np.concatenate([pixels for pixels, _ in _images().values()])
    assert len({image.tobytes() for image in all_pixels}) == len(all_pixels) == 12_000


def test_the_recorded_mean_and_deviation_are_those_of_the_training_images() -> None:
    pixels = _images()["training"][0] / 255
    assert pixels.mean() == pytest.approx(PIXEL_MEAN, abs=5e-5)
    assert pixels.std() == pytest.approx(PIXEL_STANDARD_DEVIATION, abs=5e-5)


def test_pixels_come_row_by_row() -> None:
    batch = next(FashionMnistPixels(784).held_out("test", 3))
    pixels = batch.inputs["inputs"].reshape(3, 28, 28) * PIXEL_STANDARD_DEVIATION + PIXEL_MEAN
    expected = torch.from_numpy(_images()["test"][0][:3] / 255).float()
    torch.testing.assert_close(pixels, expected)


def test_patches_come_row_by_row_and_hold_their_pixels_row_by_row() -> None:
    image = np.arange(784, dtype=np.int64).reshape(1, 28, 28)
    patches = cut_into_patches(image, 4)
    assert patches.shape == (1, 49, 16)
    for row in range(7):
        for column in range(7):
            expected = image[0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            assert patches[0, 7 * row + column].tolist() == expected.ravel().tolist()


def test_both_readings_see_the_same_images_in_the_same_order() -> None:
    pixels = FashionMnistPixels(784).training_batch(5, 20, seed=1)
    patches = FashionMnistPatches(49).training_batch(5, 20, seed=1)
    assert torch.equal(pixels.targets, patches.targets)
    ink = [each.inputs["inputs"].sum(dim=(1, 2)) for each in (pixels, patches)]
    torch.testing.assert_close(*ink)


@pytest.mark.parametrize(("split", "size"), [("validation", 1_000), ("test", 2_000)])
def test_a_split_is_in_the_order_of_the_file(split: Split, size: int) -> None:
    targets = torch.cat([batch.targets for batch in FashionMnistPatches(49).held_out(split, 300)])
    assert targets.tolist() == _images()[split][1].tolist()
    assert len(targets) == size
