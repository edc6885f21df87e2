"""Test that halved images are the whole images at half the resolution."""

import numpy as np
import pytest

from bakeoff.suite.tasks.images.fashion_mnist import FashionMnistImages
from bakeoff.suite.tasks.images.halved import FashionMnistHalved, OpenmojiHalved
from bakeoff.suite.tasks.images.openmoji import OpenmojiGroups

PAIRS = [(FashionMnistHalved, FashionMnistImages), (OpenmojiHalved, OpenmojiGroups)]


@pytest.mark.parametrize(("half", "whole"), PAIRS)
def test_a_pixel_is_the_mean_of_four_and_labels_are_those_of_the_whole(
    half: type[FashionMnistHalved], whole: type[FashionMnistImages]
) -> None:
    ours, theirs = half.data(), whole.data()
    assert list(ours.held_out) == list(theirs.held_out)
    for few, many in (
        (ours.training, theirs.training),
        *((ours.held_out[split], theirs.held_out[split]) for split in ours.held_out),
    ):
        assert few.labels.tolist() == many.labels.tolist()
        wide = many.inputs.astype(np.float64).reshape(len(many.labels), *whole.grid, -1)
        corners = [wide[:, row::2, column::2] for row in (0, 1) for column in (0, 1)]
        assert few.inputs.shape == (len(many.labels), *half.grid, half.input_size)
        assert (few.inputs == sum(corners) / 4).all()


@pytest.mark.parametrize("half", [FashionMnistHalved, OpenmojiHalved])
def test_pixels_are_scaled_by_mean_and_deviation_of_the_halved_training_images(
    half: type[FashionMnistHalved],
) -> None:
    task = half(half.fixed_length)
    count = task.num_training_examples()
    whole = task.training_batch(0, count, seed=0).inputs["inputs"].double()
    assert whole.mean(dim=(0, 1, 2)).tolist() == pytest.approx([0] * half.input_size, abs=3e-4)
    assert whole.std(dim=(0, 1, 2)).tolist() == pytest.approx([1] * half.input_size, abs=3e-4)
