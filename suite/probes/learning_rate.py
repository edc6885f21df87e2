"""Search for the learning rate of a variant, on the validation split.

A comparison at one rate favours the variants that the rate suits, so each variant gets its own.
Rates are 1, 2 or 5 times a power of ten. Three neighbouring rates are tried first; while the best
rate tried is the lowest or the highest, the next one beyond is tried. So the optimum of every
variant lies between worse neighbours and is found by the same rule, and the cost of the search is
part of its result. A rate is judged by the mean score of several seeds; a rate at which a seed
diverges counts as the worst.

The trainings of the search may be shorter than those that use its rate; see `Recipe.search_steps`.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from bakeoff.suite.errors import CheckpointError, Diverged
from bakeoff.suite.events import TrialRemark
from bakeoff.suite.probes.probe import TRAINING, Probe, Said, measurement, started, task_metric
from bakeoff.suite.schema import (
    LEARNING_RATE,
    Measurement,
    MetricSpec,
    Parallel,
    Point,
    Status,
    Trial,
    metric_spec,
)
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.training.checkpoint import UNFINISHED, Checkpointer
from bakeoff.suite.training.loop import VALIDATION, train_resuming
from bakeoff.suite.training.tensor_io import make_folder, read_json, write_json

SEEDS = (0, 1)
LOWEST, HIGHEST = 1e-6, 10.0
_DIVERGED = -math.inf
_STEPS = (1, 2, 5)


class LearningRate(Probe):
    """The best rate by the task's metric on the validation split, and the score at each rate."""

    name = LEARNING_RATE
    version = 1
    grain = "variant"
    depends_on = TRAINING

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return the metric of the rate; scores are added at the coordinates that were tried."""
        return (metric_spec(LEARNING_RATE),)

    def why_not(self, model: object, parallel: Parallel | None) -> str:
        """Return "": the search runs in one process, even for trainings on several workers."""
        return ""

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Train at each rate with each seed."""
        return self.measure_resuming(trial, device, None)

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Train at each rate, reusing the scores from before the trial was interrupted."""
        assert trial.training is not None, "a search is planned with training settings"
        task = task_class(trial.task)
        score = replace(task_metric(task), name=f"{VALIDATION}{task.metric.name}")
        tried: dict[float, float] = {}
        found: list[Measurement] = []
        while (rate := next_rate(tried, trial.training.learning_rate)) is not None:
            scores = [_kept(trial, rate, seed, device, checkpointer) for seed in SEEDS]
            mean = math.fsum(scores) / len(SEEDS)
            tried[rate] = goodness(mean, score.better)
            yield TrialRemark(f"at a learning rate of {rate:g}: {score.name} {mean:.6g}")
            found.append(_at(rate, mean, score))
        best = best_rate(tried)
        if tried[best] == _DIVERGED:
            raise Diverged(f"it diverged at each learning rate from {min(tried):g} on")
        yield measurement(self.metrics(None, trial.length)[0], best)
        yield from found


def _at(rate: float, mean: float, score: MetricSpec) -> Measurement:
    spec = replace(score, at=f"{LEARNING_RATE}={rate:g}")
    if math.isfinite(mean):
        return measurement(spec, mean)
    return measurement(spec, None, status=Status.DIVERGED, reason="a seed diverged")


def next_rate(tried: Mapping[float, float], first: float) -> float | None:
    """Return the rate to try next, or None if the best one lies between two others.

    It is also None if the next rate would be outside `LOWEST` to `HIGHEST`.

    Args:
        tried: Goodness by rate; higher is better, and -inf means that the training diverged.
        first: The rate to begin with.
    """
    wanted = [neighbour(first, -1), first, neighbour(first, 1)]
    if left := [rate for rate in wanted if rate not in tried]:
        return left[0]
    best = best_rate(tried)
    if best == min(tried):
        beyond = neighbour(best, -1)
    elif best == max(tried):
        beyond = neighbour(best, 1)
    else:
        return None
    return beyond if LOWEST <= beyond <= HIGHEST else None


def goodness(mean: float, better: str) -> float:
    """Convert a score to goodness: higher is better, and -inf means that the training diverged."""
    if not math.isfinite(mean):
        return _DIVERGED
    return -mean if better == "lower" else mean


def best_rate(tried: Mapping[float, float]) -> float:
    """Return the best rate, the lowest one in a tie."""
    return min(tried, key=lambda rate: (-tried[rate], rate))


def neighbour(rate: float, step: int) -> float:
    """Return the next rate of 1, 2, 5, 10, ... above `rate` (`step` 1) or below it (`step` -1)."""
    power = math.floor(math.log10(rate) + 1e-9)
    grid = [float(f"{factor}e{power + shift}") for shift in (-1, 0, 1) for factor in _STEPS]
    beyond = [each for each in grid if (each - rate) * step > 1e-9 * rate]
    return min(beyond) if step > 0 else max(beyond)


def _score(
    trial: Trial, rate: float, seed: int, device: str, checkpointer: Checkpointer | None
) -> float:
    """Return the score on the validation split after training; NaN if the training diverges."""
    assert trial.training is not None
    training = replace(trial.training, learning_rate=rate, num_evaluations=1)
    alike = replace(trial, seed=seed, training=training)
    last: Point | None = None
    try:
        for said in _trained(alike, device, checkpointer):
            if isinstance(said, Point) and said.metric.startswith(VALIDATION):
                last = said
    except Diverged:
        return math.nan
    assert last is not None, "there is an evaluation after the last step"
    return last.value


def _trained(trial: Trial, device: str, checkpointer: Checkpointer | None) -> Iterator[Said]:
    _, engine, todo = yield from started(trial, device, checkpointer)
    yield from train_resuming(engine, todo, None)


def _kept(
    trial: Trial, rate: float, seed: int, device: str, checkpointer: Checkpointer | None
) -> float:
    """Return `_score`, read from a file next to the checkpoints if it was computed before."""
    if checkpointer is None:
        return _score(trial, rate, seed, device, None)
    file = checkpointer.folder / checkpointer.trial_id / f"score-{rate:g}-{seed}.json"
    with suppress(CheckpointError):
        return float(read_json(file))
    found = _score(trial, rate, seed, device, checkpointer)
    with suppress(OSError):  # the score is then computed again after an interruption
        make_folder(file.parent)
        draft = file.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")
        write_json(draft, found)
        os.replace(draft, file)
    return found
