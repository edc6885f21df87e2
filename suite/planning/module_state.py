"""Read the state of a module that stands outside its state_dict, in a form that can be compared.

Numbers, texts, tensors, generators of random numbers, containers of such, and objects made of such
count. Functions count by what they enclose. What has no value that can be compared is left out.
"""

from __future__ import annotations

import hashlib
import itertools
import operator
import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_OF_TORCH = frozenset(vars(nn.Module()))
_DEEPEST = 8
_SHIPPED = ("torch", "models", "suite", "builtins", "typing", "abc")
_SCALARS = (type(None), bool, int, float, complex, str, bytes, np.generic)


def state_of(module: nn.Module) -> dict[str, Any]:
    """Return name -> value of the attributes and of the buffers that are not saved."""
    found: dict[str, Any] = {}
    for path, part in module.named_modules():
        unsaved = part._non_persistent_buffers_set
        buffers = {name: part._buffers[name] for name in unsaved if name in part._buffers}
        plain = {name: value for name, value in vars(part).items() if name not in _OF_TORCH}
        for name, value in {**plain, **buffers}.items():
            found[f"{path}.{name}" if path else name] = _comparable(value, {}, 0)
    return found


def shared_state(module: nn.Module) -> dict[str, Any]:
    """Return the same of what instances share: attributes of classes, variables of modules."""
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
    """Return what equals that of another value where the two hold the same.

    An object that was seen already comes to None, as do classes, modules and what lies too deep.
    """
    if isinstance(value, _SCALARS):
        return type(value).__name__, repr(value)
    if depth > _DEEPEST or id(value) in seen or isinstance(value, type | ModuleType):
        return None
    seen[id(value)] = value  # kept alive, so that no other object gets its number

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
        with suppress(ValueError):  # it is empty
            yield cell.cell_contents


def _of_generator(value: Any) -> Any:
    """Where a generator of random numbers, a counter or an iterator stands; None of all else."""
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
