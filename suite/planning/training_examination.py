"""Examine how a user's own mixer or architecture trains, on a few tokens, before anything runs.

It takes milliseconds. It detects three faults that would otherwise silently give wrong numbers:
state that a checkpoint does not hold, rows of a batch that are mixed in training, and parameters
that DeepSpeed cannot distribute.

State outside of the state_dict is compared by value: numbers, texts, tensors, random number
generators, containers of these, and objects made of these. Functions are compared by their
closures.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import operator
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bakeoff.models import Mixer, ModelSpec, architecture_class, build_model, mixer_class
from bakeoff.models.interface import INPUTS, PENALTY, Answer, Outputs
from bakeoff.models.registry import mixer_pattern
from bakeoff.suite.planning.examination import (
    are_same,
    generators_kept,
    inputs_like,
    show_all,
)
from bakeoff.suite.planning.loader import tried
from bakeoff.suite.schema import Plan
from bakeoff.suite.schema.task_names import is_own_data, task_label
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.training.engines.engine import weights_of

_LONGEST_EXAMINED = 16
_NUM_ROWS, _NUM_TOGETHER = 3, 2
_STEPS_BEFORE = 2  # steps before the checkpoint
_STEP_SIZE = 1e-3
_MOST_NAMED = 3
_UNREAD_MARK = "_optim"
_REDUCED = (torch.float32, torch.bfloat16, torch.float16)  # types that DeepSpeed can reduce

Given = Mapping[str, Tensor]
_Aspect = Literal["unsaved", "rows_mixed", "unshared", "unread"]
_OF_TORCH = frozenset(vars(nn.Module()))
_DEEPEST = 8
_SHIPPED = ("torch", "bakeoff", "builtins", "typing", "abc")
_SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)


def state_of(module: nn.Module) -> dict[str, Any]:
    """Return name -> value of the attributes, and of the buffers that are not saved."""
    found: dict[str, Any] = {}
    for path, part in module.named_modules():
        unsaved = part._non_persistent_buffers_set
        buffers = {name: part._buffers[name] for name in unsaved if name in part._buffers}
        plain = {name: value for name, value in vars(part).items() if name not in _OF_TORCH}
        for name, value in {**plain, **buffers}.items():
            found[f"{path}.{name}" if path else name] = _comparable(value, {}, 0)
    return found


def shared_state(module: nn.Module) -> dict[str, Any]:
    """Return the same for state shared by instances: class attributes and module variables."""
    kinds = {kind for part in module.modules() for kind in type(part).__mro__}
    own = [kind for kind in kinds if kind.__module__.partition(".")[0] not in _SHIPPED]
    found: dict[str, Any] = {}
    for kind in own:
        found |= {f"{kind.__name__}.{name}": value for name, value in _plain(vars(kind))}
    for name in {kind.__module__ for kind in own}:
        found |= {
            f"{name}.{key}": each for key, each in _plain(vars(sys.modules.get(name, object)))
        }
    return found


def _plain(names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(names.items()):
        if not name.startswith("__"):
            yield name, _comparable(value, {}, 0)


def _comparable(value: Any, seen: dict[int, Any], depth: int) -> Any:
    """Return a value that can be compared with that of another object with the same content.

    An object that was already visited becomes None, and so do classes, modules and deeply nested
    values.
    """
    if isinstance(value, _SCALARS):
        return type(value).__name__, repr(value)
    if depth > _DEEPEST or id(value) in seen or isinstance(value, type | ModuleType):
        return None
    seen[id(value)] = value  # kept alive, so that its id is not reused

    def within(each: Any) -> Any:
        return _comparable(each, seen, depth + 1)

    if isinstance(value, Tensor):
        return _of_tensor(value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, _digest(value.tobytes())
    if (state := _of_generator(value)) is not None:
        return state
    if isinstance(value, Mapping):
        return [(within(key), within(each)) for key, each in value.items()]
    if isinstance(value, list | tuple | deque):
        return [within(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, map(within, value)))
    if callable(value) and not isinstance(value, nn.Module):
        return list(map(within, _enclosed(value)))
    return {name: within(each) for name, each in list(getattr(value, "__dict__", {}).items())}


def _enclosed(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # the cell is empty
            yield cell.cell_contents


def _of_generator(value: Any) -> Any:
    """Return the state of a random generator, a counter or an iterator, or None for others."""
    if isinstance(value, torch.Generator):
        return _digest(value.get_state().numpy().tobytes())
    if isinstance(value, random.Random):
        return repr(value.getstate())
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state(legacy=False))
    if isinstance(value, itertools.count):
        return repr(value)
    if isinstance(value, Iterator) and hasattr(value, "__length_hint__"):
        return "iterator", operator.length_hint(value)
    return None


def _of_tensor(tensor: Tensor) -> Any:
    if tensor.is_meta or tensor.layout != torch.strided:
        return str(tensor.dtype), tuple(tensor.shape)
    plain = tensor.detach().resolve_conj().contiguous().cpu().flatten()
    numbers = plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return str(tensor.dtype), tuple(tensor.shape), _digest(numbers)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def why_unsaved(spec: ModelSpec, asks_for: Answer) -> str:
    """Return why a training of the model cannot be resumed from a checkpoint; empty if it can.

    Like the functions below, it returns a clause about the user's own classes that begins with the
    name of one.

    Args:
        spec: The model.
        asks_for: The kind of output that its task needs.
    """
    return _first_finding("unsaved", spec, asks_for)


def why_rows_mixed(spec: ModelSpec, asks_for: Answer) -> str:
    """Return why a batch of the model cannot be split into parts; empty if it can."""
    return _first_finding("rows_mixed", spec, asks_for)


def why_unshared(spec: ModelSpec, asks_for: Answer) -> str:
    """Return why DeepSpeed cannot train the model; empty if it can."""
    return _first_finding("unshared", spec, asks_for)


def unresumable(plans: Iterable[Plan]) -> dict[str, str]:
    """Return trial_id -> why it cannot be resumed, for trainings where a reason was found."""
    found: dict[str, str] = {}
    for trial in (trial for plan in plans for trial in plan.trials):
        if trial.training is not None and any(spec.is_own for spec in trial.subjects):
            asks_for = task_class(trial.task).asks_for
            why = (why_unsaved(spec, asks_for) for spec in trial.subjects)
            found[trial.trial_id] = next(filter(None, why), "")
    return {trial_id: why for trial_id, why in found.items() if why}


def remarks_on(plans: Iterable[Plan]) -> list[str]:
    """Return the sentences that a user should read before the trials run."""
    plans = list(plans)
    unread = (
        _first_finding("unread", spec, task_class(trial.task).asks_for)
        for plan in plans
        for trial in plan.trials
        for spec in (trial.subjects if trial.training else ())
    )
    unsaved = (
        f"{why}; it is trained without checkpoints and starts from the beginning after an "
        "interruption"
        for why in unresumable(plans).values()
    )
    lengths = (sentence for plan in plans for sentence in _unused_lengths(plan))
    return list(dict.fromkeys([*unsaved, *filter(None, unread), *lengths]))


def _unused_lengths(plan: Plan) -> Iterator[str]:
    """Yield a sentence for each file of the user's whose examples have another length."""
    asked = plan.about.settings.get("length")
    for name in dict.fromkeys(trial.task for trial in plan.trials if is_own_data(trial.task)):
        fixed = task_class(name).fixed_length
        if fixed and fixed != asked:
            yield (
                f"{task_label(name)}: each example has {fixed} tokens, so length={asked} has no "
                "effect on it"
            )


