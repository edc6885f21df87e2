"""Choose how the steps of a training run on a GPU, from measured gains and times of compiling.

A compiled model is worth its compiling in a long training only. The choice is a pure function of
the trial, and of whether it has a GPU: all seeds of a variant, and a training that resumes on
another machine, run their steps alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from bakeoff.suite.schema import StepRuntime
from bakeoff.suite.training.engines.recording import COMPILED, RECORDED

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


def choice_by_time(
    num_steps: int, recorded: float, compiled: float, num_modules: float
) -> StepChoice:
    """Return ``compiled`` if the steps together save more time than compiling takes.

    Args:
        num_steps: The steps of the training.
        recorded: Seconds of a recorded step.
        compiled: Seconds of a step that is compiled and recorded.
        num_modules: The number of modules of the model.
    """
    saved = num_steps * (recorded - compiled)
    taken = SECONDS_TO_COMPILE * max(1.0, num_modules / MODULES_COMPILED)
    why = f"compiling takes about {taken:.0f} s and saves about {saved:.0f} s"
    return StepChoice(runtime="compiled" if saved > taken else "graph", why=why)
