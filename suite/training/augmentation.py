"""Augment the images of a training batch, in the order of DeiT's recipe.

    repeated_augmentation    a batch has batch / m images, each m times (Hoffer et al. 2020,
                             arXiv:1901.09335; Berman et al. 2019, arXiv:1902.05509). The following
                             augmentations are drawn for each copy separately. The copies are
                             batch / m apart, so that workers, and parts of a batch, have different
                             images
    crop, flip               the image is padded with black and cropped at a random position; then
                             flipped horizontally with probability 1/2
    randaugment              see `randaugment`: on pixels from 0 to 255
    erasing                  a rectangle of 2 % to a third of the area, with 0.3 to 3.3 times as
                             many rows as columns, is filled with normal noise, a number for each
                             pixel and channel; this is after normalising, so that noise has the
                             deviation of the data (Zhong et al. 2020, arXiv:1708.04896, as in
                             DeiT's code: a rectangle that does not fit is drawn again, ten times)
    mixup, cutmix            see `mixing`: of two images and their targets

The result is a pure function of (seed, step), and each augmentation has its own random numbers: a
resumed training gets the same batches as an uninterrupted one, and variants that differ in one
augmentation draw the same numbers for the others. Held-out splits are never augmented. A teacher
gets the same images as its student.

All images with the same operation are processed together: for 64 images of 32 x 32 x 3 the whole
recipe takes about 10 ms of a CPU core, half of them for RandAugment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.interface import INPUTS
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.data_order import RandomStream, Whole
from bakeoff.suite.tasks.task import Batch, Task

AUGMENTATIONS = (  # fields of `Training`; the order seeds the draws, so only append
    "repeated_augmentation",
    "flip",
    "crop",
    "randaugment",
    "erasing",
    "mixup",
    "cutmix",
)
_OF_IMAGES = (*AUGMENTATIONS, "adversarial_steps")  # all fields that need images
_AUGMENTING = 1 << 62  # set in the seeds of the streams used here; no task uses it
_STEPS = 1 << 48  # more than any training has
_AREAS, _RATIO, _ATTEMPTS = (0.02, 1 / 3), 0.3, 10  # for erasing


def why_not_augmented(task: type[Task], recipe: Mapping[str, Any], batch: int) -> str:
    """Return why a training cannot be augmented as requested, as a clause; empty if it can.

    Args:
        task: The task that is trained on.
        recipe: The fields of `Training`.
        batch: The number of examples per step.
    """
    asked = [name for name in _OF_IMAGES if recipe[name] != getattr(Training, name)]
    if not asked:
        return ""
    what = f"{asked[0]}={recipe[asked[0]]} is impossible: "
    if task.input_kind != "image" or task.other_inputs(1):
        return f"{what}the input of {task.name} is not one image"
    if task.asks_for != "class":
        return f"{what}{task.name} does not ask for the class of an image"
    if len(task.pixel_mean) != task.input_size:
        return f"{what}{task.name} does not say how its pixels are normalised (pixel_mean)"
    if batch % recipe["repeated_augmentation"]:
        return f"{what}a batch of {batch} is not a multiple of it"
    if recipe["randaugment"] and task.input_size not in (1, 3):
        return f"randaugment is impossible: images of {task.name} are neither grey nor coloured"
    return ""


def training_batch(task: Task, step: int, batch: int, seed: int, training: Training) -> Batch:
    """Return the task's batch of that step, from 0, augmented by the settings of the training."""
    if all(getattr(training, name) == getattr(Training, name) for name in AUGMENTATIONS):
        return task.training_batch(step, batch, seed)
    times = training.repeated_augmentation
    found = task.training_batch(step, batch // times, seed)
    found = found.map(lambda tensor: torch.cat([tensor] * times))
    images = single_images(found.inputs[INPUTS], task, training, seed=seed, step=step)
    targets = found.targets
    if training.mixup or training.cutmix:
        from bakeoff.suite.training.mixing import Mixing, mixed

        how = Mixing(mixup=training.mixup, cutmix=training.cutmix)
        stream = stream_of("mixup", seed, step)
        images, targets = mixed(images, targets, task.output_size, how, stream)
    return Batch(inputs={**found.inputs, INPUTS: images}, targets=targets)


def stream_of(augmentation: str, seed: int, step: int) -> RandomStream:
    """Return the random numbers of one augmentation in one step."""
    place = AUGMENTATIONS.index(augmentation)
    return RandomStream(_AUGMENTING ^ seed, place * _STEPS + step)


def single_images(
    images: Tensor, task: Task, training: Training, *, seed: int, step: int
) -> Tensor:
    """Augment normalised images `[batch, rows, columns, channels]`, each by itself."""
    mean = torch.tensor(task.pixel_mean)
    deviation = torch.tensor(task.pixel_standard_deviation)
    if training.crop:
        stream = stream_of("crop", seed, step)
        images = cropped(images, training.crop, -mean / deviation, stream)
    if training.flip:
        is_flipped = torch.from_numpy(stream_of("flip", seed, step).uniform(len(images)) < 0.5)
        images = torch.where(is_flipped.view(-1, 1, 1, 1), images.flip(2), images)
    if training.randaugment:
        from bakeoff.suite.training.randaugment import WHITE, rand_augmented

        pixels = ((images * deviation + mean) * WHITE).round().clamp(0, WHITE)
        pixels = rand_augmented(
            pixels.permute(0, 3, 1, 2).contiguous(),
            training.randaugment,
            (mean * WHITE).round(),
            stream_of("randaugment", seed, step),
        )
        images = (pixels.permute(0, 2, 3, 1) / WHITE - mean) / deviation
    if training.erasing:
        images = erased(images, training.erasing, stream_of("erasing", seed, step))
    return images.contiguous()


def cropped(images: Tensor, border: int, black: Tensor, stream: RandomStream) -> Tensor:
    """Return random crops of the images after padding by `border` pixels of the colour `black`."""
    count, rows, columns = images.shape[:3]
    framed = black.repeat(count, rows + 2 * border, columns + 2 * border, 1)
    framed[:, border:-border, border:-border] = images
    first = torch.from_numpy(stream.integers(2, count, low=0, high=2 * border + 1))
    row = first[0, :, None, None] + torch.arange(rows)[:, None]
    column = first[1, :, None, None] + torch.arange(columns)
    return framed[torch.arange(count)[:, None, None], row, column]


def erased(images: Tensor, chance: float, stream: RandomStream) -> Tensor:
    """Return the images, with a random rectangle of some of them replaced by noise."""
    count, rows, columns = images.shape[:3]
    is_chosen = stream.uniform(count) < chance
    low, high = _AREAS
    area = (low + (high - low) * stream.uniform(_ATTEMPTS, count)) * rows * columns
    ratio = np.exp(math.log(_RATIO) * (1 - 2 * stream.uniform(_ATTEMPTS, count)))
    sides = np.rint(np.sqrt(np.stack([area * ratio, area / ratio]))).astype(np.int64)
    fits = (sides[0] < rows) & (sides[1] < columns)
    first_fit, each = fits.argmax(axis=0), np.arange(count)
    height, width = sides[:, first_fit, each]
    room = np.stack([rows - height, columns - width]) + 1
    top, left = (stream.uniform(2, count) * room).astype(np.int64)
    is_chosen &= fits.any(axis=0)
    is_row = _within(top, height, rows)[is_chosen]
    is_column = _within(left, width, columns)[is_chosen]
    is_noise = torch.from_numpy(is_row[:, :, None, None] & is_column[:, None, :, None])
    found, chosen = images.clone(), torch.from_numpy(is_chosen)
    noise = torch.from_numpy(stream.normal(*found[chosen].shape)).to(images.dtype)
    found[chosen] = torch.where(is_noise, noise, found[chosen])
    return found


def _within(first: Whole, length: Whole, count: int) -> NDArray[np.bool_]:
    """Return a mask `[images, count]` of the indices from 0 that are in each image's range."""
    places = np.arange(count)
    return (places >= first[:, None]) & (places < (first + length)[:, None])
