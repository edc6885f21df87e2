"""Check that products in bfloat16 stay within its rounding, and where they are taken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bakeoff.models import build_mixer
from bakeoff.models.kernels.half_products import Product, half_product, product_for
from bakeoff.models.kernels.matrix_state import Streams, recurrent
from bakeoff.models.kernels.removal_state import (
    STEEPEST,
    RemovalStreams,
    chunked_removal,
    recurrent_removal,
)
from bakeoff.models.kernels.state_chunks import chunked

LENGTH, KEY, VALUE = 100, 8, 16
CLOSE = 0.02  # five times the spacing of numbers in bfloat16; sums over time need the most
FORMS = {  # numbers of a decay, and whether there is a delta rule
    "simple_gla": (1, False),
    "gla": (KEY, False),
    "delta_rule": (0, True),
    "gated_delta_rule": (1, True),
    "kda": (KEY, True),
    "rwkv7": (KEY, True),
}
DECAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "usual": lambda x: -functional.softplus(x - 2),
    "almost none": lambda x: -1e-6 * x.abs(),
    "all at once": lambda x: -1e3 * x.abs(),
    "now and then": lambda x: torch.where(x > 1, -50.0, -1e-3) * x.abs(),
}


def streams(form: str, decay: str = "usual", heads: int = 2) -> Streams:
    """Draw streams of bfloat16 numbers."""
    generator, (width, has_delta) = torch.Generator().manual_seed(0), FORMS[form]

    def draw(width: int, heads: int = heads) -> Tensor:
        return torch.randn(2, heads, LENGTH, width, generator=generator)

    log_decay = DECAYS[decay](draw(width, 2)) if width else None
    rounded = {
        "queries": draw(KEY),
        "keys": functional.normalize(draw(KEY), dim=-1),
        "values": draw(VALUE, 2),
    }
    if form == "rwkv7":
        assert log_decay is not None
        found = functional.normalize(draw(KEY), dim=-1)
        rounded |= {"found": found, "erased": found / 2}
        log_decay = log_decay.clamp(min=-STEEPEST)
    elif has_delta:
        rounded["strength"] = draw(1).sigmoid()
    made: Any = RemovalStreams if form == "rwkv7" else Streams
    return made(log_decay=log_decay, **{k: x.bfloat16().float() for k, x in rounded.items()})


def in_chunks(form: str, read: Any, multiply: Product) -> Tensor:
    if form == "rwkv7":
        return chunked_removal(read, size=32, product=multiply)
    return chunked(read, has_delta=FORMS[form][1], size=32, product=multiply)


def defined(form: str, read: Any) -> Tensor:
    return recurrent_removal(read) if form == "rwkv7" else recurrent(read, has_delta=FORMS[form][1])


def slopes(compute: Callable[[Streams], Tensor], read: Streams) -> list[Tensor]:
    """Return the output, and the gradients by all streams."""
    read = read.each(lambda x: x.detach().requires_grad_())
    outputs = compute(read)
    weights = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1))
    inputs = [part for part in vars(read).values() if part is not None]
    return [outputs, *torch.autograd.grad(outputs, inputs, weights.to(outputs))]


@pytest.mark.parametrize(
    ("dtype", "device", "is_half"),
    [
        (torch.bfloat16, "cuda", True),
        (torch.bfloat16, "cpu", False),
        (torch.float32, "cuda", False),
        (torch.float64, "cuda", False),
    ],
)
def test_only_bfloat16_on_a_gpu_is_multiplied_as_such(
    dtype: torch.dtype, device: str, is_half: bool
) -> None:
    assert product_for(dtype, device) is (half_product if is_half else torch.matmul)


def test_sums_are_in_float32() -> None:
    """Check with numbers whose products and sums only float32 can hold; a batch is broadcast."""
    a, b = torch.full((3, 1, 2, 300), 1.0078125), torch.full((1, 2, 300, 2), 1.0078125)
    a.requires_grad_()
    found = half_product(a, b)
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, a @ b, rtol=1e-6, atol=0)
    (slope,) = torch.autograd.grad(found, a, torch.ones_like(found))
    torch.testing.assert_close(slope, torch.full_like(a, 4 * 1.0078125), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("form", "decay"),
    [("delta_rule", "usual"), *product([form for form in FORMS if FORMS[form][0]], DECAYS)],
)
def test_any_decay_stays_within_the_rounding_of_bfloat16(form: str, decay: str) -> None:
    """Compare with the recurrence in float64: outputs, and gradients by each stream."""
    read = streams(form, decay)
    found = slopes(lambda read: in_chunks(form, read, half_product), read)
    exact = slopes(lambda read: defined(form, read), read.each(Tensor.double))
    for one, other in zip(found, exact, strict=True):
        assert (one - other).norm() <= CLOSE * other.norm()


@pytest.mark.parametrize(("form", "heads"), [*((form, 2) for form in FORMS), ("simple_gla", 1)])
def test_the_product_of_a_gpu_takes_the_same_shapes(form: str, heads: int) -> None:
    """Run on the device "meta", which has the product that a CPU lacks, and computes nothing.

    Only Mamba-2 has one head of keys for all heads.
    """
    read = streams(form, heads=heads)
    here, there = (
        slopes(lambda read: in_chunks(form, read, half_product), each)
        for each in (read, read.each(lambda x: x.to("meta")))
    )
    assert [(x.shape, x.dtype) for x in there] == [(x.shape, x.dtype) for x in here]


@pytest.mark.parametrize("name", ["kimi_delta", "rwkv7", "mamba2"])
def test_a_mixer_tells_the_dtype_of_its_maps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check what is asked for under autocast, where the streams are float32 again."""
    asked: list[tuple[torch.dtype, str]] = []

    def noted(dtype: torch.dtype, device: str) -> Product:
        asked.append((dtype, device))
        return torch.matmul

    monkeypatch.setattr("bakeoff.models.kernels.state_kernels.product_for", noted)
    mixer, x = build_mixer(name, dim=8, is_causal=True), torch.randn(1, 5, 8)
    mixer(x)
    with torch.autocast("cpu", torch.bfloat16):
        mixer(x)
    assert asked == [(torch.float32, "cpu"), (torch.bfloat16, "cpu")]
