"""The specification that a user writes: an ablation, its baseline, axes, claim and scales.

All classes are frozen, keyword-only and strictly typed: a number in quotes, a NaN or a misspelt
field raises an error of one sentence at once. This package does not import torch; planning checks
whether a model can be built.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import reprlib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from bakeoff.models.model_spec import Knob
from bakeoff.suite.spec.fields import TUNED as TUNED
from bakeoff.suite.spec.fields import (
    Ascending,
    Budget,
    Count,
    FrozenSpec,
    Name,
    Names,
    Note,
    RecordName,
    Text,
)
from bakeoff.suite.spec.fields import SpecError as SpecError
from bakeoff.suite.spec.model import Model as Model
from bakeoff.suite.spec.model import scalar
from bakeoff.suite.spec.own_data import TaskLabel, Tasks, task_spelled
from bakeoff.suite.spec.recipe import Recipe as Recipe

ScaleName = Literal["smoke", "quick", "standard", "paper"]
SCALES: tuple[ScaleName, ...] = ("smoke", "quick", "standard", "paper")
SMOKE: ScaleName = "smoke"  # shows that an ablation runs; too small to answer its question
SEEDS: Mapping[str, int] = {"smoke": 1, "quick": 3, "standard": 5, "paper": 10}
MOST_VALUES = 10_000  # values of one axis
MOST_AXES = 64
_LETTERS_OF_A_QUESTION = 40  # in a name made from the question
MODEL_FIELDS = frozenset({"architecture", "mixer", "position"})  # besides the knobs
EQUAL = "equal"  # the field of a scale that says which budget is equal
WHOLE_MODEL, TEACHER = "model", "teacher"  # the axes whose values are models
SWEEPS = frozenset(  # fields of a scale that are lists of coordinates, not axes
    {
        "lengths",
        "dims",
        "dims_length",
        "batches",
        "thread_counts",
        "test_lengths",
        "decode_batches",
        "beams",
    }
)
_FIRST = (  # the settings of a scale that a report shows first
    "dim",
    "depth",
    "length",
    "steps",
    "equal",
    "batch",
    "learning_rate",
    "schedule",
    "warmup_steps",
    "weight_decay",
)


def default_warmup_steps(steps: int) -> int:
    """Return the number of warm-up steps that also suits a short training."""
    return max(0, min(50, steps // 6))


class RepeatedValue(UserWarning):
    """A warning that an axis has a repeated value, which counts once."""


AxisValue = Knob | Model
_Values = Annotated[Sequence[AxisValue], Field(min_length=1), AfterValidator(tuple)]


class Axis(FrozenSpec):
    """One thing that varies: a field of the baseline or of the scale, ``task`` or ``model``.

    Attributes:
        name: The name of the field.
        values: The values that it takes.
        quick: The values at quick scale, by default all; an empty list leaves the axis out there.
    """

    name: Text
    values: _Values
    quick: Annotated[Sequence[AxisValue], AfterValidator(tuple)] | None = None


def vary(
    name: str, values: Sequence[AxisValue], *, quick: Sequence[AxisValue] | None = None
) -> Axis:
    """Return an axis of an ablation.

    Args:
        name: A field of `Model` (``mixer``, ``position``, any knob of the mixer or of
            the tasks' architectures), a field of `Scale` (``dim``, ``learning_rate``, ...), or
            ``task``; or ``model`` or ``teacher``, whose values are whole models: ``vary("model",
            [Model(mixer="attention"), Model(mixer="local_attention", window=8)])``.
        values: A list of 1 to `MOST_VALUES` values; a repeated value counts once.
        quick: A subset of the values for quick scale; an empty list leaves the axis out there.

    Raises:
        SpecError: If there are no values, too many, one that is not a scalar, or one in `quick`
            that is not among the values.
    """
    every = _distinct(name, values)
    if quick is None:
        return Axis(name=name, values=every)
    some = _distinct(name, quick) if quick != [] else ()
    for value in some:
        if not any(type(value) is type(other) and value == other for other in every):
            raise SpecError(f"vary({name!r}): quick={value!r} is not among its values.")
    return Axis(name=name, values=every, quick=some)


def _distinct(name: str, values: Sequence[AxisValue]) -> tuple[AxisValue, ...]:
    called = f"vary({reprlib.repr(name)})"
    # A set has no order, and a string would be split into characters.
    if not isinstance(values, list | tuple | range):
        raise SpecError(f"{called}: {reprlib.repr(values)} must be a list of values.")
    some = [_axis_value(name, value) for value in itertools.islice(values, MOST_VALUES + 1)]
    if not 1 <= len(some) <= MOST_VALUES:
        number = "no value" if not some else "too many values"
        raise SpecError(f"{called} has {number}; give 1 to {MOST_VALUES}.")
    # The type keeps True apart from 1.
    keyed = [((type(value), repr(value)), value) for value in some]
    for (_, value), count in Counter(key for key, _ in keyed).items():
        if count > 1:
            said = f"{called} names {value} more than once; it is used once."
            warnings.warn(said, RepeatedValue, stacklevel=3)
    return tuple(dict(keyed).values())


def _axis_value(name: str, value: object) -> AxisValue:
    called = f"vary({reprlib.repr(name)}): "
    if name in ("task", "start"):
        spelled = task_spelled(value)
        return spelled if isinstance(spelled, str) else scalar(called, value)
    if name not in (WHOLE_MODEL, TEACHER):
        return scalar(called, value)
    if not isinstance(value, Model):
        raise SpecError(f"{called}{reprlib.repr(value)} must be a Model(...).")
    return value


class Claim(FrozenSpec):
    """The claim that an ablation tests: on `metric`, `a` is better than `b` by at least `by`.

    Attributes:
        statement: The claim in words.
        metric: Name of a metric that the ablation measures; or ``speedup``, for which `b` needs
            more FLOPs than `a` to reach the same score, or ``time_speedup``, for which it needs
            more time.
        a: Label of the variant that is claimed to be better, for example ``heads=8``.
        b: Label of the other variant. For a speedup the ablation must also train it for two other
            numbers of steps, with an axis ``steps``.
        by: Claimed size, in the metric's unit: `a` is better by at least this much. A smaller
            difference does not matter; 0 claims the direction only. For a speedup it is a ratio:
            1.2 if `b` needs 1.2 times as much.
        source: Paper and table that the claim comes from.
        published: The published figures in a few words, for example ``24.9 against 25.8 BLEU``.
        task: The task on which the claim is tested, if several tasks of the ablation have that
            metric; ``mixer_alone`` for metrics of the mixers alone.
        at: The coordinate of a sweep of the mixers alone, for example ``length=4096``.
        is_check: Whether the claim holds by construction, as for memory sizes and operation counts.
            A check has no q-value, and does not change those of other claims.
    """

    statement: Text
    metric: Text
    a: Text
    b: Text
    by: Annotated[float, Field(ge=0)]
    source: Note = ""
    task: TaskLabel | None = None
    at: Note = ""
    published: Note = ""
    is_check: bool = False

    def __init__(self, statement: str, **fields: Any) -> None:
        super().__init__(**{"statement": statement, **fields})


class Scale(Recipe):
    """The sizes of the model and of its training, and the resources of one trial.

    A scale also has all fields of `Recipe`; a field that it does not set is taken from the
    ablation's recipe.

    Attributes:
        dim: Model width, or None if no architecture of the ablation takes a width.
        depth: Number of blocks, or None if no architecture of the ablation takes a depth.
        length: Tokens per sequence, for tasks whose data do not determine it.
        num_training_examples: Number of training examples, for tasks with labelled examples from a
            file; by default all. The subsets are balanced by class and nested: a smaller subset is
            part of every larger one.
        steps: Number of training steps.
        equal: Budget of which each variant has as much as the baseline: ``steps``; ``flops``,
            ``tokens`` or ``seconds`` of the whole training, by its number of steps; or
            ``parameters``, by the width of its feed-forward, or else of the model. For ``seconds``,
            a trial first times a step of the variant and one of the baseline in turns. See
            `bakeoff.suite.planning.budgets`.
        batch: Sequences per training step.
        warmup_steps: Number of warm-up steps; the default is a sixth of `steps`, at most 50.
        num_evaluations: Number of validation points of the learning curve, evenly spaced.
        test_lengths: Further sequence lengths at which the trained model is tested, ascending.
            Learned position tables are sized for the longest of them.
        lengths: Sequence lengths at which probes of the mixer alone measure, ascending.
        dims: Widths at which these probes also measure, at `dims_length` tokens, ascending.
        batches: Batch sizes at which mixers alone are also timed, at `dims_length` tokens,
            ascending.
        thread_counts: Numbers of threads at which mixers alone are also timed, at `dims_length`
            tokens, ascending.
        dims_length: Sequence length for `dims`, `batches` and `thread_counts`; the default is the
            middle one of `lengths`.
        decode_batches: Batch sizes at which the probe `decode` measures in addition to 1,
            ascending.
        beams: Beam widths at which `decode` measures in addition to 1, ascending; each is combined
            with each batch size.
        beam: Beam width of the probe `written_scores`; 1 is greedy search. It does not affect the
            score of the probe `quality`, which uses the task's own search.
        length_penalty: Length penalty of that beam search, see `bakeoff.models.decoding`; it has
            no effect at a beam of 1.
        seeds: Number of seeds; the default is 1 at smoke, 3 at quick, 5 at standard, 10 at paper.
        cpus: CPUs per worker; a trial has one worker unless `workers` is larger.
        threads: Threads that torch uses in a worker; the default is the number of CPUs.
        tasks: Names of tasks that replace those of the ablation at this scale.
        gpus: GPUs per worker; a fraction shares one GPU among several workers.
        gpu_model: Required GPU model, as Ray names it (``A100``); empty accepts any.
        memory_gib: Free memory in GiB that a node must have for a worker; 0 sets no requirement.
        workers: Number of processes that share the batch of a step, by DeepSpeed.
        zero: ZeRO stage, 0 to 3, or None to train without DeepSpeed.
    """

    dim: Annotated[int, Field(ge=1, le=65_536)] | None = None
    depth: Annotated[int, Field(ge=1, le=1_024)] | None = None
    tasks: Tasks | None = None
    length: Annotated[int, Field(ge=1, le=16_777_216)]
    num_training_examples: Count | None = None
    steps: Count
    equal: Budget = "steps"
    batch: Annotated[int, Field(ge=1, le=1_000_000)]
    warmup_steps: Annotated[int, Field(ge=0, le=100_000_000)] = 50
    num_evaluations: Annotated[int, Field(ge=1, le=10_000)] = 8
    test_lengths: Ascending = ()
    lengths: Ascending = ()
    dims: Ascending = ()
    batches: Ascending = ()
    thread_counts: Ascending = ()
    dims_length: Annotated[int, Field(ge=1, le=16_777_216)] | None = None
    decode_batches: Ascending = ()
    beams: Ascending = ()
    beam: Annotated[int, Field(ge=1, le=1_024)] = 1
    length_penalty: Annotated[float, Field(ge=0, le=100)] = 0.6
    seeds: Annotated[int, Field(ge=1, le=10_000)] | None = None
    cpus: Annotated[int, Field(ge=1, le=4_096)] = 1
    threads: Annotated[int, Field(ge=1, le=4_096)] | None = None
    gpus: Annotated[float, Field(ge=0, le=64)] = 0.0
    gpu_model: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$")] = ""
    memory_gib: Annotated[float, Field(ge=0, le=65_536)] = 0.0
    workers: Annotated[int, Field(ge=1, le=1_024)] = 1
    zero: Annotated[int, Field(ge=0, le=3)] | None = None

    @model_validator(mode="after")
    def _with_warm_up(self) -> Scale:
        """Fill in the default, which is not marked as set, because it depends on `steps`."""
        if "warmup_steps" not in self.model_fields_set:
            vars(self)["warmup_steps"] = default_warmup_steps(self.steps)
        return self

    @model_validator(mode="after")
    def _refuse_more_than_all_steps(self) -> Scale:
        for name in ("warmup_steps", "num_evaluations"):
            if name in self.model_fields_set and getattr(self, name) > self.steps:
                raise ValueError(f"{name}={getattr(self, name)} is above steps={self.steps}")
        return self

    @model_validator(mode="after")
    def _refuse_a_model_of_no_gpu(self) -> Scale:
        if self.gpu_model and not self.gpus:
            raise ValueError(f"gpu_model={self.gpu_model!r} needs gpus above 0")
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError(f"gpus={self.gpus} must be a whole number, or a fraction below 1")
        return self

    def settings(self) -> dict[str, Knob]:
        """Return the settings that a report shows; rare ones only if they are not the default."""
        sizes, machine = {"dim", "depth"}, {"threads", "gpu_model", "memory_gib", "workers", "zero"}
        search = {"beam", "length_penalty", "num_training_examples", EQUAL}
        rare = sizes | machine | search | Recipe.model_fields.keys() - set(_FIRST)
        idle = {
            name for name in rare if getattr(self, name) == type(self).model_fields[name].default
        }
        found = self.model_dump(exclude={"seeds", "tasks", *SWEEPS, *idle})
        for name in sorted(SWEEPS - {"dims_length"}, key=list(type(self).model_fields).index):
            if values := getattr(self, name):
                found[name] = ", ".join(map(str, values))
        return {name: found[name] for name in dict.fromkeys((*_FIRST, *found)) if name in found}


class ScalingLaw(FrozenSpec):
    """A scaling law that is fitted to the losses of an ablation and predicts larger trainings.

    The law is fitted along the axes of `held_out`, separately for each combination of the other
    axes.

    Attributes:
        held_out: Axis -> its value in the held-out trainings, which must be above all values of the
            axis. One training per combination of the other axes is held out of the fit. At least
            one axis must belong to the model (``dim``, ``depth``) and at least one to the data
            (``steps``, ``batch``).
        quick: The same at quick scale; by default `held_out`.
    """

    held_out: Annotated[dict[Name, Count], Field(min_length=1)]
    quick: Annotated[dict[Name, Count], Field(min_length=1)] | None = None

    def at_scale(self, scale: str, before: Sequence[Axis], after: Sequence[Axis]) -> ScalingLaw:
        """Return the law at a scale; at smoke its values shrink in proportion to the axes.

        Args:
            scale: The name of the scale.
            before: The axes as specified.
            after: The axes at that scale.
        """
        held_out = self.held_out
        if scale in (SMOKE, "quick") and self.quick is not None:
            held_out = self.quick
        if scale == SMOKE:
            tops = [{axis.name: _top(axis) for axis in axes} for axes in (before, after)]
            held_out = {
                name: value * tops[1].get(name, 1) // tops[0].get(name, 1)
                for name, value in held_out.items()
            }
        return ScalingLaw(held_out=held_out)


def _top(axis: Axis) -> int:
    return max((v for v in axis.values if isinstance(v, int)), default=1) or 1


_AT_SMOKE = {"steps": 20, "batch": 8, "num_evaluations": 1}
_OF_PARENTS = ("pretraining_steps", "teacher_steps")
_LENGTHS_AT_SMOKE = 2  # for each list of a scale


def _smaller(scale: Scale, recipe: Recipe, axes: Sequence[Axis]) -> Scale:
    """Return the smoke scale of an ablation that has none: the same models, hardly trained."""
    own = scale.model_dump(exclude_unset=True, exclude={"seeds"})
    lists = {name: own[name][:_LENGTHS_AT_SMOKE] for name in SWEEPS & own.keys() - {"dims_length"}}
    small = {name: min(most, getattr(scale, name)) for name, most in _AT_SMOKE.items()}
    parents = {name: own.get(name, getattr(recipe, name)) for name in _OF_PARENTS}
    small |= {name: min(n, _AT_SMOKE["steps"]) for name, n in parents.items() if n is not None}
    varied = [value for axis in axes if axis.name == "warmup_steps" for value in axis.values]
    small["steps"] = max([small["steps"], own.get("warmup_steps", 0), *varied])
    return Scale(**{**own, **lists, **small})


def _at_quick(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    values = {axis.name: axis.values if axis.quick is None else axis.quick for axis in axes}
    found = tuple(vary(name, some) for name, some in values.items() if some)
    if not found:
        raise SpecError("axes: all have quick=[]; at quick scale at least one must vary.")
    return found


def _hardly_trained(axis: Axis) -> Axis:
    """Scale an axis of steps down to the steps of smoke; return any other axis unchanged."""
    if axis.name not in ("steps", *_OF_PARENTS):
        return axis
    most = max((value for value in axis.values if isinstance(value, int)), default=1)
    few = _AT_SMOKE["steps"]
    least = default_warmup_steps(few) if axis.name == "steps" else 1
    return vary(
        axis.name,
        [max(least, n * few // most) if isinstance(n, int) else n for n in axis.values],
    )


class Ablation(FrozenSpec):
    """A question about an architecture, and the experiment that answers it.

    Attributes:
        question: One sentence that ends in a question mark.
        baseline: The model that every variant is compared with.
        axes: The axes that vary, each made by `vary(...)`.
        tasks: Names of tasks; each variant is run on each task. The user's own class is written
            ``module:Class``, own data as `Table`, `TextFile`, ...
        probes: Names of probes, the kinds of measurement.
        scales: Settings by scale: smoke, quick, standard, paper. Without an entry of its own, smoke
            is a reduced version of quick.
        recipe: How models are trained; a scale may override any of its fields.
        teacher: The teacher for distillation, if the recipe or an axis sets `distillation`. It is
            trained first, on the same task and seed, with the same recipe as the baseline.
        claim: The one primary claim that the ablation tests.
        combine: How the axes are combined: ``one_at_a_time`` changes one axis at a time; ``cross``
            takes every combination; ``first_with_each`` combines the first axis with each other
            axis in turn, the remaining axes staying at the baseline.
        opens_with: For vision models: the kind of sample that a page shows above its figure of
            scores, if the question is about it. ``attention`` shows attention over the image,
            ``positions`` similarities of positions, ``filters`` the first filters, ``words`` what
            the words of a caption attend to, ``drawings`` generated images. The page shows none if
            no model has them. ``by corruption`` draws the score along that axis of the ablation,
            or that coordinate of the task's parts, where the page would choose another figure.
        words: How pages name values of axes that do not read well, as ``{"score=general": "by
            content"}``, and the baseline, by the key ``baseline``. Two values of an axis must have
            different words. They change nothing else.
        scaling_law: Adds larger, held-out variants, and a scaling law on the page that predicts
            them. A side of the claim may name them as ``mixer=lstm, held out``.
        name: The name in the journal, MLflow and reports: lower-case letters, digits and
            underscores, at most 64, a letter first. The only ablation of a file is named after its
            file, and each of several needs a name. In a program, the default is made from the
            question.
    """

    question: Text
    baseline: Model
    axes: Annotated[
        Sequence[Axis], Field(min_length=1, max_length=MOST_AXES), AfterValidator(tuple)
    ]
    tasks: Tasks
    probes: Names
    scales: Annotated[dict[ScaleName, Scale], Field(min_length=1)]
    recipe: Recipe = Recipe()
    teacher: Model | None = None
    claim: Claim | None = None
    combine: Literal["one_at_a_time", "cross", "first_with_each"] = "one_at_a_time"
    opens_with: Annotated[
        str,
        Field(pattern=r"^(|attention|positions|filters|words|drawings|by [a-z][a-z0-9_]{0,63})$"),
    ] = ""
    words: dict[Text, Text] = Field(default_factory=dict)
    scaling_law: ScalingLaw | None = None
    name: RecordName | None = None

    @model_validator(mode="after")
    def _check_words(self) -> Ablation:
        names = {axis.name for axis in self.axes}
        for key in self.words:
            if key != "baseline" and key.partition("=")[0] not in names:
                raise ValueError(f"words={{{key!r}: ...}} must name an axis, or the baseline")
        used: dict[tuple[str, str], str] = {}
        for key, said in self.words.items():
            other = used.setdefault((key.partition("=")[0], said), key)
            if other != key:
                raise ValueError(
                    f"words={{{key!r}: {said!r}}} must differ from the words of {other!r}"
                )
        return self

    @property
    def own_name(self) -> str:
        """The name; by default some words of the question, and a hash of it."""
        if self.name is not None:
            return self.name
        words = re.sub(r"[^a-z0-9]+", "_", self.question.lower()).strip("_")
        words = words[:_LETTERS_OF_A_QUESTION].rstrip("_")
        sha256 = hashlib.sha256(self.question.encode()).hexdigest()[:8]
        return f"{words if words[:1].isalpha() else f'question_{words}'.rstrip('_')}_{sha256}"

    def at_scale(self, scale: str) -> Ablation:
        """Return the ablation with the values of its axes at that scale; at smoke without a claim.

        Raises:
            SpecError: If no axis has values at that scale.
        """
        update: dict[str, Any] = {}
        if scale in (SMOKE, "quick") and any(axis.quick is not None for axis in self.axes):
            update["axes"] = _at_quick(self.axes)
        before = update.get("axes", self.axes)
        if scale == SMOKE:
            update["claim"] = None
            update["axes"] = tuple(map(_hardly_trained, before))
            if "quick" in self.scales:
                small = _smaller(self.scales["quick"], self.recipe, update.get("axes", self.axes))
                update["scales"] = {SMOKE: small, **self.scales}
        if self.scaling_law:
            after = update.get("axes", self.axes)
            update["scaling_law"] = self.scaling_law.at_scale(scale, before, after)
        own = {**self.scales, **update.get("scales", {})}.get(scale)
        if own is not None and own.tasks:
            update["tasks"] = own.tasks
        return self.model_copy(update=update) if update else self

    def scale(self, name: str) -> Scale:
        """Return a scale of the ablation, with the fields of the recipe filled in."""
        own = self.scales[name]  # type: ignore[index]
        asked = self.recipe.model_dump(exclude_unset=True)
        return Scale(**{**asked, **own.model_dump(exclude_unset=True)}) if asked else own
