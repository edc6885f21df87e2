"""Test Mixup and CutMix: shares, rectangles, and targets mixed as the images are."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.task import Batch
from bakeoff.suite.training.mixing import (
    Mixing,
    mixed,
    rectangle_of,
    symmetric_beta,
    with_rectangle,
)
from tests.suite.training.toy_images import Images

COUNT, ROWS, COLUMNS = 6, 14, 9
# All pixels of image i are i, and so is its class.
IMAGES = torch.arange(COUNT).float().view(-1, 1, 1, 1).repeat(1, ROWS, COLUMNS, 2)
CLASSES = torch.arange(COUNT)


def _mixed(step: int, **alphas: float) -> tuple[Tensor, Tensor]:
    how = Mixing(**{"mixup": 0.0, "cutmix": 0.0, **alphas})
    return mixed(IMAGES, CLASSES, COUNT, how, RandomStream(3, step))


def _is_cut(images: Tensor) -> bool:
    """Return True if each pixel comes from a single image."""
    return bool((images == images.round()).all())


@pytest.mark.parametrize("alpha", [0.2, 0.8, 1.0, 4.0])
def test_shares_are_of_the_beta_distribution(alpha: float) -> None:
    drawn = np.array(
        [symmetric_beta(alpha, u, v) for u, v in RandomStream(0, 1).uniform(20_000, 2)]
    )
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    assert drawn.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)
    wanted = np.sort(np.random.default_rng(0).beta(alpha, alpha, 200_000))
    shares = np.searchsorted(wanted, np.sort(drawn)) / len(wanted)
    distance = np.abs(shares - np.arange(1, len(drawn) + 1) / len(drawn)).max()
    assert distance < 1.63 * math.sqrt(1 / len(drawn) + 1 / len(wanted)), "Kolmogorov-Smirnov, 1 %"


@pytest.mark.parametrize("alphas", [{"mixup": 0.8}, {"cutmix": 1.0}, {"mixup": 0.8, "cutmix": 1.0}])
def test_a_target_has_as_much_of_each_class_as_the_image_has_of_each_image(
    alphas: dict[str, float],
) -> None:
    for step in range(60):
        images, targets = _mixed(step, **alphas)
        torch.testing.assert_close(targets.sum(dim=1), torch.ones(COUNT))
        for place in range(COUNT):
            partner, own = COUNT - 1 - place, targets[place, place].item()
            assert targets[place, partner].item() == pytest.approx(1 - own, abs=1e-6)
            if _is_cut(images):
                found = (images[place] == place).float().mean().item()
                assert set(images[place].unique().tolist()) <= {place, partner}
            else:
                found = (images[place].mean().item() - partner) / (place - partner)
            assert found == pytest.approx(own, abs=1e-5)


def test_a_coin_says_for_each_batch_which_of_both_and_one_there_always_is() -> None:
    both = [_is_cut(_mixed(step, mixup=0.8, cutmix=1.0)[0]) for step in range(600)]
    assert np.mean(both) == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(600))
    assert not any(_is_cut(_mixed(step, mixup=0.8)[0]) for step in range(50))
    assert all(_is_cut(_mixed(step, cutmix=1.0)[0]) for step in range(50))
    uncut = [_mixed(step, mixup=0.8)[1] for step in range(50)]
    assert all(0 < targets[0, 0] < 1 for targets in uncut)


def test_what_is_switched_on_beside_leaves_the_draws() -> None:
    for step in range(20):
        both, alone = _mixed(step, mixup=0.8, cutmix=1.0), _mixed(step, cutmix=1.0)
        if not _is_cut(both[0]):
            alone = _mixed(step, mixup=0.8)
        assert torch.equal(both[0], alone[0])
        assert torch.equal(both[1], alone[1])


def test_rectangles_lie_around_every_pixel_and_what_is_beyond_the_edge_is_cut_off() -> None:
    for area, u, v in RandomStream(0, 0).uniform(500, 3):
        top, bottom, left, right = rectangle_of(area, (ROWS, COLUMNS), u, v)
        height, width = int(ROWS * math.sqrt(area)), int(COLUMNS * math.sqrt(area))
        row, column = math.floor(u * ROWS), math.floor(v * COLUMNS)
        inside = [
            (i, j)
            for i in range(ROWS)
            for j in range(COLUMNS)
            if row - height // 2 <= i < row + (height + 1) // 2
            and column - width // 2 <= j < column + (width + 1) // 2
        ]
        assert inside == [(i, j) for i in range(top, bottom) for j in range(left, right)]


def test_the_share_is_that_of_the_area_that_stayed() -> None:
    rectangle = rectangle_of(0.5, (ROWS, COLUMNS), 0.01, 0.99)
    assert (rectangle.bottom - rectangle.top) * (rectangle.right - rectangle.left) == 5 * 4
    _, share = with_rectangle(IMAGES, IMAGES.flip(0), rectangle)
    assert share == 1 - 20 / (ROWS * COLUMNS)


def test_the_loss_smooths_what_was_mixed_once() -> None:
    """Compare with both targets smoothed first and then mixed, as in DeiT's code."""
    smoothing, step = 0.1, 4
    images, targets = _mixed(step, mixup=0.8)
    logits = torch.randn(COUNT, COUNT, generator=torch.Generator().manual_seed(0))
    batch = Batch(inputs={"inputs": images}, targets=targets)
    found = Images(lambda step: None).loss(Outputs(logits), batch, smoothing)
    total = 0.0
    for place in range(COUNT):
        share, log_p = targets[place, place].item(), logits[place].log_softmax(0).tolist()
        for name in range(COUNT):
            own, other = (
                smoothing / COUNT + (1 - smoothing) * (name == each)
                for each in (place, COUNT - 1 - place)
            )
            total -= (share * own + (1 - share) * other) * log_p[name]
    assert found.item() == pytest.approx(total / COUNT, rel=1e-5)
