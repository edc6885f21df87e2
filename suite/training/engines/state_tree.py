"""How is a nest of dictionaries, lists, numbers and tensors kept in two files, without pickle?

The tensors go to a file of safetensors, the nest itself to JSON, in which a tensor is a name. It
comes back with the same kinds of containers and keys, each tensor in memory of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from suite.checkpoints import Unfit
from suite.tensor_files import read_json, read_tensors, write_json, write_tensors

_PLAIN = (type(None), bool, int, float, str)


def write_tree(path: Path, tree: object) -> None:
    """Two new files, whose contents last: `path` with ``.json`` and ``.safetensors`` added.

    Raises:
        OSError: one could not be written.
        Unfit: there is something in it that is none of these.
    """
    tensors: dict[str, Tensor] = {}
    nest = _taken_apart(tree, tensors, {})
    write_tensors(path.with_name(f"{path.name}.safetensors"), tensors)
    write_json(path.with_name(f"{path.name}.json"), nest)


def read_tree(path: Path) -> Any:
    """What `write_tree` wrote.

    Raises:
        Unfit: a file is missing, or is none of ours.
    """
    tensors = read_tensors(path.with_name(f"{path.name}.safetensors"))
    try:
        return _put_together(read_json(path.with_name(f"{path.name}.json")), tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise Unfit(f"{path.name}.json is no nest of ours ({error})") from error


def tensors_in(tree: object) -> dict[str, Tensor]:
    """All tensors of a nest, each once, by names that are the same for nests of the same shape."""
    found: dict[str, Tensor] = {}
    _taken_apart(tree, found, {})
    return found


def _taken_apart(tree: object, tensors: dict[str, Tensor], known: dict[object, str]) -> Any:
    """As JSON can hold it; a tensor that stands there twice is kept once."""
    if isinstance(tree, Tensor):
        place = (tree.data_ptr(), tree.dtype, tree.shape, tree.stride())
        name = known.setdefault(place, str(len(known)))
        tensors[name] = tree
        return ["tensor", name]
    if isinstance(tree, _PLAIN):
        return tree
    if isinstance(tree, Mapping):
        pairs = [
            [_taken_apart(k, tensors, known), _taken_apart(v, tensors, known)]
            for k, v in tree.items()
        ]
        return ["dict", pairs]
    if isinstance(tree, list | tuple):
        kind = "list" if isinstance(tree, list) else "tuple"
        return [kind, [_taken_apart(each, tensors, known) for each in tree]]
    raise Unfit(f"something of type {type(tree).__name__} cannot be kept")


def _put_together(nest: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(nest, list):
        return nest
    kind, content = nest
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {_put_together(k, tensors): _put_together(v, tensors) for k, v in content}
    made = [_put_together(each, tensors) for each in content]
    return {"list": list, "tuple": tuple}[kind](made)
