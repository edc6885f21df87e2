"""Initialises each part of a model from a random stream of its own.

Were all parts drawn from one stream, a mixer with one more parameter would shift every later
draw, and two variants with the same seed would differ in their embeddings too. Here a part's
stream depends on the seed and on the part's path only, so that parts of equal path and shape
start equal in every variant: paired seeds pair the noise of initialisation as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from models.errors import ModelError


class PartSeeds:
    """Seeds for the parts of one model; takes one draw from torch's global CPU generator.

    One draw, so that two models built one after the other differ, as anyone expects. Models are
    initialised on the CPU and moved afterwards; on another device the parts are not paired.
    """

    def __init__(self) -> None:
        self._base = int(torch.randint(2**62, (), device="cpu"))
        self._prefix = ""
        self._drawn: set[str] = set()

    def within(self, prefix: str) -> PartSeeds:
        """The same seeds for the parts below `prefix`, as ``encoder`` of ``encoder.blocks.0.mlp``.

        A model with two stacks gives each a prefix; without one they would start as twins.
        """
        inner = PartSeeds.__new__(PartSeeds)
        inner._base, inner._drawn = self._base, self._drawn
        inner._prefix = f"{self._prefix}{prefix}."
        return inner

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Whatever is initialised inside draws from the stream of this part.

        Raises:
            ModelError: the part has been drawn before: two parts of one path start bit-identical.
        """
        path = self._prefix + name
        if path in self._drawn:
            raise ModelError(f"the part {path!r} is drawn twice; give each stack seeds.within(...)")
        self._drawn.add(path)
        digest = hashlib.sha256(f"{self._base}:{path}".encode()).digest()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int.from_bytes(digest[:7], "big"))
            yield
