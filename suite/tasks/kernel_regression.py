"""Kernel regression in context: noisy points of an unknown function, then an x; predict its y.

The estimate of Nadaraya 1964 and Watson 1964 is a mean of the y, weighted by a Gaussian kernel of
the distance to each x (`bakeoff.suite.floors.task_specific`). One attention layer is the learned
version of that estimate: its softmax of -(x - x_i)^2 / (2 h^2) is that kernel, its temperature the
bandwidth. Only the points determine the function, so a model must learn the method of regression,
not a function; Garg et al. 2022, "What can transformers learn in-context?" (arXiv:2208.01066), pose
linear functions in the same way.

    function  f(x) = sqrt(2 / 8) sum_k cos(w_k x + b_k), k = 1..8, with w_k normal, of standard
              deviation 1 / 0.3, and b_k uniform: variance 1, and close to a draw of a Gaussian
              process with a Gaussian kernel of width 0.3 (Rahimi and Recht 2007)
    points    length - 1 of them: x uniform in -1 to 1, y = f(x) + normal noise of standard
              deviation 0.3
    input     (x, y, 0) for each point, in the order in which they were drawn; then (x, 0, 1)
    target    f(x) at that x, without noise: the value that a regression estimates
    score     mean squared error; 0 is perfect, and about 1 is reached without the points
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bakeoff.models.interface import InputKind, Outputs
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.metrics import MeanSquaredError, mean_of_squares
from bakeoff.suite.tasks.task import Batch

VERSION = 1
NUM_WAVES = 8
SMOOTHNESS = 0.3  # kernel width of the Gaussian process that the functions approximate
NOISE = 0.3  # standard deviation
SOURCE = definition_source(
    name="kernel_regression",
    title="Noisy points of random smooth functions",
    origin="Nadaraya 1964, doi:10.1137/1109020; Watson 1964, Sankhya A 26(4)",
    definition={
        "function": "mean of cosines",
        "waves": NUM_WAVES,
        "smoothness": SMOOTHNESS,
        "noise": NOISE,
        "x": "uniform in -1 to 1",
        "target": "without noise",
    },
    version=VERSION,
)

Numbers = NDArray[np.float64]


class KernelRegression(GeneratedTask):
    """Prediction of a function at one point from noisy values at others."""

    name = "kernel_regression"
    version = VERSION
    architecture = "classifier"
    asks_for = "number"
    metric = MeanSquaredError()
    source = SOURCE
    floors = ("mean", "nadaraya_watson")
    input_kind: ClassVar[InputKind] = "vectors"
    lengths = (4, 8_192)
    input_size = 3
    output_size = 1

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw a different function for each example."""
        frequencies = stream.normal(count, NUM_WAVES) / SMOOTHNESS
        phases = 2 * math.pi * stream.uniform(count, NUM_WAVES)
        x = 2 * stream.uniform(count, self.length) - 1
        values = waves(x, frequencies, phases)
        noisy = values + NOISE * stream.normal(count, self.length)
        is_query = np.zeros_like(x)
        is_query[:, -1] = 1
        inputs = np.stack([x, np.where(is_query, 0.0, noisy), is_query], axis=2)
        return Batch(
            inputs={"inputs": torch.from_numpy(inputs.astype(np.float32))},
            targets=torch.from_numpy(values[:, -1].astype(np.float32)),
        )

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Return the mean squared error; label smoothing does not apply to numbers."""
        return mean_of_squares(outputs, batch)


def points_of(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the points' x and y, `[batch, points]` each, and the x of the query, `[batch]`."""
    inputs = batch.inputs["inputs"]
    return inputs[:, :-1, 0], inputs[:, :-1, 1], inputs[:, -1, 0]


def waves(x: Numbers, frequencies: Numbers, phases: Numbers) -> Numbers:
    """Return each row's function at its x, `[rows, places]`, wave by wave to save memory."""
    total = np.zeros_like(x)
    for wave in range(frequencies.shape[1]):
        total += np.cos(frequencies[:, wave, None] * x + phases[:, wave, None])
    return total * math.sqrt(2 / frequencies.shape[1])
