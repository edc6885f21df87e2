"""Give a trial its share of a GPU's memory, and say what it took of the GPU: memory and energy.

What a process takes beside torch's allocator, for the GPU's context and the libraries, is no part
of the memory; each share leaves room for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from suite.schema import BYTES_OF_A_CONTEXT, Resources, Trial
from suite.timing.gpu_state import joules_since


def gpu_use(trial: Trial, resources: Resources) -> Callable[[], dict[str, Any]]:
    """From now on this process keeps to its share; what is returned says what it took since.

    Memory is by torch's allocator, what it keeps unused included. The energy counter is the card's:
    a trial that asks for a part of a card is given that part of the card's joules, whatever its
    neighbours did; a timing has its card to itself. Of a trial of several workers no energy is
    told, since the first one sees its own card alone.

    Returns:
        Asked later, it gives fields of `suite.schema.Result`.
    """
    share = min(1.0, resources.for_trial(trial).num_gpus)
    _keep_to(share)
    is_one = trial.num_workers == 1
    joules = joules_since(torch.device("cuda"), share) if is_one else lambda: None
    return lambda: {"gpu_bytes": _most_bytes(), "joules": joules()}


def _keep_to(share: float) -> None:
    """A trial that wants more runs out of memory by itself, and not its neighbours."""
    if torch.cuda.is_available():
        of_context = BYTES_OF_A_CONTEXT / torch.cuda.get_device_properties(0).total_memory
        fraction = share if share == 1.0 else max(0.0, share - of_context)
        torch.cuda.set_per_process_memory_fraction(fraction)
        torch.cuda.reset_peak_memory_stats()


def _most_bytes() -> int | None:
    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else None