def _first_finding(aspect: _Aspect, spec: ModelSpec, asks_for: Answer) -> str:
    kinds: list[tuple[str, Any]] = [
        (name, mixer_class(name)) for name in dict.fromkeys(mixer_pattern(spec.mixer))
    ]
    kinds.append((spec.architecture, architecture_class(spec.architecture)))
    own = ((name, kind) for name, kind in kinds if ":" in name)
    found = (_finding(aspect, spec.spelling, asks_for, name, kind) for name, kind in own)
    return next(filter(None, found), "")


@cache
def _finding(
    aspect: _Aspect, spelling: str, asks_for: Answer, name: str, kind: type[nn.Module]
) -> str:
    """Examine one class; it is an argument so that a module imported anew is examined anew."""
    spec = ModelSpec.of_spelling(spelling)
    subject = _Subject(spec=spec, asks_for=asks_for, name=name, kind=kind)
    with tried(), generators_kept():
        return subject.finding(aspect)


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """A user's class, and the model that it is a part of."""

    spec: ModelSpec
    asks_for: Answer
    name: str
    kind: type[nn.Module]

    def finding(self, aspect: _Aspect) -> str:
        """Return the finding at a few tokens, or at the full length if the class fails at others.

        If the class cannot be trained here either, the error is left to its trial.
        """
        examine = {
            "unsaved": self._unsaved,
            "rows_mixed": self._rows_mixed,
            "unshared": self._unshared,
            "unread": self._unread,
        }[aspect]
        for length in (min(self.spec.length, _LONGEST_EXAMINED), self.spec.length):
            with suppress(Exception):  # a user's class may raise anything
                return examine(length)
        return ""

    def _built(self) -> nn.Module:
        """Return the module, equal at each call except for state shared between instances."""
        _seed(0)
        if not issubclass(self.kind, Mixer):
            return build_model(self.spec)
        knobs = {field.name for field in dataclasses.fields(self.kind.Config)}
        own = {k: v for k, v in self.spec.knobs.items() if k in knobs}
        alone = dataclasses.replace(self.spec, mixer=self.name, knobs=own, depth=1)
        return next(m for m in build_model(alone).modules() if isinstance(m, self.kind))

    def _given(self, length: int, seed: int) -> dict[str, Tensor]:
        drawn = torch.Generator().manual_seed(seed)
        if issubclass(self.kind, Mixer):
            return {INPUTS: torch.randn(_NUM_ROWS, length, self.spec.dim, generator=drawn)}
        return inputs_like(self.spec, self.asks_for, length, drawn, num_rows=_NUM_ROWS)

    def _unsaved(self, length: int) -> str:
        """Compare a training with one that is resumed from a checkpoint, after one more step."""
        module = self._built()
        batches = [self._given(length, seed) for seed in range(_STEPS_BEFORE + 1)]
        for batch in batches[:-1]:
            _step(module, batch)
        saved = {name: t.clone() for name, t in weights_of(module).items()}
        drawn = random.getstate(), np.random.get_state(), torch.get_rng_state()
        shared = shared_state(module)
        fresh = self._built()
        if added := sorted(saved.keys() ^ weights_of(fresh).keys()):
            return (
                f"{self.name} cannot be resumed from a checkpoint: {_listed(added)} of its "
                "state_dict is made or removed in training"
            )
        _set_generators(*drawn)
        loss = _step(module, batches[-1])
        changed = _differing(shared, shared_state(module))
        _set_generators(*drawn)
        fresh.load_state_dict(saved, strict=False)
        loss_of_fresh = _step(fresh, batches[-1])
        changed = _differing(state_of(module), state_of(fresh)) + changed
        if changed:
            are, do = ("are", "change") if len(changed) > 1 else ("is", "changes")
            return (
                f"{self.name} cannot be resumed from a checkpoint: {_listed(changed)} {do} in "
                f"training and {are} not in its state_dict (register_buffer puts a tensor there)"
            )
        if not are_same(loss, loss_of_fresh):
            return (
                f"{self.name} cannot be resumed from a checkpoint: something that is not in its "
                "state_dict changes in training and affects the loss"
            )
        return ""

    def _rows_mixed(self, length: int) -> str:
        """Compare outputs of rows in training: beside other rows, and without other rows."""
        given, others = self._given(length, 0), self._given(length, 1)
        together = {name: tensor[:_NUM_TOGETHER] for name, tensor in given.items()}
        beside = {n: torch.cat([t, others[n][_NUM_TOGETHER:]]) for n, t in together.items()}
        outputs, buffers = self._once_in_training(given)
        is_same = self._once_in_training(given)[0] == outputs
        outputs_beside, buffers_beside = self._once_in_training(beside)
        if is_same and outputs != outputs_beside:
            return self._mixing("the output of one sequence")
        if is_same and buffers != buffers_beside:
            return self._mixing("the value that a buffer takes from one sequence")
        is_drawn = self._once_in_training(given, seed=1)[0] != outputs
        # Random numbers may depend on the number of rows.
        if is_same and not is_drawn and self._once_in_training(together)[0] != outputs:
            return self._mixing("the output of one sequence")
        return ""

    def _mixing(self, what: str) -> str:
        return (
            f"{self.name} mixes the rows of a batch in training, as batch norm does: {what} "
            "changes with the others"
        )

    def _once_in_training(self, given: Given, seed: int = 0) -> tuple[_Numbers, _Numbers]:
        """Return a new module's outputs for the compared rows, and its buffers after the pass."""
        module = self._built()
        show_all(module)
        module.train()
        _seed(seed)
        with torch.no_grad():
            outputs = [each[:_NUM_TOGETHER] for each in _outputs(module, given)]
        return _Numbers(outputs), _Numbers(buffer.float() for buffer in module.buffers())

    def _unshared(self, length: int) -> str:
        for name, parameter in self._built().named_parameters():
            if parameter.is_complex():
                return (
                    f"{self.name} has the complex parameter {name!r}, and DeepSpeed would make all "
                    "parameters complex"
                )
            if parameter.dtype not in _REDUCED:
                return (
                    f"{self.name} has the parameter {name!r} of {parameter.dtype}, which "
                    "DeepSpeed cannot reduce"
                )
        return ""

    def _unread(self, length: int) -> str:
        """Return a remark on marks as in S4's code, if there are any; Mamba's are supported."""
        parameters = self._built().named_parameters()
        names = [name for name, each in parameters if hasattr(each, _UNREAD_MARK)]
        if not names:
            return ""
        return (
            f"{self.name} sets {_UNREAD_MARK} on {_listed(names)}, which is ignored: all "
            "parameters use the learning rate of the recipe, and no_weight_decay lists the "
            "parameters without weight decay"
        )


