"""Writes what DeepSpeed keeps of a training as safetensors and JSON, without pickle.

DeepSpeed saves nested dictionaries and lists through an object that it calls checkpoint engine;
`PlainCheckpointEngine` takes that object's place. The tensors of a nest go to one file, the nest
itself to another, in which a tensor is a name. It is read back with the same kinds of containers
and keys, each tensor in memory of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from suite.errors import CheckpointError
from suite.training.tensor_io import read_json, read_tensors, write_json, write_tensors

# Objects that are not saved: the loss scaler, of which nothing changes in float32, and the slices
# that another format of checkpoint needs.
SCALER = "loss_scaler"
NOT_SAVED = (SCALER, "param_slice_mappings")
OPTIMIZER = "optimizer_state_dict"
_OF_A_WORKER = "zero_pp_rank_"  # begins the name of a file of one worker; then its rank, and "_"
_SCALARS = (type(None), bool, int, float, str)


class PlainCheckpointEngine:
    """The methods of `deepspeed.runtime.checkpoint_engine.CheckpointEngine` that are called.

    Attributes:
        loaded: What `load` returns, by the name of the file.
        error: The first that writing met. It is raised once all workers are through: they wait for
            each other, so one that left earlier would block the others.
    """

    def __init__(self) -> None:
        self.loaded: dict[str, Any] = {}
        self.error: OSError | CheckpointError | None = None

    def save(self, state_dict: dict[str, Any], path: str) -> None:
        """Write one of this worker's files."""
        saved = dict(state_dict)
        if isinstance(saved.get(OPTIMIZER), dict):
            saved[OPTIMIZER] = {k: v for k, v in saved[OPTIMIZER].items() if k not in NOT_SAVED}
        try:
            write_tree(_without_suffix(path), saved)
        except (OSError, CheckpointError) as error:
            self.error = self.error or error

    def load(self, path: str, map_location: object = None) -> Any:
        """What was read before DeepSpeed began to load."""
        return self.loaded[_without_suffix(path).name]

    def commit(self, *info: object, **named: object) -> bool:
        """Do nothing when a checkpoint begins or ends, or for its folder, which exists already."""
        return True

    create = makedirs = commit

    def is_data_parallel_writer(self, dp_rank: int) -> bool:
        """Whether that worker writes what all have alike."""
        return dp_rank == 0

    def is_decoupled(self) -> bool:
        """Whether it writes in the background."""
        return False

    def preserves_storage_sharing(self) -> bool:
        """Whether a view would be written with all that it is a view of."""
        return False


def read_trees(folder: Path, rank: int, scaler: object) -> dict[str, Any]:
    """All that this worker will load, by the name of the file, with the scaler that was not saved.

    Raises:
        CheckpointError: something of it cannot be read.
    """
    trees = {}
    for name in sorted({file.stem for file in folder.glob("*rank_*.json")}):
        if name.startswith(_OF_A_WORKER) and not name.startswith(f"{_OF_A_WORKER}{rank}_"):
            continue
        trees[name] = read_tree(folder / name)
        if isinstance(trees[name].get(OPTIMIZER), dict):
            trees[name][OPTIMIZER][SCALER] = scaler
    return trees


def plain_name(path: str) -> str:
    """The JSON file in the place of a file that DeepSpeed would write to that path."""
    return f"{_without_suffix(path)}.json"


def write_tree(path: Path, tree: object) -> None:
    """Two new, durable files: `path` with ``.json`` and ``.safetensors`` added.

    Raises:
        OSError: one could not be written.
        CheckpointError: it holds something other than containers, scalars and tensors.
    """
    tensors: dict[str, Tensor] = {}
    nest = _encoded(tree, tensors, {})
    write_tensors(path.with_name(f"{path.name}.safetensors"), tensors)
    write_json(path.with_name(f"{path.name}.json"), nest)


def read_tree(path: Path) -> Any:
    """What `write_tree` wrote.

    Raises:
        CheckpointError: a file is missing, or has another format.
    """
    tensors = read_tensors(path.with_name(f"{path.name}.safetensors"))
    try:
        return _decoded(read_json(path.with_name(f"{path.name}.json")), tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path.name}.json has another format ({error})") from error


def tensors_in(tree: object) -> dict[str, Tensor]:
    """All tensors of a nest, each once, by names that are the same for nests of the same shape."""
    found: dict[str, Tensor] = {}
    _encoded(tree, found, {})
    return found


def _encoded(tree: object, tensors: dict[str, Tensor], known: dict[object, str]) -> Any:
    """As JSON can hold it; a tensor that occurs twice is stored once."""
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


def _without_suffix(path: str) -> Path:
    return Path(path).with_suffix("")
