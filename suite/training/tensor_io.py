"""Writes tensors to files, reads and hashes them, without pickle.

The format is safetensors: names, types, shapes, bytes, and nothing that could be run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from suite.errors import CheckpointError
from suite.training import atomic_files

Tensors = Mapping[str, Tensor]


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Write a new, durable file.

    Raises:
        OSError: it could not be written.
        CheckpointError: safetensors is not installed, or does not know such tensors.
    """
    library = _safetensors()
    try:
        body: bytes = library.torch.save({name: _plain(t) for name, t in tensors.items()})
    except (library.SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"safetensors cannot hold its tensors ({_first_line(error)})"
        ) from error
    atomic_files.create(path, body)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """What `write_tensors` wrote, in memory of its own, on the CPU.

    Raises:
        CheckpointError: there is no such file, or it has another format.
    """
    library = _safetensors()
    try:
        return {name: t.clone() for name, t in library.torch.load_file(path).items()}
    except (library.SafetensorError, OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path.name} cannot be read ({_first_line(error)})") from error


def write_json(path: Path, content: object) -> None:
    """Write a new, durable file; numbers are read back bit for bit.

    Raises:
        OSError: it could not be written.
    """
    atomic_files.create(path, json.dumps(content).encode())


def read_json(path: Path) -> Any:
    """What `write_json` wrote.

    Raises:
        CheckpointError: there is no such file, or it is no JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path.name} cannot be read ({_first_line(error)})") from error


def refuse_non_tensors(state: Mapping[str, object]) -> None:
    """Refuse a model's state that holds anything but tensors.

    Raises:
        CheckpointError: with the first such name.
    """
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise CheckpointError(f"{name} is no tensor, and nothing else of a model can be kept")


def refuse_misfit(what: str, found: Tensors, wanted: Tensors) -> None:
    """Refuse tensors of other names, shapes or types than are wanted.

    Raises:
        CheckpointError: with the first that differs.
    """
    if odd := sorted(found.keys() ^ wanted.keys()):
        where = "is not in the checkpoint" if odd[0] in wanted else "is in the checkpoint alone"
        raise CheckpointError(f"{what} {odd[0]} {where}")
    for name, tensor in wanted.items():
        if (found[name].shape, found[name].dtype) != (tensor.shape, tensor.dtype):
            raise CheckpointError(
                f"{what} {name} has shape {tuple(found[name].shape)} and type {found[name].dtype} "
                f"in the checkpoint, and {tuple(tensor.shape)} and {tensor.dtype} here"
            )


def sha256_of(groups: Mapping[str, Tensors]) -> str:
    """Over names, types, shapes and bytes of all tensors, in the order of their names.

    Raises:
        CheckpointError: a tensor has no plain bytes, as a sparse one.
    """
    digest = hashlib.sha256()
    for group, tensors in sorted(groups.items()):
        for name, tensor in sorted(tensors.items()):
            digest.update(repr((group, name, tuple(tensor.shape), str(tensor.dtype))).encode())
            digest.update(_bytes_of(tensor))
    return digest.hexdigest()


def _bytes_of(tensor: Tensor) -> Any:
    try:
        return _plain(tensor).cpu().reshape(-1).view(torch.uint8).numpy()
    except RuntimeError as error:
        raise CheckpointError(f"a tensor has no plain bytes ({_first_line(error)})") from error


# What shares memory with another, or lies in it in an order of its own, would not be taken.
def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _safetensors() -> Any:
    """Imported when there is something to write: most trials are over before that.

    Raises:
        CheckpointError: it is not installed.
    """
    try:
        import safetensors
        import safetensors.torch
    except ImportError as error:
        raise CheckpointError("safetensors is not installed here") from error
    return safetensors


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
