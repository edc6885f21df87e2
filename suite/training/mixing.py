"""Mix each image of a batch with another one, and their targets in the same shares.

    mixup     x <- r x + (1 - r) x', r from Beta(alpha, alpha) (Zhang et al. 2018, arXiv:1710.09412)
    CutMix    x <- x' inside a rectangle of (1 - r) of the area (Yun et al. 2019,
              arXiv:1905.04899); the rectangle is cut off at the edge, and r becomes the share of
              the area that was kept
    targets   y <- r y + (1 - r) y', rows of probabilities

Images are mixed as in DeiT (Touvron et al. 2021, arXiv:2012.12877, table 9, and its code): one r
and one rectangle for the whole batch, whose partner x' is the batch in reverse order. If both have
an alpha, each is chosen with probability 1/2 for each batch, so that every batch is mixed.

Label smoothing is not part of this module: it is linear in the targets, so the loss can smooth the
mixed targets once, with the same result as mixing smoothed targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor
from torch.nn import functional

from bakeoff.suite.tasks.data_order import RandomStream


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """The alphas of mixup and CutMix; 0 turns one off."""

    mixup: float
    cutmix: float


class Rectangle(NamedTuple):
    """Ranges of rows and columns, each including the first and excluding the last one."""

    top: int
    bottom: int
    left: int
    right: int


def mixed(
    images: Tensor, classes: Tensor, num_classes: int, how: Mixing, stream: RandomStream
) -> tuple[Tensor, Tensor]:
    """Return a mixed batch; a pure function of the arguments.

    Args:
        images: The images, `[batch, rows, columns, channels]`.
        classes: The classes, `[batch]`, integers.
        num_classes: The number of classes of the task.
        how: The alphas, at least one of them positive.
        stream: The random numbers of this step; equally many are drawn for mixup and CutMix.

    Returns:
        Images of the same shape, and probabilities `[batch, num_classes]`.
    """
    coin, *place = stream.uniform(3).tolist()
    is_cut = bool(how.cutmix) and (not how.mixup or coin < 0.5)
    share = symmetric_beta(how.cutmix if is_cut else how.mixup, *stream.uniform(2).tolist())
    partner = images.flip(0)
    if is_cut:
        rectangle = rectangle_of(1 - share, images.shape[1:3], *place)
        images, share = with_rectangle(images, partner, rectangle)
    else:
        images = share * images + (1 - share) * partner
    targets = functional.one_hot(classes, num_classes).to(images.dtype)
    return images, share * targets + (1 - share) * targets.flip(0)


def symmetric_beta(alpha: float, u: float, v: float) -> float:
    """Return a draw of Beta(alpha, alpha) from two uniform ones, for every alpha above 0.

    Devroye 1996, "Random variate generation in one line of code", from Bailey's polar form of
    Student's t with 2 alpha degrees of freedom.
    """
    w, cosine = float(np.power(u, 1 / alpha)), float(np.cos(2 * np.pi * v))
    far = (1 - w) * cosine**2
    return 0.5 + 0.5 * float(np.sign(cosine)) * float(np.sqrt(far / (far + w)))


def rectangle_of(area: float, size: tuple[int, ...], u: float, v: float) -> Rectangle:
    """Return a rectangle with that share of an image's area, its proportions and random centre."""
    rows, columns = size
    height, width = (int(side * area**0.5) for side in size)
    top, left = int(u * rows) - height // 2, int(v * columns) - width // 2
    return Rectangle(
        top=max(0, top),
        bottom=min(rows, top + height),
        left=max(0, left),
        right=min(columns, left + width),
    )


def with_rectangle(images: Tensor, partner: Tensor, rectangle: Rectangle) -> tuple[Tensor, float]:
    """Return the images with that part of their partners, and the share of the area kept."""
    top, bottom, left, right = rectangle
    cut = images.clone()
    cut[:, top:bottom, left:right] = partner[:, top:bottom, left:right]
    rows, columns = images.shape[1:3]
    return cut, 1 - (bottom - top) * (right - left) / (rows * columns)
