"""An ablation of mixers that fail in every way: in training, since planning tries a few rows."""

import ctypes
import os
import signal
import subprocess
import threading
import time

import torch

from bakeoff import Ablation, Model, Scale, vary
from bakeoff.models.mixer import Mixer


class Good(Mixer):
    """The mean over the sequence; a training batch has the fault."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        """Return the mean everywhere."""
        if len(x) >= 100:
            self.fail(x)
        return x.mean(dim=1, keepdim=True).expand_as(x)

    def fail(self, x):
        """Do nothing."""


class RunsOutOfMemory(Good):
    """Raises what torch raises on a full GPU."""

    def fail(self, x):  # noqa: D102
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


class AsksForTooMuch(Good):
    """Asks for more memory than any host has."""

    def fail(self, x):  # noqa: D102
        torch.empty(2**55, dtype=torch.uint8)


class BecomesNaN(Good):
    """Diverges."""

    def forward(self, x, mask=None, context=None, context_mask=None):  # noqa: D102
        return x * float("nan")


class Hangs(Good):
    """Never returns."""

    def fail(self, x):  # noqa: D102
        time.sleep(1e6)


class HoldsOn(Good):
    """Never returns and lets no other thread of its process run."""

    def fail(self, x):  # noqa: D102
        ctypes.PyDLL(None).sleep(1_000_000)


class Segfaults(Good):
    """Reads where nothing is."""

    def fail(self, x):  # noqa: D102
        ctypes.string_at(0)


class Leaves(Good):
    """Ends its process with an exit code."""

    def fail(self, x):  # noqa: D102
        os._exit(3)


class RaisesOddly(Good):
    """Raises an error that cannot be pickled and has no text."""

    def fail(self, x):  # noqa: D102
        class Odd(Exception):
            def __init__(self):
                self.lock = threading.Lock()

            def __reduce__(self):
                raise TypeError("this cannot be pickled")

        raise Odd


class LeavesProcesses(Good):
    """Starts threads and processes that nobody ends, in sessions of their own too."""

    has_begun = False

    def fail(self, x):  # noqa: D102
        if LeavesProcesses.has_begun:
            return
        LeavesProcesses.has_begun = True
        for _ in range(20):
            threading.Thread(target=time.sleep, args=(1e6,)).start()
        for is_apart in (False, True):
            subprocess.Popen(["sleep", "1000000"], start_new_session=is_apart)


class Poison(Good):
    """Kills its worker, each time."""

    def fail(self, x):  # noqa: D102
        os.kill(os.getpid(), signal.SIGKILL)


ABLATION = Ablation(
    question="Is every failure named rightly, and does none disturb the others?",
    baseline=Model(mixer="faulty:Good", position="none"),
    axes=[vary("mixer", [f"faulty:{kind.__name__}" for kind in (Good, *Good.__subclasses__())])],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={
        "quick": Scale(dim=8, depth=1, length=49, steps=6, batch=100, num_evaluations=1, seeds=1)
    },
)
