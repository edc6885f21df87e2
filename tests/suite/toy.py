"""A tiny task: the class of a sequence is its first token."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bakeoff.models.interface import Outputs
from bakeoff.suite.schema import Training
from bakeoff.suite.tasks.task import Batch, DataSource, Split, Task

NUM_SYMBOLS = 4


class FirstToken(Task):
    """A task on three tokens, scored by accuracy; it records which splits were read, and when."""

    name = "first_token"
    version = 1
    architecture = "classifier"
    asks_for = "class"
    source = DataSource(name="toy", title="", licence="", origin="", sha256="0" * 64, file="")
    input_kind = "tokens"
    input_size = NUM_SYMBOLS
    output_size = NUM_SYMBOLS

    def __init__(self, length: int = 3) -> None:
        super().__init__(length)
        self.read: list[str] = []

    def training_batch(self, step: int, batch: int, seed: int) -> Batch:
        self.read.append("training")
        chance = torch.Generator().manual_seed(1_000_003 * seed + step)
        tokens = torch.randint(NUM_SYMBOLS, (batch, self.length), generator=chance)
        return Batch(inputs={"inputs": tokens}, targets=tokens[:, 0])

    def held_out(self, split: Split, batch: int) -> Iterator[Batch]:
        self.read.append(split)
        tokens = torch.cartesian_prod(*[torch.arange(NUM_SYMBOLS)] * self.length)
        for first in range(0, len(tokens), batch):
            chosen = tokens[first : first + batch]
            yield Batch(inputs={"inputs": chosen}, targets=chosen[:, 0])

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        return F.cross_entropy(outputs.logits, batch.targets)


class Reader(nn.Module):
    """A model that can learn the task: one linear map of the tokens and their positions."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.map = nn.Linear(3 * NUM_SYMBOLS, NUM_SYMBOLS)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.map(F.one_hot(inputs, NUM_SYMBOLS).flatten(1).float())
        return logits


def training(steps: int, **changes: object) -> Training:
    fields = {
        "steps": steps,
        "learning_rate": 0.05,
        "warmup_steps": 5,
        "weight_decay": 0.01,
        "num_evaluations": 4,
    }
    return Training(**(fields | changes))  # type: ignore[arg-type]
