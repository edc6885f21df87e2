"""Check the choice of the kernel of a matrix state, with a peer in place of the Triton kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import ModelError, build_mixer
from bakeoff.models.kernels import fla_kernels, state_kernels
from bakeoff.models.kernels.half_products import half_product
from bakeoff.models.kernels.state_kernels import (
    state_kernels_used,
    why_no_fla,
    why_no_state_kernel,
)
from bakeoff.models.mixer import Mixer
from bakeoff.suite.training.engines.capturable import why_not_captured
from tests.models.kernels.fla_peer import peer

MIXERS = {
    "retention": "simple_gla",
    "mamba2": "simple_gla",
    "gla": "gla",
    "delta_net": "delta_rule",
    "gated_delta": "gated_delta_rule",
    "kimi_delta": "kda",
    "rwkv7": "rwkv7",
}
has_gpu_and_fla = pytest.mark.skipif(
    not (torch.cuda.is_available() and state_kernels._IS_INSTALLED),
    reason="there is no CUDA device, or fla-core is not installed",
)


def built(name: str, **knobs: Any) -> Mixer:
    torch.manual_seed(0)
    return build_mixer(name, dim=64, heads=2, is_causal=True, max_length=100, **knobs)


def tokens(device: str = "cpu") -> Tensor:
    return torch.randn(2, 100, 64, generator=torch.Generator().manual_seed(1)).to(device)


@pytest.fixture(autouse=True)
def _nothing_compared() -> Iterator[None]:
    kept = dict(fla_kernels._trusted)
    fla_kernels._trusted.clear()
    yield
    fla_kernels._trusted.clear()
    fla_kernels._trusted.update(kept)


@pytest.fixture
def usable(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Return a function that lets a peer be used here, as if this were a GPU with the package."""

    def use(function: Callable[..., Any]) -> None:
        monkeypatch.setattr(state_kernels, "why_no_fla", lambda *_: "")
        monkeypatch.setattr(fla_kernels, "kernel_function", lambda _: function)

    return use


@pytest.mark.parametrize(
    ("dtype", "device", "width", "is_installed", "why"),
    [
        (torch.bfloat16, "cuda", 256, True, ""),
        (torch.bfloat16, "cpu", 64, True, "needs a GPU"),
        (torch.float32, "cuda", 64, True, "computes in bf16"),
        (torch.bfloat16, "cuda", 257, True, "keys of at most 256 channels, not 257"),
        (torch.bfloat16, "cuda", 64, False, "is not installed"),
    ],
)
def test_it_is_said_why_fla_cannot_be_used(
    dtype: torch.dtype,
    device: str,
    width: int,
    is_installed: bool,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_kernels, "_IS_INSTALLED", is_installed)
    said = why_no_fla(dtype, device, width)
    assert why in said
    assert bool(said) == bool(why)


@pytest.mark.parametrize("name", MIXERS)
def test_a_plan_and_a_cpu_refuse_fla_alone(name: str) -> None:
    for kernel in ("auto", "torch", "fla"):
        mixer = built(name, state_kernel=kernel)
        place = {"on_gpu": False, "precision": "float32", "is_masked": True}
        assert bool(mixer.why_not_on(mixer.config, **place)) == (kernel == "fla")
        if kernel == "fla":
            with pytest.raises(
                ModelError, match=r"state_kernel='fla' cannot be used: .* needs a GPU"
            ):
                mixer(tokens())
        else:
            assert torch.equal(mixer(tokens()), built(name)(tokens()))
    assert "in bf16, not in tf32" in why_no_state_kernel("fla", on_gpu=True, precision="tf32")
    assert why_no_state_kernel("fla", on_gpu=True, precision="bf16") == ""


def test_keys_that_are_too_wide_are_refused_before_anything_runs() -> None:
    with pytest.raises(ModelError, match="state_kernel='fla' takes keys of at most 256 channels"):
        build_mixer("mamba2", dim=8, state=257, state_kernel="fla")
    assert build_mixer("mamba2", dim=8, state=257)


@pytest.mark.parametrize("name", MIXERS)
def test_auto_takes_a_kernel_that_agrees(name: str, usable: Any) -> None:
    """Compare a whole mixer with one in torch; a padded token must not count."""
    usable(peer)
    mixer, mask = built(name), torch.arange(100).expand(2, -1) < torch.tensor([[100], [70]])
    with state_kernels_used() as used:
        found = mixer(tokens(), mask)
    assert used == {f"{MIXERS[name]} of flash-linear-attention"}
    expected = built(name, state_kernel="torch")(tokens(), mask)
    apart = (found - expected)[mask].norm() / expected[mask].norm()
    assert 0 < apart < 0.02


