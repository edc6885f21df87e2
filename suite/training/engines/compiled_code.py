"""Keep compiled code in the output folder, so that all trainings of a shape compile it once.

On a cluster that folder is on the storage that all hosts share. Torch finds compiled code by what
is compiled, its own version and the kind of GPU, so that nothing outdated is used; the folder may
be removed at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from bakeoff.suite.training.checkpoint import Checkpointer

FOLDER = "compiled"  # beside the checkpoints
_OF_TORCH = "TORCHINDUCTOR_CACHE_DIR"
_SUBFOLDERS = {_OF_TORCH: "torch", "TRITON_CACHE_DIR": "triton"}


@contextmanager
def keeping_compiled_code(checkpointer: Checkpointer | None) -> Iterator[None]:
    """Let torch keep compiled code beside the checkpoints in the block.

    A variable that the user has set stays. A trial without checkpoints, such as a timing, uses the
    folder of torch. Nothing is written before something is compiled.
    """
    if checkpointer is None:
        yield
        return
    folder = checkpointer.folder.resolve().with_name(FOLDER)
    before = {name: os.environ.get(name) for name in _SUBFOLDERS if not _is_set_by_user(name)}
    os.environ.update({name: str(folder / _SUBFOLDERS[name]) for name in before})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


def _is_set_by_user(name: str) -> bool:
    """Return True if the variable has a value other than the one that torch itself gives it."""
    value = os.environ.get(name)
    if not value or name != _OF_TORCH:
        return bool(value)
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return os.path.abspath(value) != os.path.abspath(default_cache_dir())
