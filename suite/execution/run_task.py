"""Train and score a user's own module on a task, without an ablation or an executor."""

from __future__ import annotations

import copy
import inspect
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bakeoff.models.interface import INPUTS
from bakeoff.suite.errors import Diverged, exit_code_of, one_line
from bakeoff.suite.schema import Point, Training
from bakeoff.suite.spec import Recipe, Scale, SpecError
from bakeoff.suite.spec.own_data import OwnData, task_spelled
from bakeoff.suite.tasks.metrics import PlayedMetric
from bakeoff.suite.tasks.own.data import looked_for_in
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import Batch, Task
from bakeoff.suite.text import in_words
from bakeoff.suite.training.augmentation import why_not_augmented
from bakeoff.suite.training.engines.engine import (
    evaluate_in_parts,
    in_evaluation_mode,
    num_trained,
    score_batch,
    writes,
)
from bakeoff.suite.training.loop import VALIDATION, Exercise, train
from bakeoff.suite.training.recipes import float32_products
from bakeoff.suite.training.sampling import why_no_sampling

_TOLERANCE = 1e-5  # relative to the largest number
LENGTH = 64  # the default if the data do not determine a length


class ModuleError(ValueError):
    """Raised for a module that does not suit the task."""


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """The scores of a trained module.

    Attributes:
        metric: The task's metric, for example ``bits_per_character``.
        value: The score on the test split, after training.
        unit: The unit of `value`.
        parts: The metric by coordinate, for example ``pairs=8``, if the task has parts.
        points: The learning curve.
        num_parameters: Number of trainable parameters.
        seconds: Wall time of training and scoring.
    """

    metric: str
    value: float
    unit: str
    parts: Mapping[str, float]
    points: tuple[Point, ...]
    num_parameters: int
    seconds: float


