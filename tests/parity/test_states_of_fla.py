"""Check that our recurrences, in chunks, equal the definitions in flash-linear-attention.

The package gives each of its kernels a plain form in torch. The arguments are those that our
adapter makes for the kernels. The package is not imported as a whole, since that takes Triton,
which torch for CPUs lacks. `make parity-test` installs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models.kernels.fla_kernels import kernel_arguments, kernel_name
from bakeoff.models.kernels.matrix_state import Streams
from bakeoff.models.kernels.removal_state import STEEPEST, RemovalStreams, chunked_removal
from bakeoff.models.kernels.state_chunks import chunked
from tests.benchmarks.state_peers import in_double

pytestmark = pytest.mark.parity

LENGTH, KEY, VALUE = 70, 8, 16
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
# Kernel: the file of its plain form, the numbers of a decay, whether there is a delta rule.
FORMS = {
    "simple_gla": ("simple_gla", 1, False),
    "gla": ("gla", KEY, False),
    "delta_rule": ("delta_rule", 0, True),
    "gated_delta_rule": ("gated_delta_rule", 1, True),
    "kda": ("kda", KEY, True),
    "rwkv7": ("generalized_delta_rule/dplr", KEY, True),
}


def plain(kernel: str) -> Callable[..., tuple[Tensor, Any]]:
    """Return the plain form of a kernel, with the arguments of the kernel."""
    found = find_spec("fla")
    assert found is not None, "fla-core is not installed"
    (folder,) = found.submodule_search_locations or ()
    file = Path(folder) / "ops" / FORMS[kernel][0] / "naive.py"
    spec = spec_from_file_location(f"naive_{kernel}", file)
    assert spec is not None
    assert spec.loader is not None
    theirs = module_from_spec(spec)
    spec.loader.exec_module(theirs)
    grow = KEY**0.5  # some divide queries by it, whatever scale is asked for
    return {
        "simple_gla": lambda **given: theirs.naive_recurrent_simple_gla(**given),
        "gla": lambda q, k, v, g, scale: theirs.naive_recurrent_gla(q * grow, k, v, g),
        "delta_rule": lambda q, k, v, beta, scale: _turned(
            theirs.delta_rule_recurrence, q * grow, k, v, beta.unsqueeze(-1)
        ),
        "gated_delta_rule": lambda **given: theirs.naive_recurrent_gated_delta_rule(**given),
        "kda": lambda **given: theirs.naive_recurrent_kda(**given),
        "rwkv7": lambda r, w, k, v, a, b, scale, lower_bound: _turned(
            theirs.dplr_recurrence, r * grow, k, v, a, b, w
        ),
    }[kernel]


def _turned(form: Callable[..., Any], *given: Tensor) -> tuple[Tensor, None]:
    """Call a form whose heads are before the time."""
    return form(*(part.transpose(1, 2) for part in given))[0].transpose(1, 2), None


@contextmanager
def in_plain_double() -> Iterator[None]:
    with in_double(), mock.patch.object(torch, "float", torch.float64):
        yield


def streams(kernel: str, dtype: torch.dtype) -> Any:
    generator, (_, width, _) = torch.Generator().manual_seed(0), FORMS[kernel]

    def draw(width: int) -> Tensor:
        return torch.randn(2, 3, LENGTH, width, generator=generator, dtype=dtype)

    queries, keys, values = draw(KEY), functional.normalize(draw(KEY), dim=-1), draw(VALUE)
    log_decay = -functional.softplus(draw(width)) if width else None
    if kernel == "rwkv7":
        assert log_decay is not None
        found = functional.normalize(draw(KEY), dim=-1)
        return RemovalStreams(
            queries=queries,
            keys=keys,
            values=values,
            log_decay=log_decay.clamp(min=-STEEPEST),
            found=found,
            erased=found * draw(KEY).sigmoid(),
        )
    strength = draw(1).sigmoid()
    return Streams(
        queries=queries, keys=keys, values=values, log_decay=log_decay, strength=strength
    )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kernel", FORMS)
def test_a_recurrence_is_that_of_fla(kernel: str, dtype: torch.dtype) -> None:
    """Compare outputs, and gradients by all streams."""
    read, has_delta = streams(kernel, dtype), FORMS[kernel][2]
    assert kernel_name(read, has_delta=has_delta) == kernel
    parts = [getattr(read, field.name) for field in fields(read)]
    inputs = [part.requires_grad_() for part in parts if part is not None]
    with in_plain_double() if dtype is torch.float64 else nullcontext():
        given = kernel_arguments(read, has_delta=has_delta, dtype=dtype)
        expected = plain(kernel)(**given, scale=1.0)[0].transpose(1, 2)
        if kernel == "rwkv7":
            ours = chunked_removal(read, size=32)
        else:
            ours = chunked(read, has_delta=has_delta, size=32)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=dtype)
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(ours, expected, **close)
    slopes = (torch.autograd.grad(each, inputs, weights) for each in (ours, expected))
    torch.testing.assert_close(*slopes, **close)
