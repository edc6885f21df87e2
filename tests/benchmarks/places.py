"""Says where and at which sizes is measured: on a CPU in float32, on a GPU in bfloat16."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import nn

from suite.probes.tensor_bytes import NewTensors, peak_bytes
from suite.provenance import cpu_model


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Of an input, and of the mixer that takes it."""

    batch: int
    length: int
    dim: int
    heads: int

    def __str__(self) -> str:
        return f"{self.batch} × {self.length}"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A device, and what suits it.

    Attributes:
        device: As torch names it.
        dtype: Of parameters and inputs.
        shapes: Of the tables; about a tenth of a second a pass, at most.
        lengths: At which forms that should be linear in the length are timed.
    """

    device: str
    dtype: torch.dtype
    shapes: tuple[Shape, ...]
    lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384)

    def settle(self) -> None:
        """Waits until the device has done what it was told."""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)

    def peak_bytes(self, one_pass: Pass) -> int:
        """The most that lives at any time of a pass, beyond parameters and the input.

        On a CPU counted from the profiler's events, on a GPU by the allocator.
        """
        one_pass()  # what is kept from one pass to the next is made now
        one_pass.clear()
        if self.device == "cpu":
            return peak_bytes(one_pass, self.device, NewTensors())
        before = torch.cuda.memory_allocated()
        return peak_bytes(one_pass, self.device, NewTensors()) - before

    def __str__(self) -> str:
        name = str(self.dtype).removeprefix("torch.")
        if self.device != "cpu":
            return f"{torch.cuda.get_device_name(self.device)}, {name}"
        cores, threads = len(os.sched_getaffinity(0)), torch.get_num_threads()
        return f"{cpu_model()}, {cores} cores, {threads} threads, {name}"


def here() -> Place:
    """The GPU if there is one, else the CPU."""
    if torch.cuda.is_available():
        shapes = (
            Shape(batch=16, length=512, dim=512, heads=8),
            Shape(batch=4, length=4096, dim=512, heads=8),
        )
        return Place(device="cuda", dtype=torch.bfloat16, shapes=shapes)
    shapes = (
        Shape(batch=4, length=512, dim=256, heads=8),
        Shape(batch=1, length=2048, dim=256, heads=8),
    )
    return Place(device="cpu", dtype=torch.float32, shapes=shapes)


class Pass:
    """Forward and backward, to the input too, as inside a stack of layers; in training mode."""

    def __init__(self, module: nn.Module, shape: Shape, place: Place, dtype: torch.dtype) -> None:
        self.module = module.to(place.device, dtype).train()
        drawn = torch.Generator().manual_seed(1)
        sizes = (shape.batch, shape.length, shape.dim)
        self.x = torch.randn(sizes, generator=drawn).to(place.device, dtype).requires_grad_()
        self.gradient = torch.randn(sizes, generator=drawn).to(place.device, dtype)

    def clear(self) -> None:
        """Lets go of gradients, as an optimiser does between steps."""
        self.module.zero_grad(set_to_none=True)
        self.x.grad = None

    def __call__(self) -> None:
        self.clear()
        self.module(self.x).backward(self.gradient)
