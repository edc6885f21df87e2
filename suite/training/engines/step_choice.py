"""Choose how the steps of a training run on a GPU, from measured gains and times of compiling.

A compiled model is worth its compiling in a long training only. The choice is a pure function of
the trial, and of whether it has a GPU: all seeds of a variant, and a training that resumes on
another machine, run their steps alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from bakeoff.suite.schema import StepRuntime
from bakeoff.suite.training.engines.recording import COMPILED, RECORDED


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """The time of a training step as one CUDA graph, of the model and of the compiled model.

    Attributes:
        flops: FLOPs of the step: three forward passes, by formula.
        recorded_seconds: Seconds of a replay.
        compiled_seconds: The same with the compiled model.
    """

    flops: float
    recorded_seconds: float
    compiled_seconds: float


# The baseline of `heads` at standard scale (six blocks of width 256, 128 tokens, bf16) with 64 and
# 256 sequences in a batch, on one H200 with torch 2.11, 2026-11-26. Measure them again with
# `python -m tools.gpu_visit` (part `times`).
MEASURED_STEPS = (
    MeasuredStep(flops=2.52e11, recorded_seconds=3.53e-3, compiled_seconds=2.38e-3),
    MeasuredStep(flops=1.009e12, recorded_seconds=10.41e-3, compiled_seconds=6.13e-3),
)
# The seconds of compiling that model, with an empty cache (14 to 16), and the number of its
# modules, six times those of one block: each is traced, so that more of them take longer.
SECONDS_TO_COMPILE, MODULES_COMPILED = 16.0, 150


@dataclass(frozen=True, kw_only=True)
class StepChoice:
    """How the steps of a training run.

    Attributes:
        runtime: ``eager``, ``graph`` or ``compiled``.
        why: The reason for ``eager``, or how the choice between the others was made; a clause.
    """

    runtime: StepRuntime
    why: str = ""

    @property
    def said(self) -> str:
        """The choice in words, without the reason for a graph."""
        if self.runtime == "eager":
            return f"eagerly: {self.why}" if self.why else "eagerly"
        return RECORDED if self.runtime == "graph" else f"{COMPILED}; {RECORDED}"


def seconds_of_step(flops: float) -> tuple[float, float]:
    """Return the estimated seconds of a recorded step, and of a compiled and recorded one.

    The estimate is the line through the two measured steps. At another precision than bf16, or on a
    slower GPU, a step takes longer, so that compiling pays earlier than estimated.
    """
    few, many = MEASURED_STEPS
    share = (flops - few.flops) / (many.flops - few.flops)
    return (
        few.recorded_seconds + share * (many.recorded_seconds - few.recorded_seconds),
        few.compiled_seconds + share * (many.compiled_seconds - few.compiled_seconds),
    )


def choice_by_time(num_steps: int, flops: float, num_modules: float) -> StepChoice:
    """Return ``compiled`` if the steps together save more time than compiling takes.

    Args:
        num_steps: The steps of the training.
        flops: FLOPs of one of them.
        num_modules: The number of modules of the model.
    """
    recorded, compiled = seconds_of_step(flops)
    gain = recorded / compiled
    saved = num_steps * recorded * (1 - 1 / gain)
    taken = SECONDS_TO_COMPILE * max(1.0, num_modules / MODULES_COMPILED)
    why = f"compiling takes about {taken:.0f} s and saves about {saved:.0f} s"
    return StepChoice(runtime="compiled" if saved > taken else "graph", why=why)
