"""Define the contract of a probe, the table of probes, and the start of a trial's training.

Initialisation depends on the seed and the model only. Training FLOPs count the backward pass as
twice the forward one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal

import torch

from bakeoff.models import (
    Architecture,
    architecture_class,
    build_model,
    build_shapes,
    mixer_class,
)
from bakeoff.models.errors import ModelError
from bakeoff.models.flop_count import counted_forward_flops
from bakeoff.models.interface import CONTEXT
from bakeoff.models.model_spec import ModelSpec
from bakeoff.models.registry import class_named, mixer_pattern
from bakeoff.suite.errors import unknown_name
from bakeoff.suite.events import Condition, TrainedState, TrialRemark
from bakeoff.suite.probes.gpu_steps import step_seconds
from bakeoff.suite.schema import (
    MIXER_ALONE,
    TIMING_PROBES,
    Measurement,
    MetricSpec,
    Parallel,
    Point,
    Precision,
    Sample,
    Training,
    Trial,
)
from bakeoff.suite.schema.task_names import is_own_class
from bakeoff.suite.spec import SpecError
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import Task
from bakeoff.suite.training.adversarial import passes_per_step
from bakeoff.suite.training.checkpoint import Checkpointer
from bakeoff.suite.training.engines.local import LocalEngine
from bakeoff.suite.training.engines.recording import why_eager
from bakeoff.suite.training.engines.step_choice import StepChoice, choice_by_time
from bakeoff.suite.training.loop import Exercise
from bakeoff.suite.training.weights import restore, take_over

# Values of `Probe.depends_on`: of a probe that trains, and of one that examines a trained model
# whose start and teacher are part of its trials' ids.
ORIGIN = frozenset({"start", "teacher"})
TRAINING = ORIGIN | {"batch", "training", "search", "pace", "num_training_examples"}

Said = Point | Measurement | Sample | TrialRemark | TrainedState | Condition
Grain = Literal["seed", "variant", "comparison", "task"]


def at_length(length: int, **others: int) -> str:
    """Return a coordinate such as ``length=64, beam=4``; other values of 1 are left out."""
    named = {"length": length} | {name: value for name, value in others.items() if value != 1}
    return ", ".join(f"{name}={value}" for name, value in named.items())


class Probe(ABC):
    """One kind of measurement. A file holds one subclass.

    Attributes:
        grain: The scope of a trial: a variant and a seed; a variant for all seeds; all variants of
            a task together, once per process, so that they can be interleaved; or a task alone,
            which has no subject: its rows are shown next to the variants.
        depends_on: The fields of `Trial` on which the number depends. A trial leaves out all
            others; those that every trial has (task, length, model, seed) are not listed here.
            ``threads`` stands for the scale's `batches` and `thread_counts`, along which a sweep
            runs.
        is_swept: Whether it measures the mixer alone, along the scale's lengths and widths. It then
            has no task, and the coordinate is in the cells, not in its metrics.
        specs: The metrics, if they do not depend on the task; see `metrics`.
        is_at_length: Whether the coordinate of these is the length of the trial.
        why_no_workers: Why it cannot measure a trial of several workers; empty if it can.
        compiles_as_asked: Whether it measures compiled models at ``runtime="compiled"``. The others
            measure models as they are written, or train them, for which `Training` has the runtime.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    grain: ClassVar[Grain]
    depends_on: ClassVar[frozenset[str]] = frozenset()
    is_swept: ClassVar[bool] = False
    specs: ClassVar[tuple[MetricSpec, ...]] = ()
    is_at_length: ClassVar[bool] = False
    why_no_workers: ClassVar[str] = ""
    compiles_as_asked: ClassVar[bool] = False

    @property
    def is_timing(self) -> bool:
        """True if the number depends on the machine; its trials then run alone, and later."""
        return self.name in TIMING_PROBES

    def metrics(self, task: type[Task] | None, length: int) -> tuple[MetricSpec, ...]:
        """Return the metrics, which are known before a trial runs; `task` is None in a sweep."""
        at = at_length(length) if self.is_at_length else ""
        return tuple(replace(spec, at=at) for spec in self.specs)

    def further_coordinates(self, trial: Trial) -> tuple[str, ...]:
        """Return additional coordinates for metrics without one, or with the length alone."""
        lengths = trial.test_lengths if "test_lengths" in self.depends_on else ()
        searches = trial.decoding if "decoding" in self.depends_on else ()
        return (
            *(at_length(length) for length in lengths),
            *(at_length(trial.length, batch=batch, beam=beam) for batch, beam in searches),
        )

    def labels(self, task: type[Task]) -> tuple[str, ...]:
        """Return the labels of rows, if the grain is the task."""
        return ()

    def definitions(self, task: type[Task]) -> dict[str, int]:
        """Return further definitions on which the number depends, with their versions."""
        return {}

    def measures_at(self, length: int, *, is_along_lengths: bool) -> bool:
        """Return True if a sweep has a cell at this length, along lengths or along widths."""
        return True

    def why_not(self, model: ModelSpec, parallel: Parallel | None) -> str:
        """Return why the probe cannot measure this model, known before it runs; empty if it can."""
        return self.why_no_workers if parallel else ""

    def why_not_on(self, task: type[Task]) -> str:
        """Return why the probe cannot measure any model on that task; empty if it can."""
        return ""

    @abstractmethod
    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Run the trial; yield points and measurements as they are known, and samples last.

        Raises:
            Diverged: if the training loss is not finite.
        """

    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Run the trial from the newest checkpoint on; a probe without checkpoints begins anew."""
        return self.measure(trial, device)


