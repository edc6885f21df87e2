"""Find how many training steps of a variant take as long as the training of the baseline.

Both trainings run in one process, in turns of a few steps, so that other work on the machine slows
both alike. The steps are those of the training loop, with the batches, the recipe and the optimiser
of each; validation is left out. The number is the baseline's steps times the median ratio of the
two times. Turns end when half of the 95 % interval of that ratio is at most 1 %, but not before 16
of them, and with the training of the baseline, or after 256 turns, at the latest. See
`bakeoff.Scale.equal`.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import torch

from bakeoff.suite.events import TrialRemark
from bakeoff.suite.probes.probe import Probe, Said, measurement, started
from bakeoff.suite.schema import PACE_OF_STEPS, TRAINING_STEPS, Trial, metric_spec
from bakeoff.suite.timing.stopping import median_of
from bakeoff.suite.training.loop import TrainingProgress, steps

_NUM_WARM_UP_STEPS = 3
SECONDS_OF_A_TURN = 0.1
FEWEST_TURNS, MOST_TURNS = 16, 256
_HALF_WIDTH = 0.01  # half of the 95 % interval of the ratio, as a share of it
_ENDLESS = 10**9  # steps; none of them is at a point of the learning curve

_Steps = Generator[object, None, None]


class Pace(Probe):
    """The number of steps that take as long as the training of the baseline."""

    name = PACE_OF_STEPS
    version = 1
    grain = "variant"
    depends_on = frozenset({"batch", "training", "num_training_examples", "reference"})
    specs = (metric_spec(TRAINING_STEPS),)

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Time both trainings in turns; the weights are thrown away."""
        assert trial.reference is not None
        assert trial.reference.training is not None
        with ExitStack() as stack:
            own = stack.enter_context(closing((yield from _endless(trial, device))))
            reference = yield from _endless(trial.reference, device)
            stack.enter_context(closing(reference))
            slower = max(_seconds(each, 1, device) for each in (own, reference))
            per_turn = max(1, math.ceil(SECONDS_OF_A_TURN / slower))
            most = min(MOST_TURNS, trial.reference.training.steps // per_turn)
            turns: list[tuple[float, float]] = []
            for _ in range(max(FEWEST_TURNS, most)):
                turns.append(
                    (_seconds(own, per_turn, device), _seconds(reference, per_turn, device))
                )
                ratio = median_of([theirs / mine for mine, theirs in turns])
                if len(turns) >= FEWEST_TURNS and ratio.half_width <= _HALF_WIDTH:
                    break
        mine, theirs = (1e3 * statistics.median(each) for each in zip(*turns, strict=True))
        yield TrialRemark(
            f"a step takes {mine:.3g} ms, a step of the baseline {theirs:.3g} ms; the 95 % "
            f"interval of their ratio is ±{100 * ratio.half_width:.1f} %"
        )
        found = max(1, round(ratio.value * trial.reference.training.steps))
        yield measurement(metric_spec(TRAINING_STEPS), found)


def _endless(trial: Trial, device: str) -> Generator[TrialRemark, None, _Steps]:
    """Begin a training without an end, and run its first steps."""
    _, engine, todo = yield from started(trial, device, None)
    training = replace(todo.training, steps=_ENDLESS, num_evaluations=1)
    found = steps(engine, replace(todo, training=training), TrainingProgress())
    _seconds(found, _NUM_WARM_UP_STEPS, device)
    return found


def _seconds(training: _Steps, num_steps: int, device: str) -> float:
    """Return the seconds of a step, the mean of some in a row."""
    begun = time.perf_counter()
    for _ in range(num_steps):
        next(training)
    if device != "cpu":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - begun) / num_steps
