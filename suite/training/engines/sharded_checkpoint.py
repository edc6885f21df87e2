"""Write nested containers of scalars and tensors as safetensors and JSON, without pickle.

The state dictionaries of DeepSpeed's optimisers are such containers. The tensors go to one file,
the structure to another, in which a tensor is a name. It is read back with the same kinds of
containers and keys, each tensor in its own memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.training.tensor_io import read_json, read_tensors, write_json, write_tensors

_SCALARS = (type(None), bool, int, float, str)


def write_tree(path: Path, tree: object) -> None:
    """Write two new, durable files: `path` with ``.json`` and ``.safetensors`` added.

    Raises:
        OSError: if a file could not be written.
        CheckpointError: if `tree` holds anything but containers, scalars and tensors.
    """
    tensors: dict[str, Tensor] = {}
    nest = _encoded(tree, tensors, {})
    write_tensors(path.with_name(f"{path.name}.safetensors"), tensors)
    write_json(path.with_name(f"{path.name}.json"), nest)


def read_tree(path: Path) -> Any:
    """Read the containers that `write_tree` wrote.

    Raises:
        CheckpointError: if a file is missing, or has another format.
    """
    tensors = read_tensors(path.with_name(f"{path.name}.safetensors"))
    try:
        return _decoded(read_json(path.with_name(f"{path.name}.json")), tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path.name}.json has another format ({error})") from error


def tensors_in(tree: object) -> dict[str, Tensor]:
    """Return all tensors of nested containers, each once, by names that depend on the structure."""
    found: dict[str, Tensor] = {}
    _encoded(tree, found, {})
    return found


def _encoded(tree: object, tensors: dict[str, Tensor], known: dict[object, str]) -> Any:
    """Replace tensors by names, so that JSON can hold the rest; store a repeated tensor once."""
    if isinstance(tree, Tensor):
        key = (tree.data_ptr(), tree.dtype, tree.shape, tree.stride())
        name = known.setdefault(key, str(len(known)))
        tensors[name] = tree
        return ["tensor", name]
    if isinstance(tree, _SCALARS):
        return tree
    if isinstance(tree, Mapping):
        return ["dict", [[_encoded(each, tensors, known) for each in kv] for kv in tree.items()]]
    if isinstance(tree, list | tuple):
        kind = "list" if isinstance(tree, list) else "tuple"
        return [kind, [_encoded(each, tensors, known) for each in tree]]
    raise CheckpointError(f"something of type {type(tree).__name__} cannot be kept")


def _decoded(nest: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(nest, list):
        return nest
    kind, content = nest
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {_decoded(k, tensors): _decoded(v, tensors) for k, v in content}
    made = [_decoded(each, tensors) for each in content]
    return {"list": list, "tuple": tuple}[kind](made)