def task_metric(task: type[Task], at: str = "") -> MetricSpec:
    """Return the task's own metric at a coordinate; at `Task.aimed_at` it has no direction."""
    metric = task.metric
    is_aimed_at = bool(task.aimed_at) and at.startswith(f"{task.aimed_at}=")
    better = "none" if is_aimed_at else metric.better
    return MetricSpec(name=metric.name, unit=metric.unit, better=better, at=at)


def measurement(spec: MetricSpec, value: float | None, **fields: Any) -> Measurement:
    """Return a measurement of the metric, with or without a number.

    Args:
        spec: The metric, with its name, unit and coordinate.
        value: The number, or None if `fields` contain a status with the reason.
        fields: Further fields of `Measurement`.
    """
    return Measurement(
        metric=spec.name,
        value=None if value is None else float(value),
        unit=spec.unit,
        better=spec.better,
        **{"at": spec.at, **fields},
    )


def rate_of(spec: MetricSpec, amount: float, timed: Measurement) -> Measurement:
    """Convert a duration to a rate; it keeps its noise and the reason why it is missing."""
    rate, high, low = (
        None if each is None else amount / each
        for each in (timed.value, timed.spread_low, timed.spread_high)
    )
    return measurement(
        spec,
        rate,
        subject=timed.subject,
        at=timed.at,
        spread_low=low,
        spread_high=high,
        status=timed.status,
        reason=timed.reason,
    )


def share_of(peak: float, spec: MetricSpec, amount: float, timed: Measurement) -> Measurement:
    """Return `amount` per measured second as a percentage of a peak rate."""
    return rate_of(spec, 100.0 * amount / peak, timed)


class SpreadProbe(Probe):
    """A probe whose trials may run on several workers; those of one process use `measure`."""

    @abstractmethod
    def measure_on_workers(
        self, trial: Trial, device: str, checkpointer: Checkpointer
    ) -> Iterator[Said]:
        """Run the trial on every worker at once; all of them return the same.

        Raises:
            bakeoff.suite.training.loop.Diverged: if the training loss is not finite, on all
            workers alike.
        """


class TrainedModelProbe(Probe):
    """A probe of the model that `quality` has trained; a subclass measures it."""

    grain: ClassVar[Grain] = "seed"
    depends_on: ClassVar[frozenset[str]] = frozenset({"batch", "trained", "num_training_examples"})

    def measure(self, trial: Trial, device: str) -> Iterator[Said]:
        """Raise an error, because the trained model is in the folder of checkpoints."""
        return self.measure_resuming(trial, device, None)

    @abstractmethod
    def measure_resuming(
        self, trial: Trial, device: str, checkpointer: Checkpointer | None
    ) -> Iterator[Said]:
        """Measure the trained model; see `Probe.measure`.

        Raises:
            CheckpointError: if the weights are not available on this host.
        """


