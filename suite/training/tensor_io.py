"""Write files durably; write, read and hash tensors.

After a crash a file is complete or absent: callers write it under a temporary name, or into a
folder with one, and rename that once its content and names are on the disk. Every effect is a call
of `os`, so that tests can make each fail. The format of tensors is safetensors, which holds names,
types, shapes and bytes, but no code.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bakeoff.suite.errors import CheckpointError

Tensors = Mapping[str, Tensor]


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Write a new, durable file.

    Raises:
        OSError: if it could not be written.
        CheckpointError: if safetensors is not installed, or does not support such tensors.
    """
    library = _safetensors()
    try:
        body: bytes = library.torch.save({name: _plain(t) for name, t in tensors.items()})
    except (library.SafetensorError, RuntimeError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"safetensors cannot hold its tensors ({_first_line(error)})"
        ) from error
    create(path, body)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors that `write_tensors` wrote, in their own memory, on the CPU.

    Raises:
        CheckpointError: if there is no such file, or it has another format.
    """
    library = _safetensors()
    try:
        return {name: t.clone() for name, t in library.torch.load_file(path).items()}
    except (library.SafetensorError, OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path.name} cannot be read ({_first_line(error)})") from error


def write_json(path: Path, content: object) -> None:
    """Write a new, durable file; numbers are read back bit for bit.

    Raises:
        OSError: if it could not be written.
    """
    create(path, json.dumps(content).encode())


def read_json(path: Path) -> Any:
    """Return the content that `write_json` wrote.

    Raises:
        CheckpointError: if there is no such file, or it is not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path.name} cannot be read ({_first_line(error)})") from error


def refuse_non_tensors(state: Mapping[str, object]) -> None:
    """Reject a model's state that holds anything but tensors.

    Raises:
        CheckpointError: with the name of the first one.
    """
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise CheckpointError(f"{name} is not a tensor; only tensors can be saved")


def refuse_misfit(what: str, found: Tensors, wanted: Tensors) -> None:
    """Reject tensors whose names, shapes or types differ from the expected ones.

    Raises:
        CheckpointError: with the first tensor that differs.
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
    """Return a hash of names, types, shapes and bytes of all tensors, ordered by name.

    Raises:
        CheckpointError: if a tensor has no plain bytes, such as a sparse one.
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


# safetensors rejects tensors that share memory or are not contiguous.
def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _safetensors() -> Any:
    """Import safetensors only when it is needed, since most trials end before that.

    Raises:
        CheckpointError: if it is not installed.
    """
    try:
        import safetensors
        import safetensors.torch
    except ImportError as error:
        raise CheckpointError("safetensors is not installed here") from error
    return safetensors


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def create(path: Path, body: bytes) -> None:
    """Write a new file and flush it; its name is durable once the folder is flushed.

    Raises:
        OSError: if it could not be written, or the name is taken.
    """
    file = os.open(path, _NEW, 0o666)
    try:
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)


def fsync_folder(path: Path) -> None:
    """Make the names in a folder durable: new, renamed and removed ones.

    Raises:
        OSError: if the disk fails.
    """
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, durably; do nothing if it exists.

    Raises:
        OSError: if it could not be created.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    with suppress(FileExistsError):
        os.mkdir(path)
    fsync_folder(path.parent)


def move_folder(path: Path, to: Path) -> None:
    """Rename a folder whose content and names are durable already, atomically.

    Raises:
        OSError: if it could not be renamed, for example because of a folder there that is not
            empty.
    """
    os.rename(path, to)
    fsync_folder(to.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder with all of its content; links are removed, not followed.

    Raises:
        OSError: if a part of it remains.
    """
    with os.scandir(path) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            remove_folder(Path(entry.path))
        else:
            os.unlink(entry.path)
    os.rmdir(path)
