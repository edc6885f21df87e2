"""Where do the random numbers of this process stand, and how are they put back there?

Of torch on the CPU and on the GPU in use, of Python's `random`, and of numpy's old global source
where something has imported numpy. Data draw from sources of their own, which have no state.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import torch
from torch import Tensor

_CPU, _GPU = "random_cpu", "random_gpu"


def torch_states() -> dict[str, Tensor]:
    """Of torch, as tensors."""
    states = {_CPU: torch.get_rng_state()}
    if torch.cuda.is_available():
        states[_GPU] = torch.cuda.get_rng_state()
    return states


def other_states() -> dict[str, Any]:
    """Of Python and of numpy, as JSON can hold them."""
    states: dict[str, Any] = {"python": random.getstate()}
    if "numpy" in sys.modules:
        name, words, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = [name, words.tolist(), *rest]
    return states


def restore(tensors: dict[str, Tensor], others: dict[str, Any]) -> None:
    """Put them back; a GPU's only where there is one."""
    torch.set_rng_state(tensors[_CPU])
    if _GPU in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors[_GPU])
    version, words, gauss = others["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in others:
        import numpy as np

        np.random.set_state(tuple(others["numpy"]))
