"""Check properties of the linear Transformer that the reference does not cover."""

import pytest
import torch
from torch.nn import functional

from bakeoff.models import Mixer, build_mixer
from tests.models.small_models import tokens


def build(**given: object) -> Mixer:
    torch.manual_seed(0)
    return build_mixer("linear_transformer", dim=8, **given).double()


@pytest.mark.parametrize("is_causal", [False, True])
def test_one_head_is_attention_with_elu_plus_one_for_the_exponential(is_causal: bool) -> None:
    mixer, x = build(heads=1, is_causal=is_causal), tokens(70)
    queries, keys = (functional.elu(each(x)) + 1 for each in (mixer.query, mixer.key))
    weights = queries @ keys.transpose(1, 2)
    weights = weights.tril() if is_causal else weights
    expected = weights / weights.sum(dim=-1, keepdim=True) @ mixer.value(x)
    torch.testing.assert_close(mixer(x), mixer.output(expected))


def test_is_a_recurrent_network_over_chunks_and_their_borders() -> None:
    """Check the paper's title: one state of a fixed size, read after each token."""
    mixer, x = build(is_causal=True, chunk=16), tokens(70)
    state, outputs = mixer.initial_state(2), []
    for x_t in x.unbind(dim=1):
        output, state = mixer.step(x_t, state)
        outputs.append(output)
        assert [part.shape for part in state] == [(2, 4, 2, 3)]
    torch.testing.assert_close(torch.stack(outputs, dim=1), mixer(x))


def test_features_keep_their_digits_far_below_zero() -> None:
    """Check float32, where elu + 1 loses all digits: expm1(-20) + 1 is 0."""
    mixer = build()
    x = torch.tensor([-20.0, -5.0, 0.0, 5.0]).requires_grad_()
    phi = mixer.query_features(x)
    expected = torch.tensor([-20.0, -5.0, 0.0]).double().exp()
    torch.testing.assert_close(phi[:3].double(), expected, rtol=1e-6, atol=0)
    (slope,) = torch.autograd.grad(phi.sum(), x)
    torch.testing.assert_close(slope[:3].double(), expected, rtol=1e-6, atol=0)
    assert phi[3] == 6
    assert slope[3] == 1