TRAINING_OVER_FORWARD = 3.0


def endless(precision: Precision) -> Training:
    """Return training settings for steps that are timed, so long that the rate stays positive."""
    return Training(
        steps=1_000_000,
        learning_rate=1e-3,
        warmup_steps=1,
        weight_decay=0.01,
        num_evaluations=1,
        precision=precision,
    )


def initial_model(trial: Trial) -> Architecture:
    """Return the trial's only model, untrained, on the CPU; it is the same at each call."""
    torch.manual_seed(trial.seed)
    return build_model(trial.subjects[0])


def started_model(
    trial: Trial, checkpointer: Checkpointer | None
) -> Generator[TrialRemark, None, Architecture]:
    """Return the trial's only model as its training begins, with the weights of its start.

    Raises:
        CheckpointError: if the weights are not available on this host.
    """
    model = initial_model(trial)
    if trial.start is not None:
        folder = checkpointer.folder if checkpointer else None
        is_frozen = trial.training is not None and trial.training.is_start_frozen
        yield TrialRemark(take_over(model, folder, trial.start.trial_id, is_frozen=is_frozen))
    return model


def teacher_model(
    trial: Trial, checkpointer: Checkpointer | None
) -> Generator[TrialRemark, None, Architecture | None]:
    """Return the teacher or None. Call this first, because building it draws random numbers.

    Raises:
        CheckpointError: if its weights are not available on this host.
    """
    if trial.teacher is None:
        return None
    model = initial_model(trial.teacher)
    folder = checkpointer.folder if checkpointer else None
    yield TrialRemark(restore(model, folder, trial.teacher.trial_id))
    return model


def trained_model(trial: Trial, checkpointer: Checkpointer | None, device: str) -> Architecture:
    """Return the model that `quality` has trained with the trial's seed.

    Raises:
        CheckpointError: if its weights are not available on this host.
    """
    assert trial.trained is not None, "a probe that looks at a trained model is planned with one"
    model = initial_model(trial)
    folder = checkpointer.folder if checkpointer else None
    restore(model, folder, trial.trained.trial_id)
    return model.to(device)


def started(
    trial: Trial, device: str, checkpointer: Checkpointer | None
) -> Generator[TrialRemark, None, tuple[Architecture, LocalEngine, Exercise]]:
    """Begin a training of one process; return the model, its engine, and the exercise.

    Raises:
        CheckpointError: if the weights of its start or of its teacher are not available on this
            host.
    """
    teacher = yield from teacher_model(trial, checkpointer)
    model = yield from started_model(trial, checkpointer)
    todo = exercise(trial, model, teacher)
    choice = step_choice(trial, on_gpu=device != "cpu")
    engine = LocalEngine(
        model,
        todo.training,
        device,
        seed=trial.seed,
        teacher=teacher,
        is_recorded=device != "cpu" and todo.training.runtime != "eager",
        is_compiled=choice.runtime == "compiled",
    )
    return model, engine, todo


def step_choice(trial: Trial, *, on_gpu: bool) -> StepChoice:
    """Return how the steps of a trial's training will run, as far as is known before it starts.

    Args:
        trial: The trial, which must have training settings.
        on_gpu: Whether it has a GPU, or part of one.
    """
    training = trial.training
    assert training is not None, "a trial that trains is planned with training settings"
    asked = training.runtime
    if not on_gpu or trial.parallel is not None:
        return StepChoice(runtime="compiled" if asked == "compiled" else "eager")
    if asked == "eager":
        return StepChoice(runtime="eager", why="runtime='eager'")
    models = (*trial.subjects, *(trial.teacher.subjects if trial.teacher else ()))
    if any(model.is_own for model in models):  # whose code does not run before the trial does
        return StepChoice(runtime="graph" if asked == "auto" else asked)
    built = [_of_few_blocks(each.spelling) for each in models]
    if why := next(filter(None, (why_eager(each, training) for each in built)), ""):
        return StepChoice(runtime="eager", why=why)
    if asked != "auto":
        return StepChoice(runtime=asked)
    if any(map(num_recurrent_blocks, models)):
        return StepChoice(runtime="graph", why="a loop over tokens would take long to compile")
    lengths = tuple(lengths_of(trial).items())
    flops = flops_of_example(models[0], lengths)
    sizes = {"batch": trial.batch, "length": trial.length}
    recorded, compiled = (
        step_seconds(models[0], **sizes, forward_flops=flops, is_compiled=each)
        for each in (False, True)
    )
    depth, of_few = models[0].depth, len([*built[0].modules()])
    num_modules = of_few * max(1.0, depth / max(1, built[0].spec.depth))
    return choice_by_time(training.steps, recorded, compiled, num_modules)


