"""Check properties of the gated delta rule that the reference does not cover."""

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from tests.models.small_models import tokens


def build(name: str, **given: object) -> Mixer:
    torch.manual_seed(0)
    return build_mixer(name, dim=8, is_causal=True, **given).double()


def test_without_its_decay_and_gate_it_is_delta_net() -> None:
    """Check that both are settings of one recurrence, with the same parameters and outputs."""
    gated = build("gated_delta", decay="none", output_gate="none", value_ratio=1.0)
    plain = build("delta_net")
    plain.load_state_dict(gated.state_dict())
    torch.testing.assert_close(plain(tokens()), gated(tokens()))


def test_with_a_channels_decay_and_a_low_gate_it_is_kimi_delta() -> None:
    kimi = build("kimi_delta")
    gated = build("gated_delta", decay="channel", output_gate="sigmoid", value_ratio=1.0)
    gated.load_state_dict(kimi.state_dict())
    torch.testing.assert_close(gated(tokens()), kimi(tokens()))


def test_steps_and_rates_start_where_the_paper_says() -> None:
    decay = build("gated_delta", heads=8).directions[0].decay
    steps = torch.nn.functional.softplus(decay.dt_bias)
    assert torch.all((steps > 0.0009) & (steps < 0.101))
    assert torch.all((decay.a_log.exp() > 0) & (decay.a_log.exp() < 16))
    assert decay.a_log.std() > 0


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"qk_norm": "none"}, "delta=True with qk_norm='none' lets the state grow without end"),
        ({"short_conv": 1}, "short_conv=1 is neither 0 nor at least 2"),
        ({"heads": 3}, "heads=3 does not divide key_ratio=1.0 times dim=8"),
        ({"chunk": 0}, "chunk=0 is below 1"),
    ],
)
def test_a_knob_without_sense_is_refused(knobs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build("gated_delta", **knobs)


def test_two_directions_need_even_heads() -> None:
    with pytest.raises(ModelError, match="gated_delta needs even heads for its two directions"):
        build_mixer("gated_delta", dim=8, heads=1)
