"""Estimate the time that a trial takes from the FLOPs of its model; for plans, order and time left.

The rates are round figures for one CPU core and one GPU. The time left of a sweep is scaled by the
times of finished trials, so that only the ratios matter; before any has finished, by the time of a
matrix product.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Hashable, Mapping
from functools import cache

import torch

from models import ModelError, ModelSpec, architecture_class, build_shapes, mixer_class
from models.registry import mixer_pattern
from suite.planning.loader import tried
from suite.probes.probe import lengths_of
from suite.probes.probe import probe as probe_named
from suite.schema import LEARNING_RATE, Resources, Trial
from suite.tasks.registry import task_class
from suite.tasks.worlds.world_task import WorldTask
from suite.training.adversarial import passes_per_step

_FLOPS_PER_SECOND_OF_A_CPU = 4.5e10
# FLOPs per second of a GPU's matrix products, by the precision of a recipe; NVIDIA's data sheet of
# the H100 SXM, without sparsity. `suite.planning.cards` has others.
H100: Mapping[str, float] = {"float32": 67e12, "tf32": 494.5e12, "bf16": 989.5e12}
_SHARE_OF_A_GPU = 0.15  # of what it does in large products; a guess for models of width 256
_TRAINING_OVER_FORWARD = 3.0
_EVALUATION_SHARE = 0.3  # of the training time
_SECONDS_AT_LEAST = 0.02
_SECONDS_OF_A_LOOK = 1.0  # at a model that another trial has trained
_SENTENCES_WRITTEN = 1_000  # of a test split
_SECONDS_OF_A_SYMBOL = 1.5e-3  # of a step of a search, that no FLOPs account for
_SECONDS_OF_A_MOVE = 2e-3  # of a batch of episodes, that no FLOPs account for: Python, the world
_SECONDS_OF_A_STEP = 2e-3  # that no FLOPs account for: Python, the optimiser, the data
_SECONDS_OF_A_REPLAY = 1e-3  # the same on a GPU: kernels too small to fill it
_SECONDS_OF_A_TOKEN = 1.5e-5  # of a recurrence on a GPU, forward and backward, in each block
_SECONDS_OF_FLOORS = 0.3
_SECONDS_OF_LONG_FLOORS = 4.0  # counts of n-grams, a linear classifier
_SHORT_FLOORS = frozenset({"uniform", "majority", "shown_answers"})
_SIDE = 256  # of the matrix product that shows how fast this machine is
_SAMPLES, _PRODUCTS = 6, 25  # the fastest sample counts: others met what lasts a moment only
_PRODUCT_FLOPS_PER_SECOND = 8.0e10  # where trainings do `_FLOPS_PER_SECOND_OF_A_CPU`
_TRAININGS_OF_A_SEARCH = 8  # mostly four rates, with two seeds; see probes/learning_rate.py
_STEPS_OF_A_TIMING = 11  # see probes/data_parallel.py
_SECONDS_OF_A_CONTEST = 5.0  # see timing/stopping.py: warm-up, and rounds that count
_ROUNDS_OF_A_CONTEST = 12  # where a round takes long
_SECONDS_TO_START_A_PROCESS = 3.0
_SECONDS_TO_START_WORKERS = 12.0


def seconds_of(trial: Trial, resources: Resources, gpu: Mapping[str, float] = H100) -> float:
    """Rough wall time of one trial on the resources that it asks for, on GPUs as fast as that."""
    if not trial.subjects:
        is_long = not _SHORT_FLOORS.issuperset(task_class(trial.task).floors)
        return _SECONDS_OF_LONG_FLOORS if is_long else _SECONDS_OF_FLOORS
    if trial.training is None and trial.parallel is None and not trial.is_timing:
        if "beam" in probe_named(trial.probe).depends_on:
            return _SECONDS_OF_A_LOOK + _seconds_of_writing(trial, resources, gpu)
        return _SECONDS_OF_A_LOOK if trial.trained else _SECONDS_AT_LEAST
    per_step = _seconds_of_a_step(trial, resources, gpu)
    if trial.parallel is not None:
        return _SECONDS_TO_START_WORKERS + _of_workers(trial, per_step)
    if trial.training is not None:
        trainings = _TRAININGS_OF_A_SEARCH if trial.probe == LEARNING_RATE else 1
        one = per_step * trial.training.steps * (1 + _EVALUATION_SHARE)
        return _SECONDS_AT_LEAST + trainings * (one + _seconds_of_playing(trial, resources, gpu))
    rounds = per_step * _ROUNDS_OF_A_CONTEST
    num_contests = 1 + len(trial.decoding)
    contests = num_contests * max(_SECONDS_OF_A_CONTEST, rounds)
    return _SECONDS_TO_START_A_PROCESS + contests


def _seconds_of_a_step(trial: Trial, resources: Resources, gpu: Mapping[str, float]) -> float:
    rate = _flops_per_second(trial, resources, gpu)
    computing = trial.batch * _flops_of_training(trial) / rate
    if not resources.num_gpus:
        return computing + _SECONDS_OF_A_STEP
    one_by_one = trial.length * sum(map(_num_recurrent_blocks, trial.subjects))
    return computing + _SECONDS_OF_A_REPLAY + _SECONDS_OF_A_TOKEN * one_by_one


def _seconds_of_writing(trial: Trial, resources: Resources, gpu: Mapping[str, float]) -> float:
    """Of each sentence one pass over the right symbols, and one for each hypothesis.

    A search takes a step for each symbol of the longest sentence of a batch.
    """
    rate = _flops_per_second(trial, resources, gpu)
    forward = _flops_of_training(trial) / _TRAINING_OVER_FORWARD
    num_steps = math.ceil(_SENTENCES_WRITTEN / trial.batch) * trial.length
    return _SENTENCES_WRITTEN * (1 + trial.beam) * forward / rate + num_steps * _SECONDS_OF_A_SYMBOL


def _seconds_of_playing(trial: Trial, resources: Resources, gpu: Mapping[str, float]) -> float:
    """Of a task whose model acts: every episode of both splits, as long as one may be.

    Every step of an episode is a pass over the window.
    """
    task = task_class(trial.task)
    if trial.training is None or not issubclass(task, WorldTask):
        return 0.0
    forward = _flops_of_training(trial) / _TRAINING_OVER_FORWARD
    num_episodes = task.num_episodes(trial.training.num_evaluations)
    moves = math.ceil(num_episodes / trial.batch) * _SECONDS_OF_A_MOVE
    passes = num_episodes * forward / _flops_per_second(trial, resources, gpu)
    return task.world.limit * (moves + passes)


def _flops_per_second(trial: Trial, resources: Resources, gpu: Mapping[str, float]) -> float:
    if resources.num_gpus:
        return _SHARE_OF_A_GPU * gpu[trial.settled_precision] * resources.num_gpus
    return _FLOPS_PER_SECOND_OF_A_CPU * resources.num_threads


def _num_recurrent_blocks(spec: ModelSpec) -> float:
    """In which tokens wait for one another, however many the GPU could do at once."""
    mixers = mixer_pattern(spec.mixer) if spec.mixer else ()
    recurrent = [each for each in mixers if mixer_class(each).cost.sequential_operations == "n"]
    own = 0 if spec.is_own else architecture_class(spec.architecture).sequential_operations(spec)
    return own + spec.depth * len(recurrent) / max(1, len(mixers))


def kinds_of(trial: Trial) -> tuple[Hashable, ...]:
    """What it has in common with others, from the closest to the widest.

    The closest is all but the seed. Trainings of one mixer on one task are alike whatever they are
    for, as a search for the learning rate and what takes its rate.
    """
    sort = "training" if trial.training is not None else trial.probe
    mixers = tuple(of.mixer or of.architecture for of in trial.subjects)
    models = tuple(of.spelling for of in trial.subjects)
    twin = (trial.length, trial.batch, models, repr(trial.training), repr(trial.parallel))
    of_probe = (trial.probe, trial.task, mixers)
    wider: tuple[Hashable, ...] = ((sort, trial.task, mixers), (sort, trial.task), sort)
    return (*of_probe, *twin), of_probe, *(kind for kind in wider if kind != of_probe)


@cache
def slowness_of_this_machine() -> float:
    """Seconds that a second of estimated work takes here, by a matrix product on one thread.

    It takes a tenth of a second.
    """
    num_threads = torch.get_num_threads()
    matrix = torch.ones(_SIDE, _SIDE)
    torch.set_num_threads(1)
    try:
        _ = matrix @ matrix  # makes pages and handles
        seconds = min(_seconds_of_products(matrix) for _ in range(_SAMPLES))
    finally:
        torch.set_num_threads(num_threads)
    return seconds * _PRODUCT_FLOPS_PER_SECOND / (_PRODUCTS * 2 * _SIDE**3)


def _seconds_of_products(matrix: torch.Tensor) -> float:
    start = time.perf_counter()
    for _ in range(_PRODUCTS):
        _ = matrix @ matrix
    return time.perf_counter() - start


def _flops_of_training(trial: Trial) -> float:
    """Of a sequence: forward and backward, and the forward passes that a recipe adds."""
    lengths = tuple(lengths_of(trial).values())
    forward = sum(_flops(model, lengths) for model in trial.subjects)
    is_sampled = trial.training is not None and trial.training.scheduled_sampling > 0
    per_step = passes_per_step(trial.training)
    found = (per_step * _TRAINING_OVER_FORWARD + is_sampled) * forward
    taught_by = trial.teacher.subjects if trial.teacher else ()
    return found + per_step * sum(_flops(model, lengths) for model in taught_by)


def _of_workers(trial: Trial, per_step: float) -> float:
    """Training is shared; a timing compares with a lone worker, and profiles."""
    if trial.training is not None:
        return per_step * trial.training.steps * (1 + _EVALUATION_SHARE) / trial.num_workers
    return 2 * per_step * _STEPS_OF_A_TIMING


def _flops(spec: ModelSpec, lengths: tuple[int, ...]) -> float:
    """Each block costs what the second one does: a deep model need not be built."""
    if spec.depth <= 2:
        return _flops_of(spec.spelling, lengths)
    one, two = (_flops(dataclasses.replace(spec, depth=depth), lengths) for depth in (1, 2))
    return one + (spec.depth - 1) * (two - one)


@cache
def _flops_of(spec_json: str, lengths: tuple[int, ...]) -> float:
    """Forward FLOPs of one example; without a formula, a product for each parameter and token."""
    spec = ModelSpec.of_spelling(spec_json)
    if not spec.is_own:
        return _flops_by_formula(spec, *lengths)
    with tried():
        return _flops_by_formula(spec, *lengths)


def _flops_by_formula(spec: ModelSpec, length: int, *context_length: int) -> float:
    model = build_shapes(spec)
    try:
        return float(model.flops(length, 1, *context_length))
    except ModelError:
        return 2.0 * length * sum(p.numel() for p in model.parameters())
