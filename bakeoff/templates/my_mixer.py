"""Does a gated average over neighbours replace attention?

This file defines a mixer, and an ablation that compares it with attention. The next commands are

    bakeoff plan my_mixer.py                   # examines the mixer; shows what would run
    bakeoff run my_mixer.py --scale smoke      # a quick check that everything runs
    bakeoff run my_mixer.py                    # the answer, with a report
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from bakeoff import Ablation, Model, Recipe, Scale, vary
from bakeoff.models import Mixer


class MyMixer(Mixer):
    """A weighted average over neighbouring tokens, for each channel, times a gate."""

    # Declare only what is true: `bakeoff plan` examines the mixer and refuses a wrong promise.
    supports_causal = True  # it can be built so that no output depends on a later token
    mask_mode = "exact"  # padding never influences a real token

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs, which an ablation sets as Model(mixer="my_mixer:MyMixer", taps=8).

        Attributes:
            taps: Number of tokens in the average.
        """

        taps: int = 8

    def make_parameters(self, config: Config) -> None:
        """Create the parameters; `self.dim`, `self.max_length` and `self.is_causal` are set."""
        self.average = nn.Conv1d(self.dim, self.dim, config.taps, groups=self.dim)
        self.gate = nn.Linear(self.dim, self.dim)
        self.output = nn.Linear(self.dim, self.dim)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
    ) -> Tensor:
        """Mix `x`, `[batch, time, dim]`, into the same shape; `mask` is True for real tokens."""
        self.check_inputs(x, mask, context, context_mask)
        values = x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0.0)
        others = self.config.taps - 1
        before = others if self.is_causal else others // 2
        padded = functional.pad(values.transpose(1, 2), (before, others - before))
        averaged = self.average(padded).transpose(1, 2)
        mixed: Tensor = self.output(averaged * torch.sigmoid(self.gate(x)))
        return mixed

    # Optional: `reference`, a slow form of the same computation, with which `forward` is compared;
    # `flops`, a formula; `initial_state` and `step`, to generate token by token.


ABLATION = Ablation(
    question="Does a gated average over neighbours replace attention?",
    baseline=Model(mixer="attention", heads=4, position="sinusoidal"),
    # A shipped mixer has a name (`bakeoff list --mixers`), a mixer of yours is "file:Class".
    axes=[vary("mixer", ["attention", "my_mixer:MyMixer"])],
    tasks=["fashion_mnist_patches"],
    probes=["quality", "parameters", "flops"],
    recipe=Recipe(learning_rate=3e-3),  # or "tuned": each variant at its own best rate
    scales={"quick": Scale(dim=64, depth=2, length=49, steps=300, batch=32, seeds=3)},
)