def run_task(  # noqa: PLR0913  (people call it with options by name)
    module: nn.Module,
    *,
    task: str | OwnData,
    steps: int = 300,
    seed: int = 0,
    length: int | None = None,
    batch: int = 16,
    learning_rate: float | None = None,
    recipe: Recipe | None = None,
    progress: bool = True,
) -> TaskResult:
    """Train `module` in place and score it on the test split.

    A module is called with the inputs of a batch: the first by position, others by name.

    =======================  =====================================  ========================
    output of the task       inputs                                 logits
    =======================  =====================================  ========================
    a class of a sequence    `inputs`, also an image                [batch, classes]
    a class of a pair        `inputs`, [batch, 2, time, ...]        [batch, classes]
    the choice of a text     `inputs`, [batch, texts, time]         [batch, texts]
    a number of a sequence   `inputs`                               [batch, 1]
    a symbol per position    `inputs`                               [batch, time, symbols]
    the next symbol          `inputs`; must be causal               [batch, time, symbols]
    a target sequence        `inputs`, `context`                    [batch, time, symbols]
    =======================  =====================================  ========================

    `inputs` and `context` are integers [batch, time], floats [batch, time, features], or images
    [batch, rows, columns, channels]. Sequences that differ in length are padded, and come with
    `mask` or `context_mask`, [batch, time], True at real tokens. In place of logits a module may
    return ``bakeoff.models.Outputs(logits, auxiliary)``, which the loss of some tasks uses, a
    dictionary or an object with `logits`, or a tuple with the logits first.

    If the task's metric scores generated output, the module needs two more methods, and a third one
    if there is a source; see `bakeoff.models.decoding.Writer`:

    - ``encode(context, context_mask)`` returns the encoded source;
    - ``initial_state(batch, encoded)`` returns the state before the first token; without a source
      there is no `encoded`;
    - ``step(tokens, state)`` takes a token [batch] of each row, and returns logits
      [batch, symbols] and the new state. The first axis of the tensors of a state is the batch.

    The following examples use modules that are far too small to score well. A class of a sequence,
    and of an image:

        >>> import bakeoff, torch
        >>> from torch import nn
        >>> short = {"steps": 2, "progress": False}
        >>> flat = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
        >>> bakeoff.run_task(flat, task="fashion_mnist_patches", **short).num_parameters
        7850
        >>> bakeoff.run_task(flat, task="fashion_mnist_images", **short).metric
        'accuracy'

    A class of a padded sequence:

        >>> class SumOfTokens(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.table = nn.Embedding(16, 10)
        ...
        ...     def forward(self, tokens, mask):
        ...         return (self.table(tokens) * mask[..., None]).sum(dim=1)
        >>> bakeoff.run_task(SumOfTokens(), task="listops", **short).metric
        'accuracy'

    A class of a pair, for which there is no shipped task:

        >>> class Difference(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.table, self.head = nn.Embedding(16, 8), nn.Linear(8, 2)
        ...
        ...     def forward(self, tokens):
        ...         first, second = self.table(tokens).mean(dim=2).unbind(dim=1)
        ...         return self.head((first - second).abs())

    A number:

        >>> line = nn.Sequential(nn.Flatten(), nn.Linear(16 * 3, 1))
        >>> bakeoff.run_task(line, task="kernel_regression", length=16, **short).metric
        'mean_squared_error'

    A symbol per position, from all positions, and the next symbol, from earlier positions only:

        >>> unigrams, bigrams = nn.Embedding(82, 81), nn.Embedding(81, 81)
        >>> bakeoff.run_task(unigrams, task="shakespeare_masked", **short).metric
        'bits_per_masked_character'
        >>> bakeoff.run_task(bigrams, task="shakespeare_characters", **short).metric
        'bits_per_character'

    A target sequence for a source sequence, with a metric that scores generated output:

        >>> class Writer(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.table, self.cell = nn.Embedding(13, 16), nn.GRUCell(16, 16)
        ...         self.head = nn.Linear(16, 13)
        ...
        ...     def encode(self, context, context_mask):
        ...         return (self.table(context) * context_mask[..., None]).sum(dim=1)
        ...
        ...     def initial_state(self, batch, encoded):
        ...         return encoded
        ...
        ...     def step(self, tokens, state):
        ...         state = self.cell(self.table(tokens), state)
        ...         return self.head(state), state
        ...
        ...     def forward(self, tokens, mask, context, context_mask):
        ...         state, logits = self.encode(context, context_mask), []
        ...         for column in tokens.unbind(dim=1):
        ...             found, state = self.step(column, state)
        ...             logits.append(found)
        ...         return torch.stack(logits, dim=1)
        >>> bakeoff.run_task(Writer(), task="reversal", length=4, **short).metric
        'exact_match'

    Another recipe:

        >>> recipe = bakeoff.Recipe(optimizer="sgd", schedule="linear", ema=0.9)
        >>> bakeoff.run_task(bigrams, task="shakespeare_characters", recipe=recipe, **short).unit
        'bit'

    Args:
        module: The module to train, with the inputs and outputs described above.
        task: Name of a task (`bakeoff list --tasks` shows them), own data such as
            ``bakeoff.TextFile("my.txt")``, or the user's own class as ``my_task:MyTask``.
        steps: Training steps; 0 scores the module without training.
        seed: Seed of the order of the data; the module must be initialized already.
        length: Tokens per sequence; by default the length of the data, or else 64.
        batch: Sequences per step.
        learning_rate: Peak of the schedule; by default the recipe's, 0.001.
        recipe: The training recipe; by default that of an ablation without a recipe.
        progress: Whether to show the progress and the validation scores on standard error.

    Returns:
        The test score, the learning curve, and the cost.

    Raises:
        TaskError: For an unknown task, or a length that does not suit it.
        ModuleError: If the module cannot be called with a batch, returns other logits, lacks a
            method, or cannot be trained.
        SpecError: For an invalid number, for a recipe that needs another trial, and for a
            precision that needs a GPU if there is none.
        Diverged: If the loss or the score becomes NaN or infinite.
    """
    _refuse_no_module(module)
    task = str(task_spelled(task))
    with looked_for_in(()):  # a file may have been edited since the last call
        task_class(task)
    given = {"steps": steps, "length": length, "batch": batch, "learning_rate": learning_rate}
    scale = _scale(seed, recipe or Recipe(), {k: v for k, v in given.items() if v is not None})
    if scale.scheduled_sampling and (why := why_no_sampling(task_class(task))):
        raise SpecError(f"run_task: scheduled_sampling={scale.scheduled_sampling}: {why}.")
    if why := why_not_augmented(task_class(task), scale.in_training(), scale.batch):
        raise SpecError(f"run_task: {why}.")
    training = Training(
        steps=steps,
        learning_rate=float(scale.learning_rate),
        warmup_steps=scale.warmup_steps,
        num_evaluations=scale.num_evaluations,
        **scale.in_training(),
    )
    length = task_class(task).fixed_length or LENGTH if length is None else length
    exercise = Exercise(task=build_task(task, length), training=training, batch=batch, seed=seed)
    with float32_products(training.precision) if torch.cuda.is_available() else nullcontext():
        return _trained(module, exercise, is_shown=progress)


