"""Tests for GPU specifications, by name or measured on this machine."""

from __future__ import annotations

import pytest
import torch

from bakeoff.suite.errors import UsageError
from bakeoff.suite.planning import gpu_specs
from bakeoff.suite.planning.gpu_specs import GPU_SPECS, USUAL, gpu_spec, local_gpu


class Properties:
    total_memory = 80 * 2**30


def test_a_card_is_found_by_its_name_in_any_case() -> None:
    assert gpu_spec("A100") is GPU_SPECS["a100"]
    with pytest.raises(
        UsageError, match=r"no card 'h10'; did you mean 'h100'.* Allowed: a10, a100"
    ):
        gpu_spec("h10")


def test_without_a_name_it_is_that_of_this_machine_as_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not torch.cuda.is_available():
        assert gpu_spec(None) is USUAL
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Card 9000")
    peaks = {"float32": 1.0, "tf32": 2.0, "bf16": 3.0}
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties())
    monkeypatch.setattr(gpu_specs, "clock_of", lambda device: None)
    monkeypatch.setattr(gpu_specs, "matrix_peak", lambda clock, device, precision: peaks[precision])
    local_gpu.cache_clear()
    try:
        found = gpu_spec(None)
    finally:
        local_gpu.cache_clear()
    assert (found.title, found.memory_bytes) == ("Card 9000", Properties.total_memory)
    assert found.flops_per_second == peaks


def test_every_card_knows_every_precision_and_is_no_slower_with_less() -> None:
    for card in GPU_SPECS.values():
        exact, tf32, bf16 = (card.flops_per_second[p] for p in ("float32", "tf32", "bf16"))
        assert 1e12 < exact <= tf32 <= bf16


@pytest.mark.parametrize(
    ("gib", "share"),
    [(0.1, 1 / 64), (2, 1 / 16), (8, 1 / 8), (9, 1 / 4), (34, 1 / 2), (36, 1.0), (90, 1.0)],
)
def test_a_share_is_the_least_that_holds_a_trial_and_its_context(gib: float, share: float) -> None:
    assert GPU_SPECS["h100"].share_for(round(gib * 2**30)) == share
