"""Apply RandAugment: random operations on each image, all of one magnitude.

Cubuk et al. 2020 (arXiv:1909.13719), in the form of DeiT's recipe (Touvron et al. 2021,
arXiv:2012.12877, table 9: ``rand-m9-mstd0.5-inc1`` of its code). Two operations are drawn with
replacement for each image; each is skipped with probability 1/2. Its magnitude is normal around
that of the recipe, with standard deviation 0.5, clipped to 0 to 10; a tenth of it is the level l
below. Signs have probability 1/2. Pixels are whole numbers from 0 to 255 after each operation.

    shear_x, shear_y            by 0.3 l of the distance from the first row or column
    translate_x, translate_y    by 0.45 l of the width or height
    rotate                      around the centre by 30 l degrees
    brightness                  away from black, or towards it: to 1 +- 0.9 l of the distance, and
                                at least 0.1; the next three use the same factor
    contrast                    away from or towards the mean of the grey image
    colour                      away from or towards the grey image
    sharpness                   away from or towards the image smoothed over 3 x 3, which keeps its
                                border
    autocontrast                each channel is stretched to 0..255
    equalize                    the histogram of each channel is made as flat as possible
    invert                      255 - pixel
    posterize                   keeps the first 4 - int(4 l) bits, and at least one
    solarize                    inverts pixels of at least 256 - int(256 l)
    solarize_add                adds int(110 l) to pixels below 128

The operations are those of Pillow, except that results are rounded where Pillow truncates, and that
values between pixels are interpolated linearly, where DeiT's are cubic. Pixels from outside the
image have the mean colour of the data. Grey images have no operation `colour`; the other 14 apply
to their single channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.suite.tasks.data_order import RandomStream

WHITE = 255
NUM_OPERATIONS, CHANCE = 2, 0.5
HIGHEST, DEVIATION = 10.0, 0.5  # the limit and spread of magnitudes
_GREY = (0.299, 0.587, 0.114)  # the weights of red, green and blue in ITU-R 601-2
_SMOOTHING = ((1.0, 1.0, 1.0), (1.0, 5.0, 1.0), (1.0, 1.0, 1.0))


def rand_augmented(pixels: Tensor, magnitude: float, fill: Tensor, stream: RandomStream) -> Tensor:
    """Return the images after their operations; a pure function of the arguments.

    Args:
        pixels: `[images, channels, rows, columns]`, whole numbers from 0 to 255; 1 or 3 channels.
        magnitude: The magnitude, 0 to 10.
        fill: The colour outside of an image, `[channels]`.
        stream: The random numbers; the draws do not depend on the magnitude.
    """
    count, names = len(pixels), operations_of(pixels.shape[1])
    pixels = pixels.clone()
    for _ in range(NUM_OPERATIONS):
        which = stream.integers(count, low=0, high=len(names))
        is_applied = stream.uniform(count) < CHANCE
        magnitudes = np.clip(magnitude + DEVIATION * stream.normal(count), 0, HIGHEST)
        level = torch.from_numpy(magnitudes / HIGHEST).to(pixels)
        sign = torch.from_numpy(np.where(stream.uniform(count) < 0.5, -1.0, 1.0)).to(pixels)
        for place in np.unique(which[is_applied]):
            rows = torch.from_numpy(np.flatnonzero(is_applied & (which == place)))
            chosen = pixels[rows], level[rows], sign[rows]
            pixels[rows] = operated(names[place], *chosen, fill)
    return pixels


def operations_of(num_channels: int) -> tuple[str, ...]:
    """Return the names of the operations for images with that number of channels."""
    return tuple(
        each
        for each in (*_MOVED, *_BLENDED, *_TONES)
        if each != "colour" or num_channels == len(_GREY)
    )


def operated(name: str, pixels: Tensor, level: Tensor, sign: Tensor, fill: Tensor) -> Tensor:
    """Apply the named operation to all images; `level` and `sign` are `[images]`."""
    if name in _MOVED:
        return _read_elsewhere(pixels, name, sign * level, fill)
    level, sign = level.view(-1, 1, 1, 1), sign.view(-1, 1, 1, 1)
    if name in _BLENDED:
        origin, factor = _BLENDED[name](pixels), (1 + 0.9 * sign * level).clamp(min=0.1)
        return (origin + factor * (pixels - origin)).clamp(0, WHITE).round()
    return _TONES[name](pixels, level)


Places = tuple[Tensor, Tensor]  # columns and rows, in pixels from the upper left corner


def _sheared_x(amount: Tensor, x: Tensor, y: Tensor) -> Places:
    return x + 0.3 * amount * y, y


def _sheared_y(amount: Tensor, x: Tensor, y: Tensor) -> Places:
    return x, y + 0.3 * amount * x


def _translated_x(amount: Tensor, x: Tensor, y: Tensor) -> Places:
    return x + 0.45 * amount * x.shape[-1], y


def _translated_y(amount: Tensor, x: Tensor, y: Tensor) -> Places:
    return x, y + 0.45 * amount * y.shape[-2]


def _rotated(amount: Tensor, x: Tensor, y: Tensor) -> Places:
    angle = amount * math.radians(30)
    rows, columns = y.shape[-2] / 2, x.shape[-1] / 2
    cosine, sine, x, y = angle.cos(), angle.sin(), x - columns, y - rows
    return cosine * x - sine * y + columns, sine * x + cosine * y + rows


# Functions from the position of each pixel to the position from which it is read.
_MOVED: Mapping[str, Callable[[Tensor, Tensor, Tensor], Places]] = {
    "shear_x": _sheared_x,
    "shear_y": _sheared_y,
    "translate_x": _translated_x,
    "translate_y": _translated_y,
    "rotate": _rotated,
}


def _read_elsewhere(pixels: Tensor, name: str, amount: Tensor, fill: Tensor) -> Tensor:
    """Read pixels at other positions by linear interpolation; `fill` is outside the image."""
    rows, columns = pixels.shape[-2:]
    y, x = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
    x, y = _MOVED[name](amount.view(-1, 1, 1), x.to(pixels), y.to(pixels))
    x, y = x.expand(len(pixels), -1, -1), y.expand(len(pixels), -1, -1)
    grid = torch.stack([2 * x / columns - 1, 2 * y / rows - 1], dim=-1)
    found = functional.grid_sample(pixels, grid, padding_mode="border", align_corners=False)
    is_inside = (x >= 0) & (x < columns) & (y >= 0) & (y < rows)
    return torch.where(is_inside[:, None], found, fill.view(-1, 1, 1)).round()


def _grey(pixels: Tensor) -> Tensor:
    """Return the grey images, `[images, 1, rows, columns]`."""
    if pixels.shape[1] == 1:
        return pixels
    weights = torch.tensor(_GREY).to(pixels).view(-1, 1, 1)
    return (weights * pixels).sum(dim=1, keepdim=True).round()


def _mean_grey(pixels: Tensor) -> Tensor:
    return _grey(pixels).mean(dim=(1, 2, 3), keepdim=True).round()


def _smoothed(pixels: Tensor) -> Tensor:
    kernel = torch.tensor(_SMOOTHING).to(pixels)
    inner = functional.conv2d(pixels.flatten(0, 1)[:, None], (kernel / kernel.sum())[None, None])
    smooth = pixels.clone()
    smooth[..., 1:-1, 1:-1] = inner.view_as(smooth[..., 1:-1, 1:-1]).round()
    return smooth


# Functions that return the image away from which, or towards which, an operation blends.
_BLENDED: Mapping[str, Callable[[Tensor], Tensor]] = {
    "brightness": torch.zeros_like,
    "contrast": _mean_grey,
    "colour": _grey,
    "sharpness": _smoothed,
}


def _autocontrasted(pixels: Tensor, level: Tensor) -> Tensor:
    least, most = pixels.amin(dim=(2, 3), keepdim=True), pixels.amax(dim=(2, 3), keepdim=True)
    stretched = (pixels - least) * (WHITE / (most - least).clamp(min=1))
    return torch.where(most > least, stretched.round(), pixels)


def _equalized(pixels: Tensor, level: Tensor) -> Tensor:
    """Equalise as Pillow does: of n pixels b are brightest, and a step is (n - b) // 255 pixels."""
    flat = pixels.flatten(0, 1).flatten(1).long()
    counts = torch.zeros(len(flat), WHITE + 1, dtype=torch.long)
    counts.scatter_add_(1, flat, torch.ones_like(flat))
    brightest = counts.gather(1, flat.amax(dim=1, keepdim=True))
    step = (flat.shape[1] - brightest) // WHITE
    darker = counts.cumsum(dim=1) - counts
    table = (darker + step // 2) // step.clamp(min=1)
    found = table.clamp(max=WHITE).gather(1, flat)
    return torch.where(step > 0, found, flat).view(pixels.shape).to(pixels.dtype)


def _inverted(pixels: Tensor, level: Tensor) -> Tensor:
    return WHITE - pixels


def _posterized(pixels: Tensor, level: Tensor) -> Tensor:
    width = 2 ** (4 + (4 * level).floor()).clamp(max=7)  # the width of a step
    return (pixels / width).floor() * width


def _solarized(pixels: Tensor, level: Tensor) -> Tensor:
    return torch.where(pixels >= 256 - (256 * level).floor(), WHITE - pixels, pixels)


def _solarized_add(pixels: Tensor, level: Tensor) -> Tensor:
    brighter = (pixels + (110 * level).floor()).clamp(max=WHITE)
    return torch.where(pixels < 128, brighter, pixels)


_TONES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": _autocontrasted,
    "equalize": _equalized,
    "invert": _inverted,
    "posterize": _posterized,
    "solarize": _solarized,
    "solarize_add": _solarized_add,
}
