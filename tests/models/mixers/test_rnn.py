"""Check properties of the simple recurrent network that the reference does not cover."""

import math

import torch

from bakeoff.models import build_mixer


def test_without_a_way_back_there_is_no_memory() -> None:
    mixer = build_mixer("rnn", dim=8, is_causal=True)
    with torch.no_grad():
        mixer.network.get_parameter("weight_hh_l0").zero_()
    x = torch.randn(2, 7, 8, generator=torch.Generator().manual_seed(1))
    alone = torch.cat([mixer(x[:, t : t + 1]) for t in range(7)], dim=1)
    torch.testing.assert_close(mixer(x), alone)


def test_two_steps_by_hand() -> None:
    mixer = build_mixer("rnn", dim=1, is_causal=True).double()
    values = {"weight_ih": 2.0, "weight_hh": -1.0, "bias_ih": 0.25, "bias_hh": 0.5}
    mixer.load_state_dict(
        {
            f"rnn.{key}_l0": torch.full((1, 1) if "weight" in key else (1,), value)
            for key, value in values.items()
        }
    )
    first = math.tanh(2 * 0.1 + 0.25 + 0.5)
    second = math.tanh(2 * -0.3 + 0.25 - first + 0.5)
    expected = torch.tensor([[[first], [second]]], dtype=torch.float64)
    x = torch.tensor([[[0.1], [-0.3]]], dtype=torch.float64)
    torch.testing.assert_close(mixer(x), expected)
