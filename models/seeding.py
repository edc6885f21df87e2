"""How do two variants of one seed start alike? Each part draws from a generator of its own.

Were all parts drawn from one stream, a mixer with one more parameter would shift every later
draw, and two variants with the same seed would differ in their embeddings too. Here a part's
stream depends on the seed and on the part's name only, so that parts of equal name and shape
start equal in every variant: paired seeds pair the noise of initialisation as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class PartSeeds:
    """Seeds for the parts of one model; takes one draw from torch's global CPU generator.

    One draw, so that two models built one after the other differ, as anyone expects. Models are
    initialised on the CPU and moved afterwards; on another device the parts are not paired.
    """

    def __init__(self) -> None:
        self._base = int(torch.randint(2**62, (), device="cpu"))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Whatever is initialised inside draws from the stream of this part."""
        digest = hashlib.sha256(f"{self._base}:{name}".encode()).digest()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int.from_bytes(digest[:7], "big"))
            yield
