"""Compare the digits with scikit-learn's."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bakeoff.suite.tasks.images.digits_images import DigitsImages


def test_they_are_those_of_scikit_learn_in_its_order() -> None:
    theirs, data = load_digits(), DigitsImages.data()
    parts = (data.training, data.held_out["validation"], data.held_out["test"])
    assert [len(part.labels) for part in parts] == [1_257, 180, 360]
    pixels = np.concatenate([part.inputs[..., 0] for part in parts])
    assert (pixels == theirs.images).all()
    assert np.concatenate([part.labels for part in parts]).tolist() == theirs.target.tolist()


def test_pixels_are_scaled_by_mean_and_deviation() -> None:
    inputs = DigitsImages(64).training_batch(0, 1_257, seed=0).inputs["inputs"]
    assert inputs.mean().item() == pytest.approx(0, abs=1e-3)
    assert inputs.std().item() == pytest.approx(1, abs=1e-3)
