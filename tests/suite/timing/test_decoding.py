"""One more token: what is stepped, from which state, and who cannot."""

from __future__ import annotations

import pytest
import torch

from models import MIXERS, mixer_class
from models.mixers.attention import Attention
from suite.schema import Status
from suite.timing.decoding import decode_step
from suite.timing.passes import Missing, Pass
from tests.suite.timing.subjects import InPlace, Stepless, Unproven, alone, own

STEPPING = [name for name in MIXERS if mixer_class(name).supports_step]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("mixer", STEPPING)
def test_whoever_has_a_step_form_decodes(mixer: str) -> None:
    found = decode_step(alone(mixer), "cpu", 0)
    assert isinstance(found, Pass)
    found.run()


def test_a_step_is_taken_after_so_many_tokens_from_the_same_state_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []
    original = Attention.step

    def noted(self: Attention, x_t: torch.Tensor, state: tuple[torch.Tensor, ...]) -> object:
        lengths.append(max(part.shape[-2] for part in state))
        assert not torch.is_grad_enabled()
        return original(self, x_t, state)

    monkeypatch.setattr(Attention, "step", noted)
    found = decode_step(alone("attention", 16), "cpu", 0)
    assert lengths[:16] == list(range(16))
    lengths.clear()
    assert isinstance(found, Pass)
    for _ in range(3):
        found.run()
    assert lengths == [16, 16, 16]


@pytest.mark.parametrize(
    ("mixer", "reason"),
    [
        ("fnet", "fnet has no causal form: each output"),
        (own(Unproven), "Unproven has no causal form: it does not declare supports_causal"),
        (own(Stepless), "Stepless has no step form"),
        (own(InPlace), "InPlace changes its state in place, so no step can be taken again"),
    ],
)
def test_who_cannot_is_skipped_with_the_reason(mixer: str, reason: str) -> None:
    found = decode_step(alone(mixer), "cpu", 0)
    assert isinstance(found, Missing)
    assert found.status is Status.SKIPPED
    assert reason in found.reason


def test_nothing_is_built_for_who_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.timing.decoding.built", lambda *_: pytest.fail("was built"))
    assert isinstance(decode_step(alone("fnet"), "cpu", 0), Missing)


def test_a_knob_that_forbids_the_causal_form_is_a_reason() -> None:
    found = decode_step(alone("lstm", is_unidirectional=True), "cpu", 0)
    assert isinstance(found, Missing)
    assert "is_unidirectional=True is for mixers that are not causal" in found.reason
