"""Estimate the wall time of trials from the FLOPs of their models.

On a CPU the rates are rough figures for one core; on a GPU they were measured, see
`bakeoff.suite.probes.gpu_steps`. A run corrects them with the trials that have finished
(`bakeoff.suite.commands.sweep_history`), so that only the ratios matter there.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from bakeoff.models import ModelSpec
from bakeoff.suite.floors.registry import FLOORS
from bakeoff.suite.planning.gpu_specs import H100
from bakeoff.suite.planning.loader import tried
from bakeoff.suite.probes.gpu_steps import launched_seconds, step_seconds
from bakeoff.suite.probes.pace import FEWEST_TURNS, MOST_TURNS, SECONDS_OF_A_TURN
from bakeoff.suite.probes.probe import (
    TRAINING_OVER_FORWARD,
    flops_of_example,
    lengths_of,
    num_recurrent_blocks,
    step_choice,
)
from bakeoff.suite.probes.probe import probe as probe_named
from bakeoff.suite.schema import LEARNING_RATE, Resources, Trial
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.timing.stopping import ON_GPU
from bakeoff.suite.training.adversarial import passes_per_step

_FLOPS_PER_SECOND_OF_A_CPU = 4.5e10
_SHARE_OF_A_GPU = 0.1  # share of its peak rate when a trained model is examined
# How many times as fast eight trainings run side by side on one GPU as one after the other:
# measured with models of width 256, see docs/gpu/README.md.
_GAIN_OF_SHARING = 1.07
# Overhead on a CPU that the FLOPs do not cover: per training step (Python, optimizer, data), and
# per token in each block that processes tokens sequentially.
_SECONDS_PER_STEP = 4e-3
_SECONDS_PER_TOKEN = 1e-4
_SECONDS_PER_CALL = 2e-3  # overhead of a forward pass in decoding or acting
_EVALUATION_SHARE = 0.3  # share of the training time
_TRAININGS_PER_SEARCH = 8  # usually four rates with two seeds; see probes/learning_rate.py
_SENTENCES_WRITTEN = 1_000  # number of sentences of a test split
_STEPS_PER_TIMING = 11  # with several workers; see probes/data_parallel.py
_SECONDS_TO_BUILD_AND_RECORD = 0.2  # a subject of a timing
_SECONDS_PER_TIMING_RUN, _ROUNDS_PER_TIMING_RUN = 5.0, 12  # minimum; see timing/stopping.py
_SECONDS_TO_START = 8.0  # the cluster, the imports of its workers, the store
_SECONDS_TO_START_A_PROCESS = 3.0
_SECONDS_TO_START_ON_A_GPU, _SECONDS_TO_RECORD = 1.0, 0.6  # once in a process; for each training
_SECONDS_TO_READ_COMPILED = 3.0  # from the cache, into which the first training of a shape compiles
_SECONDS_TO_START_WORKERS = 12.0
_SECONDS_WITHOUT_TRAINING = 1.0  # to examine a trained model
_SECONDS_OF_A_COUNT = 0.02
_SECONDS_OF_QUICK_FLOORS, _SECONDS_OF_FLOORS = 0.3, 4.0


def seconds_of(trial: Trial, resources: Resources, gpu: Mapping[str, float] = H100) -> float:
    """Return the estimated wall time of a trial.

    Args:
        trial: The trial.
        resources: The resources that it requests.
        gpu: FLOPs per second of large matrix products on its GPU, by precision.
    """
    if not trial.subjects:
        are_quick = all(FLOORS[name].is_quick for name in task_class(trial.task).floors)
        return _SECONDS_OF_QUICK_FLOORS if are_quick else _SECONDS_OF_FLOORS
    if trial.pace is not None and trial.pace.reference is not None:
        return seconds_of(trial.pace.reference, resources, gpu)
    rate = _flops_per_second(trial, resources, gpu)
    if trial.training is None and trial.parallel is None and not trial.is_timing:
        if "beam" in probe_named(trial.probe).depends_on:
            return _SECONDS_WITHOUT_TRAINING + _seconds_of_writing(trial, rate)
        return _SECONDS_WITHOUT_TRAINING if trial.trained else _SECONDS_OF_A_COUNT
    per_step = _seconds_of_a_step(trial, resources, gpu, rate)
    if trial.reference is not None:
        starts = 2 * (_SECONDS_TO_START_ON_A_GPU + _SECONDS_TO_RECORD) if resources.num_gpus else 0
        a_turn = 2 * max(SECONDS_OF_A_TURN, per_step)
        timed = FEWEST_TURNS * a_turn
        # On a GPU the fewest turns are assumed to be enough, since its step times vary less.
        if trial.reference.training and not resources.num_gpus:
            whole = 2 * trial.reference.training.steps * per_step
            timed = min(max(timed, whole), MOST_TURNS * a_turn)
        return starts + timed + 20 * per_step
    steps = trial.training.steps * (1 + _EVALUATION_SHARE) if trial.training else 0.0
    if trial.parallel is not None:  # a timing also measures a single worker, and profiles
        shared = steps / trial.num_workers if steps else 2 * _STEPS_PER_TIMING
        return _SECONDS_TO_START_WORKERS + shared * per_step
    if steps:
        num_trainings = _TRAININGS_PER_SEARCH if trial.probe == LEARNING_RATE else 1
        one = steps * per_step + _seconds_of_acting(trial, rate)
        if resources.num_gpus:
            is_compiled = step_choice(trial, on_gpu=True).runtime == "compiled"
            to_start = _SECONDS_TO_START_ON_A_GPU + is_compiled * _SECONDS_TO_READ_COMPILED
            return to_start + num_trainings * (_SECONDS_TO_RECORD + one)
        return num_trainings * one
    if resources.num_gpus:
        return _SECONDS_TO_START_A_PROCESS + _seconds_of_a_timing_on_a_gpu(trial, per_step)
    per_run = max(_SECONDS_PER_TIMING_RUN, _ROUNDS_PER_TIMING_RUN * per_step)
    return _SECONDS_TO_START_A_PROCESS + (1 + len(trial.decoding)) * per_run


@dataclass(frozen=True, kw_only=True)
class PlannedWork:
    """The estimated work of trials that have not run, from which their wall time follows.

    Attributes:
        num_trials: The number of trials.
        num_cpus: CPUs that one worker requests.
        num_gpus: GPUs that one worker requests.
        packed_seconds: Total time of all workers of the trials that share a machine; on a shared
            GPU a trial counts in proportion to its share.
        longest_seconds: Time of the longest of these trials, if nothing else runs.
        alone_seconds: Total time of the trials that have a machine to themselves.
    """

    num_trials: int
    num_cpus: int
    num_gpus: float
    packed_seconds: float
    longest_seconds: float
    alone_seconds: float

    def seconds(self, num_cpus: int) -> float:
        """Return the estimated wall time on `num_cpus` CPUs: packed trials first, then timings.

        If trials request GPUs, the machine is assumed to have the GPUs of one trial.
        """
        slots = 1 if self.num_gpus else max(1, num_cpus // self.num_cpus)
        packed = max(self.packed_seconds / slots, self.longest_seconds)
        return _SECONDS_TO_START + packed + self.alone_seconds


def planned_work(
    trials: Sequence[Trial],
    resources: Resources,
    gpu: Mapping[str, float] = H100,
    measured: Mapping[str, float] | None = None,
) -> PlannedWork:
    """Return the estimated work of these trials.

    Args:
        trials: The trials.
        resources: The resources of the plan.
        gpu: FLOPs per second of large matrix products on the GPU, by precision.
        measured: trial_id -> seconds that follow from trials which have run, in place of the
            estimate.
    """
    packed, longest, alone = 0.0, 0.0, 0.0
    for trial in trials:
        asked = resources.for_trial(trial)
        seconds = (measured or {}).get(trial.trial_id) or seconds_of(trial, asked, gpu)
        if trial.is_timing:
            alone += seconds
        else:
            packed += seconds * trial.num_workers * asked.share
            own = seconds_of(trial, asked.alone, gpu) if asked.is_shared else seconds
            longest = max(longest, own)
    return PlannedWork(
        num_trials=len(trials),
        num_cpus=resources.num_cpus,
        num_gpus=resources.num_gpus,
        packed_seconds=packed,
        longest_seconds=longest,
        alone_seconds=alone,
    )


def kinds_of(trial: Trial) -> tuple[Hashable, ...]:
    """Return the kinds of trials to which this one belongs, from the narrowest to the widest.

    The trials of the narrowest kind differ only in the seed; the next kind is a probe, a task and a
    mixer. Trainings are of one kind whatever their purpose, such as a search for the learning rate
    and a training that uses its result.
    """
    sort = "training" if trial.training is not None else trial.probe
    mixers = tuple(of.mixer or of.architecture for of in trial.subjects)
    models = tuple(of.spelling for of in trial.subjects)
    twin = (trial.length, trial.batch, models, repr(trial.training), repr(trial.parallel))
    of_probe = (trial.probe, trial.task, mixers)
    wider: tuple[Hashable, ...] = ((sort, trial.task, mixers), (sort, trial.task), sort)
    return (*of_probe, *twin), of_probe, *(kind for kind in wider if kind != of_probe)


def _flops_per_second(trial: Trial, resources: Resources, gpu: Mapping[str, float]) -> float:
    if resources.num_gpus:
        return _SHARE_OF_A_GPU * gpu[trial.settled_precision] * resources.num_gpus
    return _FLOPS_PER_SECOND_OF_A_CPU * resources.num_threads


def _seconds_of_a_step(
    trial: Trial, resources: Resources, gpu: Mapping[str, float], rate: float
) -> float:
    if resources.num_gpus:
        slower = resources.share * (_GAIN_OF_SHARING if resources.is_shared else 1.0)
        return _seconds_on_a_gpu(trial, gpu[trial.settled_precision]) / slower
    computing = trial.batch * _flops_of_a_step(trial) / rate
    one_by_one = trial.length * sum(map(num_recurrent_blocks, trial.subjects))
    return computing + _SECONDS_PER_STEP + _SECONDS_PER_TOKEN * one_by_one


def _seconds_of_a_timing_on_a_gpu(trial: Trial, per_step: float) -> float:
    """Return the seconds of the graphs and of the launches of a timing trial.

    They last as long as their limits say, and longer if the fewest rounds take longer; in a round
    each subject runs three operations, which together take about as long as two steps.
    """
    rounds = ON_GPU.least_rounds + ON_GPU.warm_up_rounds
    one_phase = max(ON_GPU.most_seconds, rounds * 2 * per_step)
    to_build = _SECONDS_TO_BUILD_AND_RECORD * len(trial.subjects)
    return 2 * one_phase + to_build


def _seconds_on_a_gpu(trial: Trial, peak: float) -> float:
    """Return the seconds of a training step of all models of the trial on a whole GPU."""
    lengths = tuple(lengths_of(trial).items())
    is_sampled = trial.training is not None and trial.training.scheduled_sampling > 0
    per_step = passes_per_step(trial.training)
    runtime = step_choice(trial, on_gpu=True).runtime if trial.training else "graph"

    def seconds(spec: ModelSpec) -> float:
        with tried() if spec.is_own else nullcontext():
            recorded = step_seconds(
                spec,
                batch=trial.batch,
                length=trial.length,
                forward_flops=_flops(spec, lengths),
                peak=peak,
                is_compiled=runtime == "compiled",
            )
            launches = launched_seconds(spec, trial.length) if runtime == "eager" else 0.0
        return max(recorded, launches)

    total = (per_step + is_sampled / TRAINING_OVER_FORWARD) * sum(map(seconds, trial.subjects))
    teachers = trial.teacher.subjects if trial.teacher else ()
    return total + per_step * sum(map(seconds, teachers)) / TRAINING_OVER_FORWARD


def _seconds_of_writing(trial: Trial, rate: float) -> float:
    """Return the time to score each sentence once and to decode it with each hypothesis.

    Decoding takes one step for each symbol of the longest sentence of a batch.
    """
    num_steps = math.ceil(_SENTENCES_WRITTEN / trial.batch) * trial.length
    computing = _SENTENCES_WRITTEN * (1 + trial.beam) * _forward_flops(trial) / rate
    return computing + num_steps * _SECONDS_PER_CALL


def _seconds_of_acting(trial: Trial, rate: float) -> float:
    """Return the time of the evaluations in which the model acts, one step after the other."""
    assert trial.training is not None, "a model acts in a training only"
    task = task_class(trial.task)
    num_actions = task.num_actions_taken(trial.training.num_evaluations)
    if not num_actions:
        return 0.0
    return num_actions * (_forward_flops(trial) / rate + _SECONDS_PER_CALL / trial.batch)


def _forward_flops(trial: Trial) -> float:
    """Return the forward FLOPs of all models of the trial for one example."""
    lengths = tuple(lengths_of(trial).items())
    return sum(_flops(model, lengths) for model in trial.subjects)


def _flops_of_a_step(trial: Trial) -> float:
    """Return the FLOPs of a training step for one example, with the passes that a recipe adds."""
    is_sampled = trial.training is not None and trial.training.scheduled_sampling > 0
    per_step = passes_per_step(trial.training)
    total = (per_step * TRAINING_OVER_FORWARD + is_sampled) * _forward_flops(trial)
    lengths = tuple(lengths_of(trial).items())
    teachers = trial.teacher.subjects if trial.teacher else ()
    return total + per_step * sum(_flops(model, lengths) for model in teachers)


def _flops(spec: ModelSpec, lengths: tuple[tuple[str, int], ...]) -> float:
    """Return the forward FLOPs of one example; a user's code may run for it."""
    with tried() if spec.is_own else nullcontext():
        return flops_of_example(spec, lengths)
