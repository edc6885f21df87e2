"""Check that our mixup and CutMix equal timm's `Mixup` for the same random numbers.

DeiT trains with timm's. The tests need the extra `bench`; `make parity-test` installs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.task import Batch
from bakeoff.suite.training.mixing import Mixing, mixed, symmetric_beta
from tests.parity.without_torchvision import timm
from tests.suite.training.toy_images import Images

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the package raises warnings about its own parts
]

COUNT, ROWS, COLUMNS, CLASSES, SMOOTHING = 6, 13, 16, 5, 0.1


def _theirs(
    images: Tensor, classes: Tensor, step: int, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> tuple[Tensor, Tensor]:
    """Run timm's mixing with the share and the rectangle's centre that ours draws in that step."""
    timm()
    from timm.data import mixup

    _, u, v = RandomStream(0, step).uniform(3)
    stream = RandomStream(0, step)
    stream.uniform(3)
    share = symmetric_beta(0.7, *stream.uniform(2).tolist())
    places = iter([int(u * ROWS), int(v * COLUMNS)])

    def given(low: int, high: int, size: Any = None) -> int:
        return next(places)

    theirs: Any = mixup.Mixup(
        mixup_alpha=0.7, cutmix_alpha=0.7, num_classes=CLASSES, label_smoothing=SMOOTHING
    )
    monkeypatch.setattr(theirs, "_params_per_batch", lambda: (share, is_cut))
    monkeypatch.setattr(np.random, "randint", given)
    found: tuple[Tensor, Tensor] = theirs(images.permute(0, 3, 1, 2).clone(), classes)
    return found[0].permute(0, 2, 3, 1), found[1]


@pytest.mark.parametrize("is_cut", [False, True])
def test_images_targets_and_loss_are_timms(is_cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(COUNT, ROWS, COLUMNS, 3, generator=generator)
    logits = torch.randn(COUNT, CLASSES, generator=generator)
    classes = torch.tensor([0, 3, 1, 4, 4, 2])
    how = Mixing(mixup=0.0 if is_cut else 0.7, cutmix=0.7 if is_cut else 0.0)
    for step in range(20):
        own, targets = mixed(images, classes, CLASSES, how, RandomStream(0, step))
        with monkeypatch.context() as patched:
            theirs, smoothed = _theirs(images, classes, step, is_cut, patched)
        torch.testing.assert_close(own, theirs)
        torch.testing.assert_close(
            targets * (1 - SMOOTHING) + SMOOTHING / CLASSES, smoothed, rtol=1e-5, atol=1e-6
        )
        batch = Batch(inputs={"inputs": own}, targets=targets)
        loss = Images(lambda step: None).loss(Outputs(logits), batch, SMOOTHING)
        wanted = -(smoothed * logits.log_softmax(-1)).sum(-1).mean()  # SoftTargetCrossEntropy
        torch.testing.assert_close(loss, wanted)
