"""Check properties of the gated recurrent unit that the reference does not cover."""

import torch

from bakeoff.models import Mixer, build_mixer
from tests.models.small_models import tokens


def causal_gru() -> Mixer:
    torch.manual_seed(0)
    return build_mixer("gru", dim=8, is_causal=True).double()


def test_an_update_gate_forced_to_one_keeps_the_state() -> None:
    mixer = causal_gru()
    with torch.no_grad():
        mixer.network.get_parameter("bias_ih_l0")[8:16] = 1e3  # rows: reset, update, new
    state = (tokens()[:, :1],)
    output, (new,) = mixer.step(tokens()[:, 1], state)
    torch.testing.assert_close(new, state[0])
    torch.testing.assert_close(output, state[0][:, 0])
    assert torch.all(mixer(tokens()) == 0)  # the initial state is zero


def test_an_update_gate_forced_to_zero_and_a_closed_reset_gate_forget_everything() -> None:
    mixer = causal_gru()
    with torch.no_grad():
        mixer.network.get_parameter("bias_ih_l0")[:16] = -1e3
    alone = torch.cat([mixer(tokens()[:, t : t + 1]) for t in range(7)], dim=1)
    torch.testing.assert_close(mixer(tokens()), alone)


def test_equals_the_papers_form_where_the_note_says_so() -> None:
    """Check that r (U h) and U (r h) agree for a diagonal U without a bias."""
    mixer, x = causal_gru(), tokens()[0]
    with torch.no_grad():
        u, b_u = (mixer.network.get_parameter(key) for key in ("weight_hh_l0", "bias_hh_l0"))
        u[16:] = torch.diag(u[16:].diagonal())
        b_u[16:] = 0
    w, b = (mixer.network.get_parameter(key) for key in ("weight_ih_l0", "bias_ih_l0"))
    h, outputs = torch.zeros(8, dtype=torch.float64), []
    for x_t in x:
        r = torch.sigmoid(w[:8] @ x_t + b[:8] + u[:8] @ h + b_u[:8])
        z = torch.sigmoid(w[8:16] @ x_t + b[8:16] + u[8:16] @ h + b_u[8:16])
        h = z * h + (1 - z) * torch.tanh(w[16:] @ x_t + b[16:] + u[16:] @ (r * h))
        outputs.append(h)
    torch.testing.assert_close(mixer(x[None])[0], torch.stack(outputs))