@cache
def _of_few_blocks(spelling: str) -> Architecture:
    """Return the model without memory, with each kind of its blocks once: a deep one takes long."""
    spec = ModelSpec.of_spelling(spelling)
    num_kinds = len(mixer_pattern(spec.mixer)) if spec.mixer else 1
    return build_shapes(replace(spec, depth=min(spec.depth, num_kinds)))


def flops_of_example(spec: ModelSpec, lengths: tuple[tuple[str, int], ...]) -> float:
    """Return the forward FLOPs of one example, extrapolated from models of one and two blocks.

    This avoids building a deep model.

    Args:
        spec: The model.
        lengths: The items of `lengths_of`.
    """
    if spec.depth <= 2:
        return _flops_as_built(spec.spelling, lengths)
    one, two = (flops_of_example(replace(spec, depth=depth), lengths) for depth in (1, 2))
    return one + (spec.depth - 1) * (two - one)


@cache
def _flops_as_built(spelling: str, lengths: tuple[tuple[str, int], ...]) -> float:
    """Return the FLOPs by formula, or else one multiply-add per parameter and token."""
    spec = ModelSpec.of_spelling(spelling)
    if has_formula(spec):
        return forward_flops(spec, 1, dict(lengths))
    num_parameters = sum(p.numel() for p in build_shapes(spec).parameters())
    return 2.0 * dict(lengths)["length"] * num_parameters


def num_recurrent_blocks(spec: ModelSpec) -> float:
    """Return the number of blocks that process tokens sequentially."""
    mixers = mixer_pattern(spec.mixer) if spec.mixer else ()
    recurrent = [each for each in mixers if mixer_class(each).cost.sequential_operations == "n"]
    own = 0 if spec.is_own else architecture_class(spec.architecture).sequential_operations(spec)
    return own + spec.depth * len(recurrent) / max(1, len(mixers))


def task_of(trial: Trial) -> Task:
    """Return the trial's task, with the examples that it trains on."""
    return build_task(trial.task, trial.length, trial.num_training_examples)


def exercise(trial: Trial, model: Architecture, teacher: Architecture | None = None) -> Exercise:
    """Return the exercise of the trial, which must have training settings."""
    return Exercise(
        task=task_of(trial),
        training=trial.settled_training,
        batch=trial.batch,
        seed=trial.seed,
        flops_per_step=flops_per_step(trial, model.spec, teacher.spec if teacher else None),
    )


def lengths_of(trial: Trial) -> dict[str, int]:
    """Return the arguments of `Architecture.flops`: ``length``, and ``context_length``."""
    if trial.task == MIXER_ALONE:
        return {"length": trial.length}
    inputs = task_class(trial.task).interface(trial.length).inputs
    context = {"context_length": inputs[CONTEXT].length} if CONTEXT in inputs else {}
    return {"length": trial.length, **context}


def forward_flops(spec: ModelSpec, batch: int, lengths: Mapping[str, int]) -> float:
    """Return the FLOPs of a forward pass by formula, or by counting if the model has none.

    Raises:
        UncountedOperationError: if a user's own model runs an operation of unknown cost.
    """
    if has_formula(spec):
        return float(build_shapes(spec).flops(batch=batch, **lengths))
    return counted_forward_flops(spec, batch)


def has_formula(spec: ModelSpec) -> bool:
    """Return True if the architecture and all mixers of a model define `flops`."""
    kind = architecture_class(spec.architecture)
    mixers = map(mixer_class, kind.mixers_of(spec))
    return kind.has_flops_formula() and all(mixer.has_flops_formula() for mixer in mixers)


