"""Give a trial its share of a GPU's memory, and say how much of it was taken.

What a process takes beside torch's allocator, for the GPU's context and the libraries, is no part
of either; each share leaves room for it.
"""

from __future__ import annotations

import torch

from suite.schema import BYTES_OF_A_CONTEXT, Resources


def keep_to_share(resources: Resources) -> None:
    """From now on this process may take its share and no more; what it took at most is forgotten.

    A trial that wants more then runs out of memory by itself, and not its neighbours.
    """
    if torch.cuda.is_available():
        share = min(1.0, resources.num_gpus)
        of_context = BYTES_OF_A_CONTEXT / torch.cuda.get_device_properties(0).total_memory
        fraction = share if share == 1.0 else max(0.0, share - of_context)
        torch.cuda.set_per_process_memory_fraction(fraction)
        torch.cuda.reset_peak_memory_stats()


def most_bytes_taken() -> int | None:
    """By torch's allocator, what it keeps unused included; None where no GPU is found."""
    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else None


def wanted_more(resources: Resources) -> str:
    """What to say, behind the reason, of a trial on part of a GPU that ran out of memory."""
    if not resources.is_shared:
        return ""
    more = min(1.0, 2 * resources.num_gpus)
    return f" It had {resources.num_gpus:.3g} of a GPU; --set gpus={more:g} gives it more."
