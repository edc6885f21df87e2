"""Small coloured images with known pixels, for tests of augmentation."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from bakeoff.suite.tasks.task import Batch, Split, Task
from tests.suite.training.resumed import Observed

ROWS, COLUMNS, CHANNELS, CLASSES = 10, 12, 3, 4


class Images(Observed):
    """A task of 10 x 12 x 3 noise images whose classes cannot be learnt."""

    name = "toy_images"
    input_kind = "image"
    grid = (ROWS, COLUMNS)
    input_size = CHANNELS
    output_size = CLASSES
    pixel_mean = (0.5, 0.4, 0.3)
    pixel_standard_deviation = (0.2, 0.25, 0.3)
    loss = Task.loss

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        found = super().training_batch(step, batch, seed)
        chance = torch.Generator().manual_seed(97 * step + seed)
        return Batch(inputs={"inputs": self._drawn(batch, chance)}, targets=found.targets)

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        chance = torch.Generator().manual_seed(5)
        for _ in range(2):
            targets = torch.arange(batch) % CLASSES
            yield Batch(inputs={"inputs": self._drawn(batch, chance)}, targets=targets)

    def _drawn(self, count: int, chance: torch.Generator) -> Tensor:
        pixels = torch.randint(256, (count, ROWS, COLUMNS, CHANNELS), generator=chance) / 255
        mean, deviation = torch.tensor(self.pixel_mean), torch.tensor(self.pixel_standard_deviation)
        return (pixels - mean) / deviation


class FlatReader(nn.Module):
    """Batch norm and one linear map of all pixels; it stores its inputs and its mode."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.norm = nn.BatchNorm1d(ROWS * COLUMNS * CHANNELS)
        self.map = nn.Linear(ROWS * COLUMNS * CHANNELS, CLASSES)
        self.read: list[tuple[bool, Tensor]] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.read.append((self.training, inputs))
        logits: Tensor = self.map(self.norm(inputs.flatten(1)))
        return logits