def _refuse_no_module(module: object) -> None:
    if isinstance(module, type):
        raise ModuleError(f"{module.__name__} is a class; give a module, {module.__name__}(...)")
    if not isinstance(module, nn.Module):
        raise ModuleError(f"the module must be an nn.Module, not of type {type(module).__name__}")


def _scale(seed: int, recipe: Recipe, given: Mapping[str, Any]) -> Scale:
    """Return the recipe with the sizes; raise if they are invalid, or need two trials or a GPU."""
    if not isinstance(recipe, Recipe):
        raise SpecError(f"run_task: recipe={recipe!r} must be a Recipe(...).")
    asked = {"length": 1, **recipe.model_dump(exclude_unset=True), **given}
    if isinstance(rate := asked.get("learning_rate"), str):  # a tuned rate is not allowed either
        raise SpecError(f"run_task: learning_rate={rate!r} must be a number.")
    if type(seed) is not int or seed < 0:
        raise SpecError(f"run_task: seed={seed!r} must be a whole number of at least 0.")
    if type(asked["steps"]) is int and not asked["steps"]:
        asked["steps"] = 1  # a recipe that is not used, because nothing is trained
    try:
        scale = Scale(dim=1, depth=1, **asked)
    except SpecError as error:
        raise SpecError(str(error).replace("Scale", "run_task", 1)) from None
    for name in ("start", "distillation"):
        if (value := getattr(scale, name)) != Recipe.model_fields[name].default:
            raise SpecError(f"run_task: {name}={value!r} needs an ablation, which trains twice.")
    if scale.precision == "tf32" and not torch.cuda.is_available():
        raise SpecError("run_task: precision='tf32' needs a GPU, and this machine has none.")
    return scale


def _trained(module: nn.Module, exercise: Exercise, *, is_shown: bool) -> TaskResult:
    start, data = time.perf_counter(), exercise.task
    device = "cuda" if torch.cuda.is_available() else "cpu"
    first = data.training_batch(0, exercise.batch, exercise.seed)
    _refuse_untrainable(module, exercise.training.steps)
    _refuse_unsuited(module.to(device), data, first.to(device))
    if exercise.training.accumulation > 1 and exercise.training.steps:
        _refuse_mixed_rows(module, first.to(device), exercise.training.accumulation)
    points: tuple[Point, ...] = ()
    try:
        if exercise.training.steps:
            found = train(module, exercise, device)
            points = tuple(_shown(found, exercise) if is_shown else found)
        parts = evaluate_in_parts(module, data, "test", exercise.batch, device)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        if exit_code_of(error) is not None:  # one of our own messages
            raise
        raise ModuleError(
            f"the module {type(module).__name__} cannot be trained and scored on {data.name}: "
            f"{type(error).__name__}: {one_line(str(error))}{_if_not_float32(module)}"
        ) from error
    whole = parts.pop("")
    if not math.isfinite(whole):
        raise Diverged(f"the test {data.metric.name} is {whole}")
    return TaskResult(
        metric=data.metric.name,
        value=whole,
        unit=data.metric.unit,
        parts=parts,
        points=points,
        num_parameters=num_trained(module),
        seconds=time.perf_counter() - start,
    )


