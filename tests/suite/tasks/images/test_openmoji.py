"""Test that the emoji match the records and no drawing has a variant in another split."""

import numpy as np
import pytest
import torch

from bakeoff.suite.tasks.images.openmoji import GROUPS, SIZES, OpenmojiGroups

CLASS_COUNTS = {
    "training": [102, 234, 98, 85, 138, 54, 168, 147, 174],
    "validation": [22, 37, 16, 14, 23, 9, 27, 22, 27],
    "test": [42, 92, 38, 34, 57, 22, 66, 54, 68],
}
NEAR = 14.0  # the same value as in tools/build_openmoji.py


def _images() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    data = OpenmojiGroups.data()
    splits = {"training": data.training, **data.held_out}
    return {name: (images.inputs, images.labels) for name, images in splits.items()}


def test_the_counts_per_class_are_the_recorded_ones() -> None:
    for (name, (pixels, labels)), size in zip(_images().items(), SIZES, strict=True):
        assert np.bincount(labels).tolist() == CLASS_COUNTS[name]
        assert pixels.shape == (size, 32, 32, 3)
    assert len(GROUPS) == len(CLASS_COUNTS["test"])


def test_each_split_has_its_share_of_each_class() -> None:
    counts = np.array(list(CLASS_COUNTS.values()))
    shares = counts / counts.sum(axis=0)
    assert (np.abs(shares - np.array([[0.64], [0.105], [0.255]])) < 0.03).all()


def test_no_drawing_is_blank_and_all_stand_on_white() -> None:
    for pixels, _ in _images().values():
        assert (pixels.min(axis=(1, 2, 3)) < 128).all()
        corners = pixels[:, [0, 0, -1, -1], [0, -1, 0, -1]]
        assert (corners == 255).all(axis=(1, 2)).mean() > 0.98


def test_no_image_is_near_to_one_of_another_split_even_mirrored() -> None:
    splits = [pixels for pixels, _ in _images().values()]
    for i, some in enumerate(splits):
        others = np.concatenate([pixels for j, pixels in enumerate(splits) if j != i])
        for each in (others, others[:, :, ::-1]):
            a, b = (
                torch.from_numpy(p.reshape(len(p), -1).astype(np.float64)) for p in (some, each)
            )
            assert torch.cdist(a, b).min() >= NEAR * np.sqrt(3 * 32 * 32)


def test_colours_are_scaled_by_channel() -> None:
    task = OpenmojiGroups(1024)
    whole = task.training_batch(0, SIZES[0], seed=0).inputs["inputs"]
    assert whole.shape == (1200, 32, 32, 3)
    assert whole.mean(dim=(0, 1, 2)).tolist() == pytest.approx([0, 0, 0], abs=1e-3)
    assert whole.std(dim=(0, 1, 2)).tolist() == pytest.approx([1, 1, 1], abs=1e-3)


def test_flags_are_known_by_their_colours() -> None:
    """Check that class means classify some images, so that labels belong to them."""
    (pixels, labels), (test, asked) = (_images()[name] for name in ("training", "test"))
    means = np.stack([pixels[labels == c].mean(axis=0).ravel() for c in range(9)])
    said = ((test.reshape(-1, 1, 3072) - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (said[asked == 8] == 8).mean() > 0.5
    assert 0.3 < (said == asked).mean() < 0.6
