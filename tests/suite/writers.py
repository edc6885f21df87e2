"""Small modules that read a source and write a target, without an architecture of the suite."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff.models.interface import Outputs
from bakeoff.suite.tasks.sequence_to_sequence.digits import END, START, ZERO, Reversal
from bakeoff.suite.tasks.task import Batch

NUM_SYMBOLS = Reversal.output_size


class GruPair(nn.Module):
    """One GRU reads the source, another one writes the target; the outputs include a penalty."""

    def __init__(self, dim: int = 128, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(NUM_SYMBOLS, dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, NUM_SYMBOLS)

    def encode(self, context: Tensor, context_mask: Tensor) -> Tensor:
        real = self.embedding(context) * context_mask.unsqueeze(-1)
        last: Tensor = self.encoder(real)[1]
        return last.transpose(0, 1)

    def forward(
        self, inputs: Tensor, *, mask: Tensor, context: Tensor, context_mask: Tensor
    ) -> Outputs:
        encoded = self.encode(context, context_mask)
        read = self.decoder(self.embedding(inputs), encoded.transpose(0, 1).contiguous())[0]
        return Outputs(self.head(read), {"size": encoded.square().mean()})

    def initial_state(self, batch: int, encoded: Tensor) -> Tensor:
        assert len(encoded) == batch
        return encoded

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        now = self.embedding(tokens.unsqueeze(1)), state.transpose(0, 1).contiguous()
        read, after = self.decoder(*now)
        return self.head(read[:, 0]), after.transpose(0, 1)


class Successor(nn.Module):
    """A model that answers the successor of each symbol, and starts from the source's first.

    Its own continuation therefore differs from its answers to the correct symbols.
    """

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift

    def encode(self, context: Tensor, context_mask: Tensor) -> Tensor:
        assert context_mask[:, 0].all()
        return context[:, 0]

    def forward(self, inputs: Tensor, *, context: Tensor, **masks: Tensor) -> Tensor:
        return self._answered(inputs, context[:, :1])

    def initial_state(self, batch: int, encoded: Tensor) -> Any:
        return {"first": encoded, "num": 0}

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self._answered(tokens, state["first"]), {**state, "num": state["num"] + 1}

    def _answered(self, tokens: Tensor, first: Tensor) -> Tensor:
        symbols = torch.where(tokens == START, first, tokens) + self.shift
        is_last = symbols >= NUM_SYMBOLS
        return functional.one_hot(symbols.masked_fill(is_last, END), NUM_SYMBOLS).float()


class Penalised(Reversal):
    """Reversal with a penalty in its loss, read from the model's auxiliary outputs."""

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        penalty = outputs.auxiliary["size"]
        return super().loss(outputs, batch, label_smoothing) + penalty


def counted(*rows: list[int]) -> Batch:
    """Return a batch of sources of one digit, whose targets are the digits after it."""
    longest = max(map(len, rows))
    asked = torch.tensor([[ZERO + d for d in row] + [END] * (longest - len(row)) for row in rows])
    inputs = torch.cat([torch.full((len(rows), 1), START), asked[:, 1:-1]], dim=1)
    context = asked[:, :1]
    return Batch(
        inputs={"inputs": inputs, "context": context, "context_mask": context >= ZERO},
        targets=asked[:, 1:],
    )
