"""How does DeepSpeed write what it keeps, without pickle?

It asks an object for that; this one stands in its place, and writes safetensors and JSON. It has
the methods of `deepspeed.runtime.checkpoint_engine.CheckpointEngine`, without importing it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suite.checkpoints import Unfit
from suite.training.engines.state_tree import read_tree, write_tree

_OPTIMIZER = "optimizer_state_dict"
_SCALER = "loss_scaler"  # an object, of which nothing changes in float32
_LEFT_OUT = (_SCALER, "param_slice_mappings")  # and objects for another kind of checkpoint
_OF_ANOTHER = "zero_pp_rank_"  # begins a file of one worker's; then the worker, and "_"


class PlainFiles:
    """Files of one checkpoint; what goes wrong in writing waits until all workers are through.

    Attributes:
        trouble: The first thing that went wrong; DeepSpeed's workers wait for each other, so that
            one which left in the midst would leave the others waiting.
    """

    def __init__(self) -> None:
        self.trouble: OSError | Unfit | None = None
        self._read: dict[str, Any] = {}

    def name(self, path: str) -> str:
        """What stands in the place of a file that DeepSpeed would write to that path."""
        return f"{_without_suffix(path)}.json"

    def save(self, state_dict: dict[str, Any], path: str) -> None:
        """Write one of this worker's files."""
        kept = dict(state_dict)
        if isinstance(kept.get(_OPTIMIZER), dict):
            kept[_OPTIMIZER] = {k: v for k, v in kept[_OPTIMIZER].items() if k not in _LEFT_OUT}
        try:
            write_tree(_without_suffix(path), kept)
        except (OSError, Unfit) as error:
            self.trouble = self.trouble or error

    def read(self, folder: Path, rank: int) -> dict[str, Any]:
        """All that this worker will ask for, by the name of the file.

        Raises:
            Unfit: something of it cannot be read.
        """
        names = {file.stem for file in folder.glob("*rank_*.json")}
        mine = {
            name for name in names
            if not name.startswith(_OF_ANOTHER) or name.startswith(f"{_OF_ANOTHER}{rank}_")
        }  # fmt: skip
        self._read = {name: read_tree(folder / name) for name in sorted(mine)}
        return self._read

    def load(self, path: str, map_location: object = None) -> Any:
        """What `read` has read already."""
        return self._read[_without_suffix(path).name]

    def give_scaler(self, scaler: object) -> None:
        """What was left out, as the engine that loads has it."""
        for tree in self._read.values():
            if isinstance(tree.get(_OPTIMIZER), dict):
                tree[_OPTIMIZER][_SCALER] = scaler

    def forget(self) -> None:
        """What was read takes no memory any more."""
        self._read = {}

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """The folder stands already."""

    def create(self, info: object) -> None:
        """A checkpoint begins."""

    def commit(self, info: object) -> bool:
        """A checkpoint is written."""
        return True

    def is_data_parallel_writer(self, dp_rank: int) -> bool:
        """Whether that worker writes what all have alike."""
        return dp_rank == 0

    def is_decoupled(self) -> bool:
        """Whether it writes in the background."""
        return False

    def set_commit_info(self, info: object) -> None:
        """For those that do."""

    def get_commit_info(self) -> None:
        """For those that do."""

    def cleanup(self) -> None:
        """Nothing is left open."""

    def preserves_storage_sharing(self) -> bool:
        """Whether a view would be written with all that it is a view of."""
        return False


def _without_suffix(path: str) -> Path:
    return Path(path).with_suffix("")