def flops_per_step(
    trial: Trial, model: ModelSpec, teacher: ModelSpec | None, *, is_counted: bool = False
) -> float | None:
    """Return the mean FLOPs of a step, with the forward passes of a teacher and of sampling.

    If a user's own model has no formula, they are counted if `is_counted`. Else the result is None:
    counting would run its code once more, with all that it prints and raises, inside a trial that
    measures something else.
    """
    is_sampled = trial.training is not None and trial.training.scheduled_sampling > 0
    per_step = passes_per_step(trial.training)
    passes = [(model, per_step * TRAINING_OVER_FORWARD + is_sampled)]
    passes += [(teacher, per_step)] if teacher else []
    lengths = lengths_of(trial)
    if not is_counted and not all(has_formula(each) for each, _ in passes):
        return None
    return sum(n * forward_flops(each, trial.batch, lengths) for each, n in passes)


PROBES: dict[str, str] = {
    "quality": "bakeoff.suite.probes.quality:Quality",
    "floors": "bakeoff.suite.probes.floors:Floors",
    "score_by_position": "bakeoff.suite.probes.score_by_position:ScoreByPosition",
    "alignment_error": "bakeoff.suite.probes.attention.alignment_error:AlignmentError",
    "localisation": "bakeoff.suite.probes.attention.localisation:Localisation",
    "training_score": "bakeoff.suite.probes.training_score:TrainingScore",
    "written_scores": "bakeoff.suite.probes.written_scores:WrittenScores",
    "validation": "bakeoff.suite.probes.validation:Validation",
    "learning_rate": "bakeoff.suite.probes.learning_rate:LearningRate",
    "pace": "bakeoff.suite.probes.pace:Pace",
    "parameters": "bakeoff.suite.probes.model_counts:Parameters",
    "flops": "bakeoff.suite.probes.model_counts:ForwardFlops",
    "state_bytes": "bakeoff.suite.probes.model_counts:StateBytes",
    "step_time": "bakeoff.suite.probes.step_time:StepTime",
    "decode": "bakeoff.suite.probes.decode:Decode",
    "peak_memory": "bakeoff.suite.probes.peak_memory:PeakMemory",
    "softmax": "bakeoff.suite.probes.softmax:Softmax",
    "data_parallel": "bakeoff.suite.probes.data_parallel:DataParallel",
    "gradient_by_distance": "bakeoff.suite.probes.gradient_by_distance:GradientByDistance",
    # Probes of the mixer alone, along lengths and widths.
    "mixer_time": "bakeoff.suite.probes.mixer_time:MixerTime",
    "mixer_memory": "bakeoff.suite.probes.mixer_memory:MixerMemory",
    "mixer_flops": "bakeoff.suite.probes.mixer_flops:MixerFlops",
    "path_length": "bakeoff.suite.probes.path_length:PathLength",
}


def probe(name: str) -> Probe:
    """Return the probe of that name, or of the user's class, as ``my_probe:MyProbe``.

    Raises:
        SpecError: if there is none (the message holds the nearest names), or if the class is not a
            complete probe.
    """
    return _own_probe(name) if is_own_class(name) else _shipped_probe(name)


@cache
def _shipped_probe(name: str) -> Probe:
    if name not in PROBES:
        raise SpecError(unknown_name("probe", name, PROBES) + " Your own is written module:Class.")
    made: Probe = resolve_name(PROBES[name])()
    return made


def _own_probe(name: str) -> Probe:
    """Return the user's probe; it is recorded under the text that names its class."""
    try:
        kind: type[Probe] = class_named("probe", PROBES, name, Probe)
    except ModelError as error:
        raise SpecError(f"{error}.") from error
    for attribute in ("grain", "specs"):
        if not hasattr(kind, attribute):
            raise SpecError(f"the probe {name} does not define {attribute}.")
    added = {"name": name, "version": 1, "__module__": kind.__module__, "__doc__": kind.__doc__}
    made: Probe = type(kind.__name__, (kind,), added)()
    return made
