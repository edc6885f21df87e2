"""Save the final weights of a trial from which others start or learn, and load them there.

A model on images of another resolution takes over learned positions, too: interpolated, as DeiT
does (Touvron et al. 2021, arXiv:2012.12877, section 5). Each kind of position defines how its table
is resampled; see `bakeoff.models.positions.absolute.Position.resampled`.

`<out>/checkpoints/<trial_id>/final/` has a file of tensors, and a manifest with its SHA-256. It has
a temporary name until all of it is on the disk, so it is complete or absent.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from torch import Tensor, nn

from bakeoff.models.positions.absolute import Position
from bakeoff.suite.errors import CheckpointError
from bakeoff.suite.text import some_of
from bakeoff.suite.training.checkpoint import UNFINISHED, why_invalid, write_manifest
from bakeoff.suite.training.tensor_io import (
    Tensors,
    make_folder,
    move_folder,
    read_tensors,
    remove_folder,
    write_tensors,
)

FINAL = "final"
_FILE = "model.safetensors"
_MOST_NAMED = 6


def keep_weights(checkpoints: Path, trial_id: str, weights: Tensors, step: int) -> None:
    """Write the weights durably; existing ones are replaced.

    Raises:
        OSError: if they could not be written.
        CheckpointError: if they cannot be stored in a file, or safetensors is not installed.
    """
    folder = checkpoints / trial_id
    draft = folder / f"{UNFINISHED}{secrets.token_hex(8)}.{FINAL}"
    make_folder(draft)
    try:
        write_tensors(draft / _FILE, weights)
        write_manifest(draft, trial_id, step)
        with suppress(FileNotFoundError):
            remove_folder(folder / FINAL)
        move_folder(draft, folder / FINAL)
    finally:
        with suppress(OSError):
            remove_folder(draft)


def why_no_weights(checkpoints: Path, trial_id: str) -> str:
    """Return why the weights of that trial cannot be used, as a clause; empty if they can."""
    return why_invalid(checkpoints / trial_id / FINAL, trial_id)


def take_over(
    model: nn.Module, checkpoints: Path | None, trial_id: str, *, is_frozen: bool = False
) -> str:
    """Give the model the saved weights whose name, shape and type agree with its own.

    The shape of an image's positions need not agree; see the module's docstring.

    Args:
        model: The initialised model; weights that do not agree are left unchanged.
        checkpoints: The folder of all trials' checkpoints, or None if this host cannot access it.
        trial_id: The trial that has saved the weights.
        is_frozen: Whether the weights that are taken over are excluded from training.

    Returns:
        A sentence about the weights that were taken.

    Raises:
        CheckpointError: if they are missing or damaged, if none agrees, if some that the model does
            not train itself are missing, or if nothing is left to train.
    """
    found = _kept(checkpoints, trial_id)
    moved = _on_its_grid(model, found)
    num_taken, left = _take(model, {**found, **moved})
    if not num_taken:
        raise CheckpointError(f"no weight of trial {trial_id[:8]} has a name and shape of its own")
    if still := [name for name in left if name in _untrained(model)]:
        raise CheckpointError(
            f"trial {trial_id[:8]} has kept no weight that fits "
            f"{some_of(still, _MOST_NAMED, ', ')}, which the model does not train"
        )
    if is_frozen:
        _freeze(model, left, trial_id)
    said = _in_words(num_taken - len(moved), list(moved), left)
    return f"it starts from trial {trial_id[:8]}: {said}"


def restore(model: nn.Module, checkpoints: Path | None, trial_id: str) -> str:
    """Give the model all weights that a trial of the same model has saved.

    Returns:
        A sentence with the trial's id.

    Raises:
        CheckpointError: if they are missing or damaged, or of another model.
    """
    _, left = _take(model, _kept(checkpoints, trial_id))
    if left:
        raise CheckpointError(f"trial {trial_id[:8]} has kept no weight that fits {left[0]}")
    return f"it learns from trial {trial_id[:8]}"


def _take(model: nn.Module, found: Tensors) -> tuple[int, list[str]]:
    """Load the weights; return the number of tensors taken over and the names of the others."""
    own = {name: t for name, t in model.state_dict().items() if isinstance(t, Tensor)}
    taken = {name: t for name, t in found.items() if name in own and _agree(t, own[name])}
    model.load_state_dict(taken, strict=False)
    left = [name for name, tensor in own.items() if not _is_taken(name, tensor, taken, own)]
    return len(own) - len(left), left


def _untrained(model: nn.Module) -> set[str]:
    return {name for name, each in model.named_parameters() if not each.requires_grad}


def _freeze(model: nn.Module, left: list[str], trial_id: str) -> None:
    """Freeze the parameters that were taken over, so that only the others are trained."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name in left)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise CheckpointError(f"nothing is left to train: trial {trial_id[:8]} has trained it all")


def _on_its_grid(model: nn.Module, found: Tensors) -> Tensors:
    """Return the tables of the model's positions, resampled from those learned on another grid."""
    moved = {}
    for path, module in model.named_modules():
        if not isinstance(module, Position):
            continue
        for name, own in module.named_parameters(prefix=path):
            table = found.get(name)
            if table is None or table.dtype != own.dtype or _agree(table, own):
                continue
            here = module.resampled(name.rpartition(".")[2], table)
            if here is not None:
                moved[name] = here
    return moved


def _kept(checkpoints: Path | None, trial_id: str) -> Tensors:
    host = os.uname().nodename
    if checkpoints is None:
        raise CheckpointError(
            f"host {host} does not see the output folder, through which the weights of trial "
            f"{trial_id[:8]} come; give an --out that all nodes share"
        )
    if why := why_no_weights(checkpoints, trial_id):
        folder = checkpoints / trial_id / FINAL
        raise CheckpointError(f"the weights in {folder} cannot be used on host {host}: {why}")
    return read_tensors(checkpoints / trial_id / FINAL / _FILE)


def _agree(found: Tensor, own: Tensor) -> bool:
    return (found.shape, found.dtype) == (own.shape, own.dtype)


def _is_taken(name: str, tensor: Tensor, taken: Tensors, own: Tensors) -> bool:
    """Return True if a tensor was taken by any of its names; a file holds shared ones once."""
    return name in taken or any(own[other].data_ptr() == tensor.data_ptr() for other in taken)


def _in_words(num_fit: int, moved: list[str], left: list[str]) -> str:
    """Return e.g. ``33 tensors fit, 1 was interpolated (table), 1 stays as drawn (bias)``."""
    if not moved and not left:
        return f"all {num_fit} tensors fit"
    was, stay = ("was" if len(moved) == 1 else "were"), ("stays" if len(left) == 1 else "stay")
    parts = {f"{was} interpolated": moved, f"{stay} as drawn": left}
    named = [
        f"{len(names)} {what} ({some_of(names, _MOST_NAMED, ', ')})"
        for what, names in parts.items()
        if names
    ]
    return ", ".join([f"{num_fit} tensors fit", *named])
