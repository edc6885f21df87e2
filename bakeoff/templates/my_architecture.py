"""Does a wider network of mine classify better?

This file defines an architecture, and an ablation of its width. The next commands are

    bakeoff plan my_architecture.py                   # examines it; shows what would run
    bakeoff run my_architecture.py --scale smoke      # a quick check that everything runs
    bakeoff run my_architecture.py                    # the answer, with a report
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from bakeoff import Ablation, Model, Recipe, Scale, vary
from bakeoff.models import Architecture, PartSeeds
from bakeoff.models.interface import InputKind


class MyArchitecture(Architecture):
    """A convolution over the inputs, the mean of what it finds, and a linear map to the classes."""

    # Which inputs it reads, "vectors" or "tokens", and which answers it gives.
    # `bakeoff list --tasks` shows what each task has and asks for.
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("vectors",)}
    answers = ("class",)

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs, which an ablation sets as Model("my_architecture:MyArchitecture", width=32).

        Attributes:
            width: Number of channels of the convolution.
        """

        width: int = 32

    config: Config

    def build(self, seeds: PartSeeds) -> None:
        """Create the layers; `self.spec` has input_size, output_size and length of the task."""
        spec, width = self.spec, self.config.width
        self.convolution = nn.Conv1d(spec.input_size, width, kernel_size=3, padding=1)
        self.head = nn.Linear(width, spec.output_size)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits `[batch, output_size]` for inputs `[batch, time, input_size]`.

        Add the parameter ``mask=None`` for tasks whose sequences differ in length.
        """
        found = self.convolution(inputs.mT).relu().mean(dim=2)
        logits: Tensor = self.head(found)
        return logits


ABLATION = Ablation(
    question="Does a wider network of mine classify better?",
    baseline=Model("my_architecture:MyArchitecture", width=32),
    # To compare it with a shipped architecture, vary whole models instead:
    # vary("model", [Model("my_architecture:MyArchitecture"), Model("vit", mixer="attention")])
    axes=[vary("width", [8, 32])],
    tasks=["fashion_mnist_patches"],
    probes=["quality", "parameters"],
    recipe=Recipe(learning_rate=3e-3),  # or "tuned": each variant at its own best rate
    scales={"quick": Scale(length=49, steps=300, batch=32, seeds=3)},
)
