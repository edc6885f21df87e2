"""Check that a named kernel of attention is the one that runs, or that an error explains why."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import TorchDispatchMode

from bakeoff.models import ModelError, build_mixer
from bakeoff.models.kernels import attention_kernels
from tests.models.small_models import tokens

FLASH = "_scaled_dot_product_flash_attention_for_cpu"


class Operations(TorchDispatchMode):
    """The names of the operations that ran, with the arguments of each."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: dict[str, tuple[Any, ...]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ran[func._overloadpacket.__name__] = (args, kwargs)
        return func(*args, **(kwargs or {}))


def ran(kernel: str, mask: Tensor | None = None, **knobs: Any) -> dict[str, Any]:
    mixer = build_mixer("attention", dim=8, kernel=kernel, **knobs)
    with Operations() as operations:
        mixer(tokens().float(), mask).sum().backward()
    return operations.ran


@pytest.mark.parametrize("is_causal", [False, True])
def test_each_runs_by_name(is_causal: bool) -> None:
    fused, flash, written = (ran(k, is_causal=is_causal) for k in ("fused", "flash", "math"))
    assert FLASH in fused
    assert FLASH in flash
    assert FLASH not in written
    assert f"{FLASH}_backward" in flash
    assert f"{FLASH}_backward" not in written


def test_a_causal_sequence_without_padding_makes_no_mask() -> None:
    """Check that causality is passed as a flag: with a mask, a GPU has no flash kernel."""
    (*_, dropout, is_causal), named = ran("fused", is_causal=True)[FLASH]
    assert (dropout, is_causal) == (0.0, True)
    assert named.get("attn_mask") is None
    padded = torch.tensor([[True] * 7, [True] * 3 + [False] * 4])
    assert ran("fused", padded, is_causal=True)[FLASH][1]["attn_mask"].shape == (2, 1, 7, 7)


@pytest.mark.parametrize("kernel", ["cudnn", "efficient"])
def test_what_torch_does_not_have_here_is_one_sentence(kernel: str) -> None:
    mixer = build_mixer("attention", dim=8, kernel=kernel).bfloat16()
    with pytest.raises(ModelError) as refused:
        mixer(tokens().bfloat16())
    assert str(refused.value) == (
        f"kernel={kernel!r} cannot compute attention of torch.bfloat16 on this cpu, of keys "
        "[2, 4, 7, 2] and values [2, 4, 7, 2], without a mask; leave kernel out, and torch chooses"
    )


@pytest.mark.parametrize(
    ("kernel", "dtype", "asked"),
    [
        ("flash", torch.bfloat16, [SDPBackend.FLASH_ATTENTION]),
        ("flash", torch.float32, []),
        ("cudnn", torch.float16, [SDPBackend.CUDNN_ATTENTION]),
        ("cudnn", torch.float64, []),
        ("efficient", torch.float32, [SDPBackend.EFFICIENT_ATTENTION]),
        ("efficient", torch.float64, []),
        ("math", torch.float64, [SDPBackend.MATH]),
        ("fused", torch.bfloat16, []),
    ],
)
def test_on_a_gpu_numbers_too_wide_for_a_kernel_are_left_to_torch(
    kernel: Any, dtype: torch.dtype, asked: list[SDPBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check float32, in which bf16 models are scored, and float64, used before timing."""
    found: list[SDPBackend] = []
    monkeypatch.setattr(
        attention_kernels, "sdpa_kernel", lambda only: found.append(only) or nullcontext()
    )
    queries: Any = SimpleNamespace(is_cuda=True, dtype=dtype)
    with attention_kernels._only(kernel, queries):
        assert found == asked


@pytest.mark.parametrize(
    ("kernel", "where", "why"),
    [
        ("flash", {}, "computes in bf16, and precision is 'tf32'"),
        ("cudnn", {}, "computes in bf16, and precision is 'tf32'"),
        ("flash", {"precision": "bf16"}, ""),
        ("flash", {"precision": "bf16", "is_masked": True}, "takes no mask"),
        ("cudnn", {"precision": "bf16", "is_masked": True}, ""),
        ("efficient", {"is_masked": True}, ""),
        ("efficient", {"on_gpu": False}, "needs a GPU"),
        ("flash", {"on_gpu": False, "is_masked": True}, ""),
        (None, {}, ""),
        ("materialised", {}, ""),
    ],
)
def test_what_cannot_run_somewhere_is_known_before(
    kernel: str | None, where: dict[str, Any], why: str
) -> None:
    place = {"on_gpu": True, "precision": "tf32", "is_masked": False} | where
    said = attention_kernels.why_no_kernel(kernel, **place)
    assert why in said
    assert bool(why) == bool(said)