def _shown(points: Iterable[Point], exercise: Exercise) -> Iterator[Point]:
    """Yield the points; redraw a line on a terminal, elsewhere print the validation scores."""
    start, steps, is_live = time.monotonic(), exercise.training.steps, sys.stderr.isatty()
    begin, end = ("\r", "\x1b[K") if is_live else ("", "\n")
    try:
        for point in points:
            if is_live or point.metric.startswith(VALIDATION):
                left = (time.monotonic() - start) * (steps / point.step - 1)
                unit = "" if point.unit == "1" else f" {point.unit}"
                line = (
                    f"{exercise.task.name}: step {point.step} of {steps}, {point.metric} "
                    f"{point.value:.4g}{unit}; {in_words(left)} left"
                )
                print(f"{begin}{line}", end=end, file=sys.stderr, flush=True)
            yield point
    finally:
        if is_live:
            print(file=sys.stderr)


def _refuse_untrainable(module: nn.Module, steps: int) -> None:
    """Raise for a module on the meta device, and for one without trainable parameters."""
    name, parameters = type(module).__name__, list(module.parameters())
    if any(tensor.is_meta for tensor in (*parameters, *module.buffers())):
        raise ModuleError(
            f"the module {name} is on the device meta, where tensors have no values; give it some "
            "first, by module.to_empty(device='cpu') and an initialisation or load_state_dict"
        )
    if steps and not any(parameter.requires_grad for parameter in parameters):
        why = "all its parameters are frozen" if parameters else "it has no parameters"
        raise ModuleError(f"the module {name} cannot be trained: {why}; steps=0 scores it as it is")


def _if_not_float32(module: nn.Module) -> str:
    """Return a clause for a module in another precision; "" for one in float32."""
    kinds = {tensor.dtype for tensor in module.parameters() if tensor.is_floating_point()}
    if kinds <= {torch.float32}:
        return ""
    found = " and ".join(sorted(map(str, kinds)))
    return f"; its parameters are {found}, and module.float() makes them torch.float32"


def _refuse_unsuited(module: nn.Module, task: Task, batch: Batch) -> None:
    """Call the module once, before its first step, and restore its state."""
    _refuse_missing_parameters(module, task, batch)
    _refuse_missing_methods(module, task, batch)
    devices = [batch.targets.device] if batch.targets.is_cuda else []
    with torch.random.fork_rng(devices), in_evaluation_mode(module), torch.no_grad():
        try:
            outputs = batch.through(module)
            if _writes(task):
                score_batch(module, task.metric, batch.rows(slice(1)))
        except Exception as error:  # a user's module may raise anything
            raise ModuleError(
                f"the module {type(module).__name__} cannot be called with a batch of {task.name}, "
                f"{_input_of(task, batch)}: {type(error).__name__}: {one_line(str(error))}"
                f"{_if_not_float32(module)}"
            ) from error
    _refuse_other_shapes(module, task, batch, outputs.logits)


