"""Specs of single mixers, and user mixers that violate the assumptions of an instrument."""

from __future__ import annotations

from dataclasses import asdict

import torch
from torch import Tensor, nn

from bakeoff.models import ModelSpec, mixer_class
from bakeoff.models.mixer import Mixer, State
from bakeoff.suite.schema import MIXER_ALONE, Trial


def alone(mixer: str, length: int = 16, dim: int = 8, **knobs: int | str | bool) -> ModelSpec:
    config = mixer_class(mixer).Config(**knobs)
    return ModelSpec(
        architecture="mixer_alone",
        mixer=mixer,
        knobs=asdict(config),
        position="none",
        dim=dim,
        depth=1,
        length=length,
        input_kind="vectors",
        input_size=dim,
        output_size=dim,
    )


def own(kind: type[Mixer]) -> str:
    return f"{__name__}:{kind.__name__}"


def trial_of(*subjects: ModelSpec, probe: str = "mixer_time", seed: int = 0) -> Trial:
    return Trial(
        probe=probe,
        task=MIXER_ALONE,
        task_digest="",
        length=subjects[0].length,
        batch=1,
        subjects=subjects,
        training=None,
        seed=seed,
        versions={},
    )


class Unproven(Mixer):
    """A user's mixer without a reference."""

    def __init__(self, *, dim: int, **rest: object) -> None:
        super().__init__(dim=dim, **rest)  # type: ignore[arg-type]
        self.map = nn.Linear(dim, dim)

    def forward(self, x: Tensor, *rest: Tensor | None, **named: Tensor | None) -> Tensor:  # type: ignore[override]
        mixed: Tensor = self.map(x).cumsum(1)
        return mixed


class Wrong(Unproven):
    """A mixer whose reference gives a different output."""

    def reference(self, x: Tensor, *rest: Tensor | None, **named: Tensor | None) -> Tensor:  # type: ignore[override]
        return self(x) * 1.001


class NotANumber(Wrong):
    """A mixer that returns NaN, which differs from any reference."""

    def forward(self, x: Tensor, *rest: Tensor | None, **named: Tensor | None) -> Tensor:  # type: ignore[override]
        return super().forward(x) * torch.nan


class Drawing(Unproven):
    """A mixer that draws random numbers, as its reference does."""

    is_stochastic = True

    def forward(self, x: Tensor, *rest: Tensor | None, **named: Tensor | None) -> Tensor:  # type: ignore[override]
        return x * torch.rand(x.shape, dtype=x.dtype)

    def reference(self, x: Tensor, *rest: Tensor | None, **named: Tensor | None) -> Tensor:  # type: ignore[override]
        return torch.rand(x.shape, dtype=x.dtype) * x


class InPlace(Unproven):
    """A mixer whose step writes into its state."""

    supports_causal = True
    supports_step = True

    def initial_state(self, batch: int) -> State:
        return (torch.zeros(batch, self.dim),)

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        state[0].add_(self.map(x_t))
        return state[0].clone(), state


class Stepless(Unproven):
    """A causal mixer without single steps."""

    supports_causal = True


class Hungry(Unproven):
    """A mixer that always runs out of memory."""

    def forward(self, x: Tensor, *rest: Tensor | None, **named: Tensor | None) -> Tensor:  # type: ignore[override]
        return super().forward(x) + torch.empty(2**60).sum()
