"""Corrupt images on which a model is tested: one function for each corruption.

The corruptions are the families of Hendrycks and Dietterich 2019 (arXiv:1903.12261, section 4.1)
that need no other picture, each at one severity, for images of about 28 pixels; occluded and
displaced patches are those with which Naseer et al. 2021 (arXiv:2105.10497, section 3.1) test
vision transformers.

Each function takes `[rows, columns, channels]` bytes and a stream of its own, and returns a new
image of the same shape; its random numbers are a pure function of that stream.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bakeoff.suite.tasks.data_order import RandomStream

Pixels = NDArray[np.uint8]
Corruption = Callable[[Pixels, RandomStream], Pixels]

NOISE = 0.2  # standard deviation; the range of a pixel is 1
BLUR = 1.5  # standard deviation of the Gaussian in pixels
SHIFT_ONE_IN = 7  # fraction of the side: 4 pixels of 28 and of 32
OCCLUDED = 3 / 8  # fraction of the side, so a seventh of the image
PATCHES = 4  # along each side
CONTRAST = 0.3  # remaining share of a pixel's distance from the mean
_DIRECTIONS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))


def nothing(image: Pixels, stream: RandomStream) -> Pixels:
    """Return the image unchanged."""
    return image


def noise(image: Pixels, stream: RandomStream) -> Pixels:
    """Add independent Gaussian noise to each number, by Box and Muller's transform."""
    radius, angle = stream.uniform(2, *image.shape)
    drawn = np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * angle)
    return _bytes(image + 255 * NOISE * drawn)


def blur(image: Pixels, stream: RandomStream) -> Pixels:
    """Convolve with a Gaussian over rows, then over columns; the border is extended."""
    reach = round(3 * BLUR)
    places = np.arange(-reach, reach + 1)
    weights = np.exp(-(places**2) / (2 * BLUR**2))
    weights /= weights.sum()
    found = image.astype(np.float64)
    for axis in (0, 1):
        padding = [(reach, reach) if each == axis else (0, 0) for each in range(3)]
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(found, padding, mode="edge"), len(places), axis=axis
        )
        found = windows @ weights
    return _bytes(found)


def shift(image: Pixels, stream: RandomStream) -> Pixels:
    """Shift the image in one of eight directions; the border is extended."""
    chosen = int(stream.integers(1, low=0, high=len(_DIRECTIONS))[0])
    far = max(1, image.shape[0] // SHIFT_ONE_IN)
    down, right = (far * step for step in _DIRECTIONS[chosen])
    padded = np.pad(image, [(far, far), (far, far), (0, 0)], mode="edge")
    rows, columns, _ = image.shape
    return padded[far - down : far - down + rows, far - right : far - right + columns]


def occlusion(image: Pixels, stream: RandomStream) -> Pixels:
    """Cover the image with a grey square at a random position."""
    side = round(OCCLUDED * image.shape[0])
    top, left = (
        int(stream.integers(1, low=0, high=extent - side + 1)[0]) for extent in image.shape[:2]
    )
    found = image.copy()
    found[top : top + side, left : left + side] = 128
    return found


def permuted_patches(image: Pixels, stream: RandomStream) -> Pixels:
    """Cut the image into 4 x 4 patches and permute them."""
    rows, columns, channels = image.shape
    height, width = rows // PATCHES, columns // PATCHES
    cut = image.reshape(PATCHES, height, PATCHES, width, channels).swapaxes(1, 2)
    order = stream.distinct(1, PATCHES**2, PATCHES**2)[0]
    moved = cut.reshape(-1, height, width, channels)[order].reshape(cut.shape)
    found: Pixels = moved.swapaxes(1, 2).reshape(image.shape)
    return found


def contrast(image: Pixels, stream: RandomStream) -> Pixels:
    """Move each channel nearer to its mean."""
    mean = image.mean(axis=(0, 1))
    return _bytes(mean + CONTRAST * (image - mean))


CORRUPTIONS: dict[str, Corruption] = {  # keys are the names on a page, in the order of the parts
    "clean": nothing,
    "noise": noise,
    "blur": blur,
    "shift": shift,
    "covered": occlusion,
    "patches": permuted_patches,
    "contrast": contrast,
}


def _bytes(values: NDArray[np.float64]) -> Pixels:
    return values.round().clip(0, 255).astype(np.uint8)