@pytest.mark.parametrize("name", ["gla", "rwkv7"])
@pytest.mark.parametrize("fault", ["output", "gradient", "nan", "error"])
def test_a_kernel_that_disagrees_is_not_used(name: str, fault: str, usable: Any) -> None:
    def wrong(**given: Any) -> tuple[Tensor, None]:
        if fault == "error":
            raise RuntimeError("out of resource: shared memory\nat line 7")
        if fault == "gradient":
            given["v"] = given["v"].detach() + 0 * given["v"]
        return peer(**given)[0] * {"output": 1.1, "nan": float("nan")}.get(fault, 1.0), None

    usable(wrong)
    why = {
        "output": rf"the output of {name} differs from that of torch by 10%",
        "gradient": rf"the gradient of values of {name} differs from that of torch by 100%",
        "nan": rf"the output of {name} differs from that of torch by nan%",
        "error": rf"{name} raises RuntimeError: out of resource: shared memory",
    }[fault]
    assert torch.equal(built(name)(tokens()), built(name, state_kernel="torch")(tokens()))
    with pytest.raises(ModelError, match=rf"{why}; state_kernel='auto' takes torch instead"):
        built(name, state_kernel="fla")(tokens())


def test_a_kernel_is_compared_once_for_its_widths_and_unseen(usable: Any) -> None:
    """Check that no mode around a step, no random number and no autocast meets the comparison."""
    calls: list[torch.dtype] = []

    def counted(**given: Any) -> tuple[Tensor, None]:
        calls.append(given["q"].dtype)
        return peer(**given)

    usable(counted)
    mixer, x, before = built("gla"), tokens(), torch.get_rng_state()
    with torch.autocast("cpu", torch.bfloat16):
        assert why_not_captured(lambda: mixer(x), "cpu") == ""
    assert torch.equal(torch.get_rng_state(), before)
    assert len(calls) == 2
    mixer(tokens())
    assert len(calls) == 3
    build_mixer("gla", dim=64, heads=4, is_causal=True)(tokens())  # heads of another width
    assert calls == [torch.bfloat16] * 5


def test_a_lack_of_memory_says_nothing_about_a_kernel(usable: Any) -> None:
    def full(**given: Any) -> tuple[Tensor, None]:
        raise torch.OutOfMemoryError("CUDA out of memory")

    usable(full)
    with pytest.raises(torch.OutOfMemoryError):
        built("gla")(tokens())
    usable(peer)
    assert built("gla", state_kernel="fla")(tokens()).isfinite().all()


@pytest.mark.gpu
@has_gpu_and_fla
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("name", MIXERS)
def test_a_gpu_takes_the_kernels(name: str, is_causal: bool) -> None:
    """Compare a mixer under autocast with one in torch, and capture both as CUDA graphs."""
    results, weights = [], torch.randn(2, 100, 64, device="cuda")
    for kernel, said in (("auto", MIXERS[name]), ("torch", "torch")):
        torch.manual_seed(0)
        mixer = build_mixer(
            name, dim=64, heads=4, is_causal=is_causal, max_length=100, state_kernel=kernel
        ).cuda()
        x = tokens("cuda").requires_grad_()

        def passes(mixer: Mixer = mixer, x: Tensor = x) -> Tensor:
            with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
                outputs = mixer(x)
            (slope,) = torch.autograd.grad(outputs, x, weights.to(outputs.dtype))
            return torch.stack([outputs.detach().float(), slope.float()])

        with state_kernels_used() as used:
            result = passes()
        assert used == {said if kernel == "torch" else f"{said} of flash-linear-attention"}
        passes()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = passes()
        graph.replay()
        torch.testing.assert_close(captured, result, rtol=1e-2, atol=1e-2)
        results.append(result)
    for one, other in zip(*results, strict=True):
        assert (one - other).norm() <= 0.05 * other.norm()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_gpu_multiplies_in_bfloat16_as_a_cpu_would() -> None:
    """Compare the products of a GPU, with float32 sums, with the same in torch on a CPU."""
    drawn = torch.Generator().manual_seed(0)
    a, b = (torch.randn(3, 1, 40, 24, generator=drawn) for _ in range(2))
    a, b = a.requires_grad_(), b.mT.expand(-1, 5, -1, -1).contiguous().requires_grad_()
    results = []
    for device in ("cpu", "cuda"):
        product = half_product(a.to(device), b.to(device))
        assert product.dtype is torch.float32
        weights = torch.ones_like(product).cumsum(-1)
        slopes = torch.autograd.grad((product * weights).sum(), [a, b])
        results.append([product.cpu(), *slopes])
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-4)
