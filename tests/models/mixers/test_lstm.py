"""Check properties of the LSTM that the reference does not cover."""

import torch

from bakeoff.models import Mixer, build_mixer
from tests.models.small_models import tokens


def causal_lstm() -> Mixer:
    torch.manual_seed(0)
    return build_mixer("lstm", dim=8, is_causal=True).double()


def test_a_forget_gate_forced_open_keeps_the_cell() -> None:
    """Check that with a closed input gate no input changes the cell."""
    mixer, x = causal_lstm(), tokens()
    with torch.no_grad():
        bias = mixer.network.get_parameter("bias_ih_l0")  # rows: input, forget, cell, output
        bias[:8], bias[8:16] = -1e3, 1e3
    hidden, cell = x[:, :1], x[:, 1:2]
    for t in range(2, 7):
        output, (hidden, new) = mixer.step(x[:, t], (hidden, cell))
        assert torch.equal(new, cell)
        assert torch.all(output.abs() < torch.tanh(cell[:, 0]).abs())  # the output gate is active
    assert torch.all(mixer(x) == 0)  # the initial state is zero


def test_a_forget_gate_forced_shut_keeps_nothing() -> None:
    mixer, x = causal_lstm(), tokens()
    with torch.no_grad():
        mixer.network.get_parameter("bias_ih_l0")[8:16] = -1e3
    hidden = x[:, :1]
    outputs = [mixer.step(x[:, 2], (hidden, cell))[0] for cell in (x[:, 3:4], x[:, 4:5])]
    assert torch.equal(*outputs)


def test_draws_its_parameters_in_torchs_order() -> None:
    """Check that a seed gives the same parameters as before the mixer had several layers."""
    torch.manual_seed(0)
    expected = torch.nn.LSTM(8, 4, batch_first=True, bidirectional=True).state_dict()
    torch.manual_seed(0)
    found = build_mixer("lstm", dim=8).state_dict()
    assert list(found) == [f"lstm.{key}" for key in expected]
    assert all(torch.equal(found[f"lstm.{key}"], value) for key, value in expected.items())


def test_a_forget_bias_is_added_to_the_forget_gate_and_nothing_else() -> None:
    """Check every layer and direction; the rows are input, forget, cell, output."""
    torch.manual_seed(0)
    plain = build_mixer("lstm", dim=8, layers=2).state_dict()
    torch.manual_seed(0)
    opened = build_mixer("lstm", dim=8, layers=2, forget_bias=1.0).state_dict()
    for name, values in plain.items():
        added = torch.zeros_like(values)
        if "bias_ih" in name:
            added[4:8] = 1.0
        torch.testing.assert_close(opened[name], values + added)