class _Numbers:
    """Tensors that compare equal up to rounding."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = list(tensors)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Numbers) and all(
            a.shape == b.shape and are_same(a, b)
            for a, b in zip(self._tensors, other._tensors, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _set_generators(of_python: Any, of_numpy: Any, of_torch: Tensor) -> None:
    random.setstate(of_python)
    np.random.set_state(of_numpy)
    torch.set_rng_state(of_torch)


def _outputs(module: nn.Module, given: Given) -> tuple[Tensor, ...]:
    """Return the outputs that a loss uses, computed from a copy of the inputs."""
    first, *_ = copies = [tensor.clone() for tensor in given.values()]
    rest = dict(zip(list(given)[1:], copies[1:], strict=True))
    returned = module(first, None) if isinstance(module, Mixer) else module(first, **rest)
    if isinstance(returned, Outputs):
        penalty = returned.auxiliary.get(PENALTY)
        return (returned.logits,) if penalty is None else (returned.logits, penalty)
    return (returned,)


def _step(module: nn.Module, given: Given) -> Tensor:
    """Run forward, backward, update, then a pass in evaluation mode; return the loss.

    The update is written out, because torch's optimizers import its compiler, which takes seconds.
    """
    module.train()
    weights = torch.Generator().manual_seed(0)
    loss = torch.zeros(())
    for output in _outputs(module, given):
        real = torch.view_as_real(output) if output.is_complex() else output.float()
        loss = loss + (real * torch.randn(real.shape, generator=weights) + real.square()).mean()
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.sub_(_STEP_SIZE * parameter.grad.sgn())
                parameter.grad = None
        module.eval()
        _outputs(module, given)
        module.train()
    return loss.detach()


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names whose values differ between two states."""
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def _listed(names: Iterable[str]) -> str:
    found = [repr(name) for name in names]
    rest = len(found) - _MOST_NAMED
    shown = [*found[:_MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
