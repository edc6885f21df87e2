"""The specification that a person writes: an ablation, its baseline, axes, claim and scales.

Frozen, keyword-only, strictly typed: a number in quotes, a NaN, a misspelt field are refused
where they stand, in one sentence. No torch here; whether a model can be built is for planning.
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

from models.model_spec import Knob
from suite.spec.fields import TUNED as TUNED
from suite.spec.fields import Ascending, Count, FrozenSpec, Name, Names, Note, Text
from suite.spec.fields import SpecError as SpecError
from suite.spec.model import Model as Model
from suite.spec.model import scalar
from suite.spec.recipe import Recipe as Recipe

ScaleName = Literal["smoke", "quick", "standard", "paper"]
SCALES: tuple[ScaleName, ...] = ("smoke", "quick", "standard", "paper")
SMOKE: ScaleName = "smoke"  # shows that an ablation works, and answers nothing
SEEDS: Mapping[str, int] = {"smoke": 1, "quick": 3, "standard": 5, "paper": 10}
MOST_VALUES = 10_000  # of one axis
MOST_AXES = 64
_LETTERS_OF_A_QUESTION = 40  # in a name
MODEL_FIELDS = frozenset({"architecture", "mixer", "position", "runtime"})  # besides knobs
WHOLE_MODEL, TEACHER = "model", "teacher"  # the axes whose values are models
SWEEPS = frozenset(  # of a scale, and no axes
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
_FIRST = (  # of a scale's settings, as a report shows them
    "dim",
    "depth",
    "length",
    "steps",
    "batch",
    "learning_rate",
    "schedule",
    "warmup_steps",
    "weight_decay",
)


def default_warmup_steps(steps: int) -> int:
    """Return a number of steps with which a short training reaches its learning rate too."""
    return max(0, min(50, steps // 6))


class RepeatedValue(UserWarning):
    """A warning that an axis names a value twice, which then counts once."""


AxisValue = Knob | Model
_Values = Annotated[Sequence[AxisValue], Field(min_length=1), AfterValidator(tuple)]


class Axis(FrozenSpec):
    """A field of the baseline, of the scale, ``task`` or ``model``, and the values that it takes.

    Attributes:
        quick: Those that it takes at quick scale, where it is no axis if there are none; None
            takes all.
    """

    name: Text
    values: _Values
    quick: Annotated[Sequence[AxisValue], AfterValidator(tuple)] | None = None


def vary(
    name: str, values: Sequence[AxisValue], *, quick: Sequence[AxisValue] | None = None
) -> Axis:
    """Return an axis of an ablation.

    Args:
        name: A field of `Model` (``mixer``, ``position``, ``runtime``, any knob of the mixer or
            of the tasks' architectures), of `Scale` (``dim``, ``learning_rate``, ...), or
            ``task``; or ``model`` or ``teacher``, whose values are whole models: ``vary("model",
            [Model(mixer="attention"), Model(mixer="local_attention", window=8)])``.
        values: A list of 1 to `MOST_VALUES`; a value given twice counts once.
        quick: Some of them, to which quick scale keeps; an empty list leaves the axis out there.

    Raises:
        SpecError: if there is no value, too many, one that is no scalar, or one for quick scale
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
    if not isinstance(values, list | tuple | range):  # a set has no order, a string is no list
        raise SpecError(f"{called}: {reprlib.repr(values)} must be a list of values.")
    some = [_axis_value(name, value) for value in itertools.islice(values, MOST_VALUES + 1)]
    if not 1 <= len(some) <= MOST_VALUES:
        number = "no value" if not some else "too many values"
        raise SpecError(f"{called} has {number}; give 1 to {MOST_VALUES}.")
    keyed = [((type(value), repr(value)), value) for value in some]  # True is not 1
    for (_, value), count in Counter(key for key, _ in keyed).items():
        if count > 1:
            said = f"{called} names {value} more than once; it counts once."
            warnings.warn(said, RepeatedValue, stacklevel=3)
    return tuple(dict(keyed).values())


def _axis_value(name: str, value: object) -> AxisValue:
    called = f"vary({reprlib.repr(name)}): "
    if name not in (WHOLE_MODEL, TEACHER):
        return scalar(called, value)
    if not isinstance(value, Model):
        raise SpecError(f"{called}{reprlib.repr(value)} must be a Model(...).")
    return value


class Claim(FrozenSpec):
    """The claim that an ablation tests: on `metric`, variant `a` is better than variant `b`.

    Attributes:
        statement: The claim in words.
        metric: Name of a metric that the ablation measures.
        a: Label of the variant that is said to be better, as ``heads=8``.
        b: Label of the other.
        by: Smallest difference that matters, in the metric's unit.
        source: Paper and table.
        published: Its figure in a few words, as ``24.9 against 25.8 BLEU``.
        task: Where the claim is tested, if the ablation has several tasks with that metric;
            ``mixer_alone`` for what is measured of the mixers alone.
        at: The coordinate of the sweep, as ``length=4096``, where the mixers stand alone.
        is_check: Whether it holds by construction, as bytes and sums do: it is judged alone, and
            no other claim must be clearer because of it.
    """

    statement: Text
    metric: Text
    a: Text
    b: Text
    by: Annotated[float, Field(ge=0)]
    source: Note = ""
    task: Name | None = None
    at: Note = ""
    published: Note = ""
    is_check: bool = False

    def __init__(self, statement: str, **fields: Any) -> None:
        super().__init__(**{"statement": statement, **fields})


class Scale(Recipe):
    """The sizes of the model and of its training, and the resources of one trial.

    It has all fields of a `Recipe`; what it does not set, the ablation's recipe says.

    Attributes:
        dim: Width of the model; None where no architecture of the ablation takes it.
        depth: Blocks; None likewise.
        length: Tokens per sequence, for tasks whose data do not dictate it.
        num_training_examples: How many of a task's examples are trained on, where they are labelled
            ones from a file; None takes all. The classes are alike in number, and fewer are among
            more.
        steps: Training steps.
        batch: Sequences per step.
        warmup_steps: Steps of the warm-up; by default a sixth of all, at most 50.
        num_evaluations: Validation points of the learning curve, evenly spaced.
        test_lengths: Tokens at which the trained model is tested too, ascending; positions that
            have a table then have one for the longest of them.
        lengths: Tokens at which probes of the mixer alone measure, ascending.
        dims: Widths at which they measure too, all at `dims_length` tokens, ascending.
        batches: Sequences at once at which mixers alone are timed too, likewise.
        thread_counts: Threads at which they are timed too, likewise.
        dims_length: Tokens of these three; by default the middle one of `lengths`.
        decode_batches: Sequences at once, ascending, at which `decode` measures besides one.
        beams: Widths of beam search, ascending, at which it measures besides one; each with each
            number of sequences.
        beam: Open hypotheses of the search of the probe `written_scores`; 1 is greedy search. The
            score of `quality` is that of its task's search, whatever this says.
        length_penalty: Of that search, see `models.decoding`; it moves nothing at a beam of 1.
        seeds: Number of seeds; by default 1 at smoke, 3 at quick, 5 at standard, 10 at paper.
        cpus: CPUs of one worker; a trial has one worker unless `workers` says more.
        threads: Threads that torch computes with in a worker; by default as many as CPUs.
        tasks: Names of tasks, in place of the ablation's.
        gpus: GPUs of one worker; a fraction shares one.
        gpu_model: The GPU to run on, as Ray names it (``A100``); empty takes any.
        memory_gib: Memory that a node must have to spare for a worker; 0 asks for none.
        workers: Processes that share the batch of a step, by DeepSpeed.
        zero: ZeRO stage, 0 to 3; None where DeepSpeed is not asked for.
    """

    dim: Annotated[int, Field(ge=1, le=65_536)] | None = None
    depth: Annotated[int, Field(ge=1, le=1_024)] | None = None
    tasks: Names | None = None
    length: Annotated[int, Field(ge=1, le=16_777_216)]
    num_training_examples: Count | None = None
    steps: Count
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
        """Return the settings that a report shows; rare ones only if they are set."""
        sizes, machine = {"dim", "depth"}, {"threads", "gpu_model", "memory_gib", "workers", "zero"}
        search = {"beam", "length_penalty", "num_training_examples"}
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
    """A law that is fitted to the losses of an ablation, and predicts larger trainings.

    Attributes:
        held_out: Axis -> its value in the trainings that the fit does not see, one for each
            combination of the other axes; above all values of the axis. Along these axes, of which
            at least one is of the model (``dim``, ``depth``) and one of the data (``steps``,
            ``batch``), the law is fitted, for each combination of the others by itself.
        quick: The same at quick scale; None takes `held_out`.
    """

    held_out: Annotated[dict[Name, Count], Field(min_length=1)]
    quick: Annotated[dict[Name, Count], Field(min_length=1)] | None = None

    def at_scale(self, scale: str, before: Sequence[Axis], after: Sequence[Axis]) -> ScalingLaw:
        """Return the law at that scale; at smoke its values shrink as those of the axes do.

        Args:
            scale: Its name.
            before: The axes as they are written.
            after: The same at that scale.
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
_LENGTHS_AT_SMOKE = 2  # of each list of a scale


def _smaller(scale: Scale, recipe: Recipe, axes: Sequence[Axis]) -> Scale:
    """Return the scale smoke of an ablation that has none: the same models, hardly trained."""
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
    """Scale an axis of steps down to those of smoke; return any other axis unchanged."""
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
    """A question about an architecture, and how it is to be answered.

    Attributes:
        question: One sentence that ends in a question mark.
        baseline: What every variant is compared with.
        axes: What varies.
        tasks: Names of tasks; each variant meets each.
        probes: Kinds of measurement.
        claim: The one primary claim that it tests.
        scales: Settings by scale: smoke, quick, standard, paper. Smoke is a small quick unless it
            says otherwise.
        recipe: How models are trained, at each scale that does not say otherwise.
        teacher: The model that others learn from, where `distillation` of the recipe or an axis
            says so; it is trained first, on the same task and seed, as the baseline is.
        combine: ``one_at_a_time`` sets one axis at a time; ``cross`` takes every combination;
            ``first_with_each`` sets the first axis and one other: each of its values meets what
            the baseline has, and what each other axis sets.
        opens_with: What a vision model's page shows above its figure of scores, where the question
            is about it: ``attention`` over the image, similarities of ``positions``, first
            ``filters``, or where the ``words`` of a caption look. Where no model has it, nothing.
        scaling_law: Adds larger variants, and asks the page for the law that predicts them. A side
            of the claim may name them as ``mixer=lstm, held out``.
        name: What journal, MLflow and reports call it where it is no file's: lower-case letters,
            digits and underscores, at most 64, a letter first. By default a name made from the
            question. An ablation in a file is named like its file.
    """

    question: Text
    baseline: Model
    axes: Annotated[
        Sequence[Axis], Field(min_length=1, max_length=MOST_AXES), AfterValidator(tuple)
    ]
    tasks: Names
    probes: Names
    scales: Annotated[dict[ScaleName, Scale], Field(min_length=1)]
    recipe: Recipe = Recipe()
    teacher: Model | None = None
    claim: Claim | None = None
    combine: Literal["one_at_a_time", "cross", "first_with_each"] = "one_at_a_time"
    opens_with: Literal["", "attention", "positions", "filters", "words", "drawings"] = ""
    scaling_law: ScalingLaw | None = None
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")] | None = None

    @property
    def own_name(self) -> str:
        """Return its name; without one some words of the question and a hash of it."""
        if self.name is not None:
            return self.name
        words = re.sub(r"[^a-z0-9]+", "_", self.question.lower()).strip("_")
        words = words[:_LETTERS_OF_A_QUESTION].rstrip("_")
        sha256 = hashlib.sha256(self.question.encode()).hexdigest()[:8]
        return f"{words if words[:1].isalpha() else f'question_{words}'.rstrip('_')}_{sha256}"

    def at_scale(self, scale: str) -> Ablation:
        """Return the ablation with the values of its axes at that scale; at smoke without a claim.

        Raises:
            SpecError: no axis has values there.
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