def _refuse_mixed_rows(module: nn.Module, batch: Batch, num_parts: int) -> None:
    """Raise if a batch is split, and an output in training depends on other rows, as in batch norm.

    Copies of the module are called, because a training pass changes its buffers.
    """
    changed = batch.map(lambda tensor: torch.cat([tensor[:-1], tensor[:1]]))
    devices = [batch.targets.device] if batch.targets.is_cuda else []
    found: list[Tensor] = []
    for each in (batch, changed):
        with torch.random.fork_rng(devices), torch.no_grad(), suppress(Exception):
            torch.manual_seed(0)
            found.append(each.through(copy.deepcopy(module).train()).logits[:-1])
    if len(found) < 2:  # it cannot be copied; errors of a call were reported before
        return
    difference, largest = (found[0] - found[1]).abs(), found[0].abs()
    if (difference > _TOLERANCE * largest.amax()).any():
        raise ModuleError(
            f"the module {type(module).__name__} mixes the rows of a batch in training, as batch "
            f"norm does, and accumulation={num_parts} cuts the batch into {num_parts} parts"
        )


def _refuse_missing_parameters(module: nn.Module, task: Task, batch: Batch) -> None:
    takes = inspect.signature(module.forward).parameters
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    for name, tensor in batch.inputs.items():
        if name == INPUTS or name in takes or takes_any:
            continue
        what, why = _described(tensor), f"{task.name} has more than one input"
        if name.endswith("mask"):
            what = "[batch, time], True at real tokens"
            why = f"the sequences of {task.name} differ in length and are padded"
        raise ModuleError(f"the module {type(module).__name__} must take {name}=, {what}: {why}")


def _writes(task: Task) -> bool:
    """Return True if the metric needs more methods than a call; playing needs only calls."""
    return writes(task.metric) and not isinstance(task.metric, PlayedMetric)


def _refuse_missing_methods(module: nn.Module, task: Task, batch: Batch) -> None:
    if not _writes(task):
        return
    needed, what = (
        ["initial_state", "step"],
        "writes by itself; bakeoff.models.decoding.Writer describes",
    )
    if task.asks_for == "drawing":
        needed, what = (
            ["draw", "num_image_tokens"],
            "draws by itself; bakeoff.models.interface describes",
        )
    elif "context" in batch.inputs:
        needed = ["encode", *needed]
    missing = [name for name in needed if getattr(module, name, None) is None]
    if missing:
        raise ModuleError(
            f"the module {type(module).__name__} must have {' and '.join(missing)}: "
            f"{task.metric.name} of {task.name} judges what it {what} them"
        )


def _refuse_other_shapes(module: nn.Module, task: Task, batch: Batch, outputs: object) -> None:
    if task.asks_for == "drawing":  # the number of logits depends on the module's own code
        return
    is_soft = batch.targets.is_floating_point() and task.asks_for != "number"
    num_logits = task.output_size
    if task.asks_for == "choice":  # one logit for each candidate; training may use fewer candidates
        num_logits = batch.inputs[INPUTS].shape[1]
    wanted = [*batch.targets.shape, *([] if is_soft else [num_logits])]
    if isinstance(outputs, Tensor) and [*outputs.shape] == wanted and outputs.is_floating_point():
        return
    found = "None" if outputs is None else type(outputs).__name__
    if isinstance(outputs, Tensor):
        found = f"{outputs.dtype} of shape {[*outputs.shape]}"
    raise ModuleError(
        f"the module {type(module).__name__} returns {found}; {task.name} needs logits "
        f"of shape {wanted}, {'[batch, time, symbols]' if len(wanted) == 3 else '[batch, classes]'}"
    )


def _input_of(task: Task, batch: Batch) -> str:
    """Describe the module's input, for example ``integers of 0 to 255, shape [16, 64]``."""
    first = batch.inputs["inputs"]
    if task.input_kind == "tokens":
        return f"integers of 0 to {task.input_size - 1}, shape {[*first.shape]}"
    return _described(first)


def _described(tensor: Tensor) -> str:
    kind = "floats" if tensor.is_floating_point() else "integers"
    return f"{kind} of shape {[*tensor.shape]}"
