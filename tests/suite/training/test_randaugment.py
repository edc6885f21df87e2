"""Compare RandAugment's operations with Pillow's, and test how they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.training import randaugment
from bakeoff.suite.training.randaugment import operated, operations_of, rand_augmented

ROWS, COLUMNS = 20, 28
FILL = (100, 110, 120)
LINEAR = Image.Resampling.BILINEAR


def _pixels(channels: int, count: int = 4) -> Tensor:
    drawn = np.random.default_rng(0).normal(120, 60, (count, channels, ROWS, COLUMNS))
    return torch.from_numpy(drawn.clip(10, 240).round()).float()


def _by_pillow(name: str, image: Image.Image, amount: float, fill: Any) -> Image.Image:
    """Apply the operation with timm's arguments; `amount` is the signed level."""
    level, factor, (width, height) = abs(amount), max(0.1, 1 + 0.9 * amount), image.size

    def moved(*matrix: float) -> Image.Image:
        affine = Image.Transform.AFFINE
        return image.transform(image.size, affine, matrix, resample=LINEAR, fillcolor=fill)

    brighter = [min(255, i + int(110 * level)) if i < 128 else i for i in range(256)]
    operations: dict[str, Callable[[], Image.Image]] = {
        "shear_x": lambda: moved(1, 0.3 * amount, 0, 0, 1, 0),
        "shear_y": lambda: moved(1, 0, 0, 0.3 * amount, 1, 0),
        "translate_x": lambda: moved(1, 0, 0.45 * amount * width, 0, 1, 0),
        "translate_y": lambda: moved(1, 0, 0, 0, 1, 0.45 * amount * height),
        "rotate": lambda: image.rotate(30 * amount, resample=LINEAR, fillcolor=fill),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "colour": lambda: ImageEnhance.Color(image).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageOps.invert(image),
        "posterize": lambda: ImageOps.posterize(image, max(1, 4 - int(4 * level))),
        "solarize": lambda: ImageOps.solarize(image, 256 - int(256 * level)),
        "solarize_add": lambda: image.point(brighter * len(image.getbands())),
    }
    return operations[name]()


# Pillow truncates decimals where ours rounds: a difference of 1. For `colour` the truncated grey
# adds up to 0.9 more.
OFF_BY_ONE = {
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "brightness",
    "contrast",
    "sharpness",
    "autocontrast",
}


@pytest.mark.parametrize("amount", [0.9, -0.9, 0.37, 1.0])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_operation_is_pillows(channels: int, amount: float) -> None:
    pixels = _pixels(channels)
    level, sign = torch.full((4,), abs(amount)), torch.full((4,), 1.0 if amount > 0 else -1.0)
    fill = FILL if channels == 3 else FILL[0]
    for name in operations_of(channels):
        found = operated(name, pixels, level, sign, torch.tensor(FILL[:channels]).float())
        assert torch.equal(found, found.round().clamp(0, 255))
        for own, each in zip(found, pixels, strict=True):
            array = each.permute(1, 2, 0).squeeze(2) if channels == 1 else each.permute(1, 2, 0)
            image = Image.fromarray(array.numpy().astype(np.uint8))
            wanted = np.asarray(_by_pillow(name, image, amount, fill)).astype(np.float32)
            wanted = wanted.reshape(ROWS, COLUMNS, channels).transpose(2, 0, 1)
            most = 1 if name in OFF_BY_ONE else 2 if name == "colour" else 0
            assert np.abs(own.numpy() - wanted).max() <= most, name
            assert np.abs(own.numpy() - each.numpy()).max() > 2, f"{name} does something"


def test_each_image_has_its_own_level_and_sign() -> None:
    pixels, fill = _pixels(3), torch.tensor(FILL).float()
    level, sign = torch.tensor([0.1, 0.5, 0.9, 0.9]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    for name in operations_of(3):
        together = operated(name, pixels, level, sign, fill)
        for i in range(4):
            alone = operated(name, pixels[[i]], level[[i]], sign[[i]], fill)
            assert torch.equal(together[[i]], alone), name


def test_grey_images_have_no_colour_and_flat_ones_stay() -> None:
    assert set(operations_of(3)) - set(operations_of(1)) == {"colour"}
    assert (len(operations_of(1)), len(operations_of(3))) == (14, 15)
    flat, one = torch.full((2, 3, 8, 8), 77.0), torch.ones(2)
    for name in ("autocontrast", "equalize", "contrast", "colour", "sharpness"):
        assert torch.equal(operated(name, flat, 0.9 * one, one, torch.zeros(3)), flat), name


def test_two_operations_each_with_a_chance_of_a_half_and_of_normal_magnitude(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: list[str] = []
    levels: list[Tensor] = []
    signs: list[Tensor] = []

    def noted(name: str, pixels: Tensor, level: Tensor, sign: Tensor, fill: Tensor) -> Tensor:
        names.extend([name] * len(level))
        levels.append(level)
        signs.append(sign)
        return pixels + 1

    monkeypatch.setattr(randaugment, "operated", noted)
    count = 8_000
    found = rand_augmented(torch.zeros(count, 3, 1, 1), 9.0, torch.zeros(3), RandomStream(0, 0))
    times = np.array([int((found[:, 0, 0, 0] == n).sum()) for n in range(4)]) / count
    assert times == pytest.approx([0.25, 0.5, 0.25, 0.0], abs=0.02)
    shares = np.unique(names, return_counts=True)[1] / len(names)
    assert shares == pytest.approx([1 / 15] * 15, abs=0.012)
    level = torch.cat(levels)
    assert level.max() == 1.0
    assert level.median().item() == pytest.approx(0.9, abs=0.005)
    assert (level < 0.85).float().mean().item() == pytest.approx(0.159, abs=0.02)
    assert (level == 1.0).float().mean().item() == pytest.approx(0.023, abs=0.01)
    assert torch.cat(signs).mean().item() == pytest.approx(0.0, abs=0.05)


def test_a_pure_function_that_leaves_its_input_and_draws_the_same_at_any_magnitude() -> None:
    pixels, fill = _pixels(3, 32), torch.tensor(FILL).float()
    before = pixels.clone()

    def drawn(magnitude: float, step: int) -> Tensor:
        return rand_augmented(pixels, magnitude, fill, RandomStream(7, step))

    assert torch.equal(drawn(9.0, 0), drawn(9.0, 0))
    assert torch.equal(pixels, before)
    assert not torch.equal(drawn(9.0, 0), drawn(9.0, 1))
    stays = [(drawn(magnitude, 0) == pixels).flatten(1).all(dim=1) for magnitude in (9.0, 8.0)]
    assert torch.equal(*stays)
