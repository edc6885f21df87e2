"""Check properties of retention that the reference does not cover."""

import pytest
import torch

from bakeoff.models import ModelError, build_mixer
from tests.models.small_models import tokens


def test_it_is_attention_without_a_softmax_and_with_a_decay() -> None:
    """Compare with the paper's parallel form for one head: (Q K' * D) V, D_ts = (31/32)^(t-s)."""
    torch.manual_seed(0)
    mixer = build_mixer(
        "retention", dim=8, heads=1, is_causal=True, rotary=False, output_gate="none"
    )
    mixer, x = mixer.double(), tokens(70)
    queries, keys, values = mixer.directions[0].mixed(x).split([8, 8, 16], dim=-1)
    apart = torch.arange(70)[:, None] - torch.arange(70)
    decays = ((31 / 32) ** apart.double()).tril()
    read = (queries @ keys.transpose(1, 2) * decays) @ values / 8**0.5
    read = read / (read.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(mixer(x), mixer.output(read))


def test_keys_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(ModelError, match="rotary=True turns pairs, and keys have width 1"):
        build_mixer("retention", dim=8, heads=8)
