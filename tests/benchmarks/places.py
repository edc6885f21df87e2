"""Define the devices and sizes of the measurements: a CPU in float32, a GPU in bfloat16."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import nn

from bakeoff.suite.probes.tensor_bytes import NewTensors, peak_bytes
from bakeoff.suite.provenance import cpu_model


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of an input, and of the mixer that takes it."""

    batch: int
    length: int
    dim: int
    heads: int

    def __str__(self) -> str:
        return f"{self.batch} × {self.length}"


@dataclass(frozen=True, kw_only=True)
class Place:
    """A device, with the types and sizes that suit it.

    Attributes:
        device: The device's name in torch.
        dtype: The type of parameters and inputs.
        shapes: The shapes of the tables; a pass takes about a tenth of a second at most.
        lengths: The lengths at which mixers that should be linear in the length are timed.
    """

    device: str
    dtype: torch.dtype
    shapes: tuple[Shape, ...]
    lengths: tuple[int, ...] = (1024, 2048, 4096, 8192, 16384)

    def settle(self) -> None:
        """Wait until the device has finished its queued work."""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)

    def peak_bytes(self, one_pass: Pass) -> int:
        """Return the peak memory of a pass in bytes, beyond parameters and the input.

        On a CPU it is counted from the profiler's events, on a GPU by the allocator.
        """
        one_pass()  # allocates what is kept between passes
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
    """Return the GPU if there is one, else the CPU."""
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
    """A forward and a backward pass in training mode, to the input too, as within a stack."""

    def __init__(self, module: nn.Module, shape: Shape, place: Place, dtype: torch.dtype) -> None:
        self.module = module.to(place.device, dtype).train()
        drawn = torch.Generator().manual_seed(1)
        sizes = (shape.batch, shape.length, shape.dim)
        self.x = torch.randn(sizes, generator=drawn).to(place.device, dtype).requires_grad_()
        self.gradient = torch.randn(sizes, generator=drawn).to(place.device, dtype)

    def clear(self) -> None:
        """Drop the gradients, as an optimiser does between steps."""
        self.module.zero_grad(set_to_none=True)
        self.x.grad = None

    def __call__(self) -> None:
        self.clear()
        self.module(self.x).backward(self.gradient)
