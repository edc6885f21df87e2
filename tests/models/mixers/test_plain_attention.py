"""Check properties of attention without parameters that the reference does not cover."""

import pytest
import torch

from bakeoff.models import build_mixer
from tests.models.small_models import tokens


@pytest.mark.parametrize("scale", ["none", "1/sqrt(d)"])
def test_is_attention_with_one_head_and_identities_for_projections(scale: str) -> None:
    plain, x = build_mixer("plain_attention", dim=8, scale=scale), tokens()
    attention = build_mixer("attention", dim=8, heads=1, scale=scale).double()
    for linear in (attention.query, attention.key, attention.value, attention.output):
        linear.weight.data = torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(plain(x), attention(x))
    torch.testing.assert_close(plain.attention_weights(x), attention.attention_weights(x))


def test_a_rotation_of_the_tokens_rotates_the_outputs() -> None:
    """Check that no direction is special without parameters."""
    mixer, x = build_mixer("plain_attention", dim=8), tokens()
    rotation, _ = torch.linalg.qr(tokens(8)[0])
    torch.testing.assert_close(mixer(x @ rotation), mixer(x) @ rotation)
